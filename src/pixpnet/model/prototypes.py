"""The prototype layer g (Eq. 1): distances to every patch, the nearest patch of each prototype, its similarity."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from pixpnet.model.distances import DISTANCES
from pixpnet.model.pooling import Pooled, pool_distinct, pool_nearest
from pixpnet.model.similarities import SIMILARITIES, Similarity
from pixpnet.recipe import Architecture


@dataclass(frozen=True)
class Matches:
    """How a batch of images compares with every prototype.

    Attributes:
        scores: similarity of each prototype to the patch that speaks for it (`pooling`): its nearest one, or, with
            distinct pooling, the one that it got when its class shared out the patches.
        distances: distance of each prototype to that patch.
        best: where that patch is: the number of its cell, row by row.
        distance_maps: distance of each prototype to every patch; a patch is named by its top left cell.
        similarity: from distances to similarities.
        epsilon: of the similarity.
    """

    scores: Float[Tensor, "batch protos"]
    distances: Float[Tensor, "batch protos"]
    best: Int64[Tensor, "batch protos"]
    distance_maps: Float[Tensor, "batch protos rows cols"]
    similarity: Similarity
    epsilon: float

    @property
    def similarity_maps(self) -> Float[Tensor, "batch protos rows cols"]:
        """Similarity of each prototype to every patch; computed when asked for."""
        return self.similarity(self.distance_maps, self.epsilon)

    @property
    def best_cells(self) -> Int64[Tensor, "batch protos 2"]:
        """Row and column of the patch that speaks for each prototype."""
        cols = self.distance_maps.shape[-1]
        return torch.stack([self.best // cols, self.best % cols], dim=-1)


class PrototypeLayer(nn.Module):
    """Prototypes as parameters, and their comparison with embeddings.

    >>> layer = PrototypeLayer(2, Architecture(dim=3))
    >>> matches = layer(torch.rand(1, 3, 4, 5))
    >>> tuple(matches.scores.shape), tuple(matches.similarity_maps.shape)
    ((1, 2), (1, 2, 4, 5))
    """

    def __init__(self, num_prototypes: int, architecture: Architecture) -> None:
        super().__init__()
        kernel = (architecture.prototype_rows, architecture.prototype_cols)
        # The embeddings come out of a sigmoid, so this is where they live.
        self.prototypes = nn.Parameter(torch.rand(num_prototypes, architecture.dim, *kernel))
        self.distance = DISTANCES[architecture.distance]
        self.similarity = SIMILARITIES[architecture.similarity]
        self.epsilon = architecture.epsilon
        self.pooling = architecture.pooling
        self.per_class = architecture.prototypes_per_class
        self.separation = architecture.separation

    def forward(self, embeddings: Float[Tensor, "batch dim rows cols"]) -> Matches:
        """Compares every patch with every prototype, in float32 or better whatever the precision around it."""
        maps = self.distance_maps(embeddings)
        # Both similarities fall with the distance: the similarity of the smallest distance is the largest one.
        distances, best = self.pool(maps)
        scores = self.similarity(distances, self.epsilon)
        return Matches(scores, distances, best, maps, self.similarity, self.epsilon)

    def pool(self, maps: Float[Tensor, "batch protos rows cols"]) -> Pooled:
        """Which patch speaks for each prototype, and how far it is."""
        if self.pooling == "distinct":
            return pool_distinct(maps, self.per_class, self.separation)
        return pool_nearest(maps)

    def distance_maps(
        self, embeddings: Float[Tensor, "batch dim rows cols"]
    ) -> Float[Tensor, "batch protos positions_down positions_across"]:
        """The distance of every patch to every prototype.

        Raises:
            ValueError: if a prototype does not fit into the embeddings.
        """
        kernel, cells = self.prototypes.shape[-2:], embeddings.shape[-2:]
        if kernel[0] > cells[0] or kernel[1] > cells[1]:
            raise ValueError(
                f"prototypes of {kernel[0]} x {kernel[1]} cells do not fit into embeddings of {cells[0]} x {cells[1]}: "
                "use larger images, a cut with more cells, or smaller prototypes"
            )
        with torch.autocast(embeddings.device.type, enabled=False):
            exact = torch.promote_types(embeddings.dtype, torch.float32)
            return self.distance(embeddings.to(exact), self.prototypes.to(exact))

    def extra_repr(self) -> str:
        """What is printed of the layer."""
        protos, dim, rows, cols = self.prototypes.shape
        return f"{protos} prototypes of {rows} x {cols} cells, dim {dim}"

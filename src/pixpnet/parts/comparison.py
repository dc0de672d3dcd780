"""The comparison g (Eq. 1) of the cells of one grid with prototypes: measure, similarity and pooling under one roof.

image cells --measure--> maps --pooling--> a cell for each prototype --similarity--> scores

Everything that other rooms need to know about a comparison it says itself: what a match sees, how relevance is handed
on to channels, how much rounding a proof allows, what the least and largest similarity is.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from pixpnet.box import Box
from pixpnet.fields import Field
from pixpnet.parts.measures import Factors, Measure, Patches
from pixpnet.parts.pooling import Pooling
from pixpnet.parts.reasons import NoBounds
from pixpnet.parts.similarities import Similarity

Places = tuple[tuple[float, float], ...]
"""Rows and columns, between cells too, at which the parts of a patch are read; none where its cell says it all."""


class PatchesAt(NamedTuple):
    """Patches as they are compared with prototypes, and where their parts were read (no parts: at their cells)."""

    vectors: Float[Tensor, "*some dim kernel_rows kernel_cols"]
    places: Float[Tensor, "*some parts 2"]


class NoShares(ValueError):
    """A comparison whose similarity cannot be handed on to the channels of cells; the message says why."""


def as_places(places: Float[Tensor, "parts 2"]) -> Places:
    """The places as plain numbers, as records keep them."""
    return tuple((row, col) for row, col in places.tolist())


@dataclass(frozen=True)
class GridMatches:
    """How the cells of one grid compare with its prototypes; tensors only.

    Attributes:
        scores: what the decision gets.
        distances: the measure at the cell that speaks for each prototype.
        cells: the number of that cell, row by row.
        distance_maps: the measure at every cell; a patch of several cells is named by its top left one.
        background: the mean of the measure over all cells, where the pooling compares with it; else None.
        places: where in the grid (row and column) the parts of the patch at each cell are read, where that depends on
            the image; else None.
    """

    scores: Float[Tensor, "batch protos"]
    distances: Float[Tensor, "batch protos"]
    cells: Int64[Tensor, "batch protos"]
    distance_maps: Float[Tensor, "batch protos rows cols"]
    background: Float[Tensor, "batch protos"] | None = None
    places: Float[Tensor, "batch rows cols parts 2"] | None = None

    def places_at(self, image: int, cell: tuple[int, int]) -> Places:
        """Where the parts of the patch at one cell of an image are read; none where that is the same in all images."""
        return () if self.places is None else as_places(self.places[image, cell[0], cell[1]])


# So that torch.export, and whatever else takes results apart, finds the tensors.
torch.export.register_dataclass(GridMatches, serialized_type_name="pixpnet.GridMatches")


class Comparison(nn.Module):
    """Prototypes as parameters, and their comparison with the cells of a grid.

    >>> from pixpnet.parts import Cosine, Nearest, Reformulated
    >>> comparison = Comparison(torch.rand(2, 3, 1, 1), Cosine(), Reformulated(1e-6), Nearest())
    >>> matches = comparison(torch.rand(1, 3, 4, 5))
    >>> tuple(matches.scores.shape), tuple(matches.distance_maps.shape)
    ((1, 2), (1, 2, 4, 5))
    """

    #: Where what a patch sees depends on the image: of which patches `field_of` speaks, as the end of a sentence.
    moves: str | None = None

    def __init__(
        self,
        prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"],
        measure: Measure,
        similarity: Similarity,
        pooling: Pooling,
    ) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(prototypes)
        self.measure = measure
        self.similarity = similarity
        self.pooling = pooling

    def forward(self, embeddings: Float[Tensor, "batch dim rows cols"]) -> GridMatches:
        """Compares every patch with every prototype, in float32 or better whatever the precision around it."""
        self._refuse_too_small(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            factors = self._factors(embeddings)
            products = factors.products()
            maps = self.measure.maps_of(factors, products)
            # Similarities fall with the distance: the similarity of the smallest distance is the largest one.
            pooled = self.pooling(maps)
            if self._learns_from_cells(products):
                pooled = pooled._replace(distances=self.measure.at_cells(factors, products, pooled.cells))
        scores = self.pooling.scores(pooled, maps, self.similarity)
        return GridMatches(scores, pooled.distances, pooled.cells, maps, pooled.background)

    def distance_maps(
        self, embeddings: Float[Tensor, "batch dim rows cols"]
    ) -> Float[Tensor, "batch protos positions_down positions_across"]:
        """The measure between every patch and every prototype.

        Raises:
            ValueError: if a prototype does not fit into the embeddings.
        """
        self._refuse_too_small(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.measure.maps_of(factors := self._factors(embeddings), factors.products())

    def _factors(self, embeddings: Float[Tensor, "batch dim rows cols"]) -> Factors:
        exact = torch.promote_types(embeddings.dtype, torch.float32)
        return self.measure.factors(embeddings.to(exact), self.prototypes.to(exact))

    def _learns_from_cells(self, products: Float[Tensor, "batch protos rows cols"]) -> bool:
        """Whether gradients are gathered from the chosen cells: on the CPU, where that was measured to be faster."""
        compiled = torch.compiler.is_compiling() or torch.compiler.is_exporting()
        return products.requires_grad and products.device.type == "cpu" and self.kernel == (1, 1) and not compiled

    def _refuse_too_small(self, embeddings: Float[Tensor, "batch dim rows cols"]) -> None:
        kernel, cells = self.kernel, embeddings.shape[-2:]
        if kernel[0] > cells[0] or kernel[1] > cells[1]:
            raise ValueError(
                f"prototypes of {kernel[0]} x {kernel[1]} cells do not fit into embeddings of {cells[0]} x {cells[1]}: "
                "use larger images, a cut with more cells, or smaller prototypes"
            )

    def maps_to(
        self,
        embeddings: Float[Tensor, "batch dim rows cols"],
        prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"],
    ) -> Float[Tensor, "batch protos positions_down positions_across"]:
        """The measure between every patch and any prototypes, in the precision of what is given."""
        return self.measure.maps(embeddings, prototypes)

    def loss_distances(
        self, embeddings: Float[Tensor, "batch dim rows cols"], matches: GridMatches
    ) -> Float[Tensor, "batch protos"]:
        """What cluster and separation losses pull on: here the measure at the cells that speak."""
        return matches.distances

    @property
    def num_places(self) -> int:
        """How many parts of a patch are read where the image says; here none."""
        return 0

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of a prototype in cells."""
        return self.prototypes.shape[-2], self.prototypes.shape[-1]

    def field_of(self, cells: Field) -> Field:
        """What each patch that is compared with a prototype sees, from what each cell sees."""
        return cells.window(*self.kernel)

    def reads(self, cells: Bool[Tensor, "cells_down cells_across"]) -> Bool[Tensor, "rows cols"]:
        """Which patches read any of some cells, as `field_of` says of pixels."""
        rows, cols = self.kernel
        return cells.unfold(0, rows, 1).unfold(1, cols, 1).flatten(2).any(dim=2)

    def check(self, grid: tuple[int, int]) -> None:
        """Says before any training that a grid of so many patches down and across is too small.

        Raises:
            ValueError: if it is.
        """
        self.pooling.check(grid)

    def region(self, cell: tuple[int, int], field: Field, places: Places = ()) -> tuple[Box, ...]:
        """The only way from a match to pixels: what the patch at this cell sees, as disjoint boxes.

        Args:
            cell: row and column of the patch (of its top left cell).
            field: of patches (`field_of`).
            places: where its parts are read in the image in question (`GridMatches.places_at`); here none has any.
        """
        return tuple(Box(*box) for box in field.boxes(*cell))

    def patches(
        self,
        embeddings: Float[Tensor, "batch dim rows cols"],
        images: Int64[Tensor, "*some"],
        cells: Int64[Tensor, "*some"],
    ) -> PatchesAt:
        """The patches at some cells (row by row) of some images, as they are compared with prototypes."""
        height, width = self.kernel
        cols = embeddings.shape[-1] - width + 1
        device = embeddings.device
        down = (cells // cols)[..., None, None] + torch.arange(height)[:, None]
        across = (cells % cols)[..., None, None] + torch.arange(width)
        index = (axis.to(device) for axis in (images[..., None, None], down, across))
        vectors = embeddings.permute(0, 2, 3, 1)[tuple(index)].movedim(-1, -3)
        return PatchesAt(vectors, embeddings.new_zeros(*images.shape, 0, 2))

    def as_prototypes(self, patches: Float[Tensor, "*some kernel_rows kernel_cols"]) -> Tensor:
        """What embedded patches become when they take the places of prototypes: here they stay as they are."""
        return patches

    def shares(self, patches: Patches, prototypes: Patches) -> Patches:
        """What part each channel of each patch has in the similarity to its prototype."""
        return self.measure.shares(patches, prototypes, self.similarity)

    def tolerance(self, distance: float = 0.0) -> float:
        """How far rounding may move the measure at one cell where it has this value, in float32."""
        return self.measure.rounding(self.prototypes[0].numel(), distance)

    def bounds(self) -> tuple[float, float]:
        """The least and the largest possible similarity of a cell whose embedding has numbers between 0 and 1."""
        ends = torch.tensor(self.measure.range_for(self.prototypes.detach()), dtype=torch.float64)
        high, low = self.similarity(ends).tolist()
        return low, high

    def score_bounds(self) -> tuple[float, float]:
        """The least and the largest possible score of a prototype."""
        return self.pooling.score_bounds(*self.bounds())

    def scores_after(
        self, distances: Float[Tensor, "batch protos"], moved_to: Float[Tensor, "protos dim kernel_rows kernel_cols"]
    ) -> tuple[Float64[Tensor, "batch protos"], Float64[Tensor, "batch protos"]]:
        """Between which bounds scores lie when prototypes move, on images of which only the distances are known.

        Args:
            distances: to the prototypes as they are now.
            moved_to: where they move.

        Raises:
            NoBounds: if a distance does not decide its score.
        """
        if not self.pooling.independent:
            raise NoBounds(self.pooling.unbounded)
        prototypes, target = self.prototypes.detach().double(), moved_to.double()
        before = distances.detach().double()
        near, far = self.measure.after_move(before, prototypes, target)
        # Both the distances that are known and those to come are rounded.
        rounding = 2 * self.tolerance(float(before.min()))
        least, largest = (
            pick(old, new)
            for pick, old, new in zip(
                (min, max), self.measure.range_for(prototypes), self.measure.range_for(target), strict=True
            )
        )
        return self.similarity((far + rounding).clamp(least, largest)), self.similarity(
            (near - rounding).clamp(least, largest)
        )

    def comparable(self) -> Float[Tensor, "protos numbers"]:
        """Prototypes as vectors that are equal where the measure cannot tell them apart."""
        return self.measure.comparable(self.prototypes.detach().flatten(1).double())

    def after_step(self) -> None:
        """What must hold after every step of an optimizer: here nothing."""

    def extra_repr(self) -> str:
        """What is printed of it."""
        protos, dim, rows, cols = self.prototypes.shape
        return f"{protos} prototypes of {rows} x {cols} cells, dim {dim}"

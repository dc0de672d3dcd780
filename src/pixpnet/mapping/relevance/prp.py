"""The mapping: from a prototype's similarity at its cell to pixels (App. D compares it with the field mapping).

Layer-wise relevance propagation, begun at a prototype instead of a class. Where the receptive field says which pixels a
match could see, relevance says how much each of them had to do with it; outside the field it is exactly zero.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.mapping.relevance.errors import UnsupportedRelevance
from pixpnet.mapping.relevance.pixels import PixelBox
from pixpnet.mapping.relevance.propagation import ELEMENTS_AT_ONCE, Propagation
from pixpnet.mapping.scene import GridScene, Heatmaps, Scene, grid_by_grid
from pixpnet.model.modes import refuse_training_mode
from pixpnet.parts.comparison import NoShares
from pixpnet.tracing import RecordingError, record


def prp(scene: Scene) -> Heatmaps:
    """Prototypical relevance propagation: each prototype's similarity, divided among the pixels it was computed from.

    The relevance of a pixel is summed over its colours. It is never negative; over all pixels it sums to the
    similarity of the cell that speaks, less what biases alone account for. The region of a prototype is the exact field
    of that cell, the only place where relevance can be.

    One forward pass serves all prototypes of a grid, and one more through layers of positive weights alone. What is
    walked for each is the way back, through nothing but what its cell sees, side by side as far as that is little. The
    first image of a network (and of a size) takes two more passes, for the check that a recording needs (`record`).
    Memory: all activations twice, and the largest one a few times.

    Raises:
        ValueError: if the model is not in eval mode.
        UnsupportedRelevance: if relevance reaches an operation that has no rule, or the network's operations cannot be
            recorded.
        UnsupportedOperation: if the comparison cannot say how a similarity is shared by channels.

    Example:
        >>> from pixpnet import zoo
        >>> from pixpnet.data import Preprocessing
        >>> from pixpnet.mapping.scene import scene
        >>> from pixpnet.model import Backbone, PixPNet
        >>> from pixpnet.members.pixpnet import Architecture
        >>> backbone = Backbone(zoo.build("small-21"), "", (64, 64))
        >>> model = PixPNet(backbone, Architecture(dim=8), ("jay", "wren"), Preprocessing().scaled_to(64)).eval()
        >>> found = prp(scene(model, torch.randn(3, 64, 64), [0, 3]))
        >>> tuple(found.maps.shape), bool((found.maps >= 0).all())
        ((2, 64, 64), True)
    """
    refuse_training_mode(scene.model)
    return grid_by_grid(scene, lambda part: Heatmaps(_propagated(scene, part), scene.regions_of(part)))


def _propagated(scene: Scene, part: GridScene) -> Float[Tensor, "protos height width"]:
    with torch.no_grad(), torch.autocast(scene.image.device.type, enabled=False):
        try:
            recording = record(scene.model.embedding(part.grid.number), scene.image[None], owner=scene.model)
        except RecordingError as error:
            raise UnsupportedRelevance(f"relevance cannot be followed: {error}") from error
        back = Propagation(recording, PixelBox(recording, scene.model.preprocessing))
        begin = _relevance_of_embeddings(scene, part, recording.result[0])
        at_once = max(1, ELEMENTS_AT_ONCE // max(traced.shape.numel() for traced in recording.values))
        del recording  # what no rule reads is not needed any more
        maps = scene.image.new_zeros(len(part.places), *scene.size)
        some = [
            chosen
            for cell in part.cells.unique(dim=0)
            for chosen in (part.cells == cell).all(dim=1).nonzero().flatten().split(at_once)
        ]
        for chosen, pixels in zip(some, back.each([begin[chosen][:, None] for chosen in some]), strict=True):
            maps[chosen] = pixels.sum(dim=(1, 2))
        return maps


def _relevance_of_embeddings(
    scene: Scene, part: GridScene, embeddings: Float[Tensor, "dim rows cols"]
) -> Float[Tensor, "protos dim rows cols"]:
    """The similarity of each prototype, divided among the channels of the patch that speaks for it."""
    comparison, (height, width) = part.grid.comparison, part.grid.comparison.kernel
    result = embeddings.new_zeros(len(part.places), *embeddings.shape)
    for number, (index, (row, col)) in enumerate(zip(part.places, part.cells.tolist(), strict=True)):
        prototype = comparison.prototypes[scene.prototypes[index] - part.grid.first]
        patch = (..., slice(row, row + height), slice(col, col + width))
        try:
            shares = comparison.shares(embeddings[patch][None], prototype[None])
        except NoShares as error:
            raise UnsupportedRelevance(f"relevance cannot be followed: {error}") from error
        result[number][patch] = part.similarity_maps[number, row, col] * shares[0]
    return result

"""The mapping: from a prototype's similarity at its cell to pixels (App. D compares it with the field mapping).

Layer-wise relevance propagation, begun at a prototype instead of a class. Where the receptive field says which pixels a
match could see, relevance says how much each of them had to do with it; outside the field it is exactly zero.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.mapping.relevance.pixels import PixelBox
from pixpnet.mapping.relevance.rules import propagate
from pixpnet.mapping.relevance.tape import record
from pixpnet.mapping.scene import GridScene, Heatmaps, Scene, grid_by_grid

# Prototypes on their way back together. The largest activation is held a few times for each.
_AT_ONCE = 8


def prp(scene: Scene) -> Heatmaps:
    """Prototypical relevance propagation: each prototype's similarity, divided among the pixels it was computed from.

    The relevance of a pixel is summed over its colours. It is never negative; over all pixels it sums to the
    similarity of the cell that speaks, less what biases alone account for. The region of a prototype is the exact field
    of that cell, the only place where relevance can be.

    One forward pass serves all prototypes of a grid. Memory: all activations once, and the largest one a few times for
    each of the at most eight prototypes that are on their way together.

    Raises:
        ValueError: if the model is not in eval mode.
        UnsupportedRelevance: if relevance reaches an operation that has no rule.
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
    if any(module.training for module in scene.model.modules()):
        raise ValueError("relevance is that of a model that answers, and this one is in training mode: call .eval()")
    return grid_by_grid(scene, lambda part: Heatmaps(_propagated(scene, part), scene.regions_of(part)))


def _propagated(scene: Scene, part: GridScene) -> Float[Tensor, "protos height width"]:
    with torch.no_grad(), torch.autocast(scene.image.device.type, enabled=False):
        tape = record(scene.model.embedding(part.grid.number), scene.image[None])
        box = PixelBox(tape, scene.model.preprocessing)
        begin = _relevance_of_embeddings(scene, part, tape.result.value[0])
        return torch.cat([propagate(tape, some[:, None], box).sum(dim=(1, 2)) for some in begin.split(_AT_ONCE)])


def _relevance_of_embeddings(
    scene: Scene, part: GridScene, embeddings: Float[Tensor, "dim rows cols"]
) -> Float[Tensor, "protos dim rows cols"]:
    """The similarity of each prototype, divided among the channels of the patch that speaks for it."""
    comparison, (height, width) = part.grid.comparison, part.grid.comparison.kernel
    result = embeddings.new_zeros(len(part.places), *embeddings.shape)
    for number, (place, (row, col)) in enumerate(zip(part.places, part.cells.tolist(), strict=True)):
        prototype = comparison.prototypes[scene.prototypes[place] - part.grid.first]
        patch = (..., slice(row, row + height), slice(col, col + width))
        shares = comparison.shares(embeddings[patch][None], prototype[None])
        result[number][patch] = part.similarity_maps[number, row, col] * shares[0]
    return result

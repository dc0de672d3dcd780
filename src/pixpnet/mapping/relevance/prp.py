"""The mapping: from a prototype's similarity at its best cell to pixels (App. D compares it with the field mapping).

Layer-wise relevance propagation, begun at a prototype instead of a class. Where the receptive field says which pixels a
match could see, relevance says how much each of them had to do with it; outside the field it is exactly zero.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.box import Box
from pixpnet.mapping.relevance.pixels import PixelBox
from pixpnet.mapping.relevance.rules import propagate
from pixpnet.mapping.relevance.shares import SHARES
from pixpnet.mapping.relevance.tape import record
from pixpnet.mapping.scene import Heatmaps, Scene

# Prototypes on their way back together. The largest activation is held a few times for each.
_AT_ONCE = 8


def prp(scene: Scene) -> Heatmaps:
    """Prototypical relevance propagation: each prototype's similarity, divided among the pixels it was computed from.

    The relevance of a pixel is summed over its colours. It is never negative; over all pixels it sums to the
    similarity of the best cell, less what biases alone account for. The region of a prototype is the exact field of
    its best cell, the only place where relevance can be.

    One forward pass serves all prototypes. Memory: all activations once, and the largest one a few times for each of
    the at most eight prototypes that are on their way together.

    Raises:
        ValueError: if the model is not in eval mode.
        UnsupportedRelevance: if relevance reaches an operation that has no rule.

    Example:
        >>> from pixpnet import zoo
        >>> from pixpnet.data import Preprocessing
        >>> from pixpnet.mapping.scene import scene
        >>> from pixpnet.model import Backbone, PixPNet
        >>> from pixpnet.recipe import Architecture
        >>> backbone = Backbone(zoo.build("small-21"), "", (64, 64))
        >>> model = PixPNet(backbone, Architecture(dim=8), ("jay", "wren"), Preprocessing().scaled_to(64)).eval()
        >>> found = prp(scene(model, torch.randn(3, 64, 64), [0, 3]))
        >>> tuple(found.maps.shape), bool((found.maps >= 0).all())
        ((2, 64, 64), True)
    """
    model = scene.model
    if any(module.training for module in model.modules()):
        raise ValueError("relevance is that of a model that answers, and this one is in training mode: call .eval()")
    with torch.no_grad(), torch.autocast(scene.image.device.type, enabled=False):
        tape = record(model.embed, scene.image[None])
        box = PixelBox(tape, model.preprocessing)
        begin = _relevance_of_embeddings(scene, tape.result.value[0])
        maps = [propagate(tape, part[:, None], box).sum(dim=(1, 2)) for part in begin.split(_AT_ONCE)]
    field = model.field_at(scene.size)
    regions = tuple(tuple(Box(*box) for box in field.boxes(row, col)) for row, col in scene.best_cells.tolist())
    return Heatmaps(torch.cat([scene.image.new_zeros(0, *scene.size), *maps]), regions)


def _relevance_of_embeddings(
    scene: Scene, embeddings: Float[Tensor, "dim rows cols"]
) -> Float[Tensor, "protos dim rows cols"]:
    """The similarity of each prototype, divided among the channels of the patch that it was found at."""
    layer, how = scene.model.prototype_layer, scene.model.architecture
    result = embeddings.new_zeros(len(scene.prototypes), *embeddings.shape)
    for number, (prototype, (row, col)) in enumerate(zip(scene.prototypes, scene.best_cells.tolist(), strict=True)):
        cells = (..., slice(row, row + how.prototype_rows), slice(col, col + how.prototype_cols))
        shares = SHARES[how.distance](
            embeddings[cells][None], layer.prototypes[prototype][None], layer.similarity, layer.epsilon
        )
        result[number][cells] = scene.similarity_maps[number, row, col] * shares[0]
    return result

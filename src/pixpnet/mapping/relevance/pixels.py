"""The values that pixels can have, followed through what a network does to them before its first convolution.

The rule of the first layer compares a pixel with the darkest and the brightest it could be. Some networks rescale
their input themselves (Inception slices, scales, shifts and concatenates the colours), so both ends are taken along.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from pixpnet.data import Preprocessing
from pixpnet.mapping.relevance.tape import Tape, Traced

aten = torch.ops.aten

# Operations that only move, scale and shift.
_AFFINE = (
    *(aten.add, aten.sub, aten.mul, aten.div, aten.cat, aten.slice, aten.select, aten.unsqueeze, aten.squeeze),
    *(aten.clone, aten.alias, aten.detach, aten.view, aten.permute, aten.constant_pad_nd),
)


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that each element can have."""

    low: Tensor
    high: Tensor


class PixelBox:
    """What is known of the tensors that are nothing but pixels, moved, scaled or shifted."""

    def __init__(self, tape: Tape, preprocessing: Preprocessing) -> None:
        """Follows black and white through a tape.

        Args:
            tape: begins with a normalised image.
            preprocessing: how it was normalised.
        """
        image = tape.image.value
        black, white = (
            torch.tensor(
                [(value - mean) / std for mean, std in zip(preprocessing.mean, preprocessing.std, strict=True)]
            )
            .to(image)
            .reshape(-1, 1, 1)
            for value in (0, 1)
        )
        # An image made of noise may lie outside.
        self._bounds = {tape.image: Bounds(torch.minimum(black, image), torch.maximum(white, image))}
        for step in tape.steps:
            if step.operation.overloadpacket not in _AFFINE or any(each not in self._bounds for each in step.inputs):
                continue
            ends = [
                step.again({each: getattr(self._bounds[each], end) for each in step.inputs}) for end in ("low", "high")
            ]
            for output, one, other in zip(step.outputs, *map(tree_leaves, ends), strict=True):
                # A negative factor exchanges them.
                self._bounds[output] = Bounds(torch.minimum(one, other), torch.maximum(one, other))

    def bounds(self, traced: Traced) -> Bounds | None:
        """The bounds of a tensor of pixels; None of anything else."""
        return self._bounds.get(traced)

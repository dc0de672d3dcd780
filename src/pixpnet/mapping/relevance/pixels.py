"""The values that pixels can have, followed through what a network does to them before its first convolution.

The rule of the first layer compares a pixel with the darkest and the brightest it could be. Some networks rescale
their input themselves (Inception slices, scales, shifts and concatenates the colours), so both ends are taken along.
"""

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from pixpnet.data import Preprocessing
from pixpnet.tracing import Recording, Traced, TracedStep
from pixpnet.tracing.program import tensors_in

aten = torch.ops.aten

_SUMS = (aten.add, aten.sub)
# Operations that only move, scale and shift, as long as no pixel is multiplied with, or divided by, another.
_AFFINE = (
    *(*_SUMS, aten.mul, aten.div, aten.cat, aten.slice, aten.select, aten.unsqueeze, aten.squeeze),
    *(aten.clone, aten.view, aten._unsafe_view, aten.permute, aten.index_select, aten.constant_pad_nd),
)


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that each element can have."""

    low: Tensor
    high: Tensor


class PixelBox:
    """What is known of the tensors that are nothing but pixels, moved, scaled or shifted."""

    def __init__(self, recording: Recording, preprocessing: Preprocessing) -> None:
        """Follows black and white through the operations of a network.

        Args:
            recording: of a normalised image.
            preprocessing: how it was normalised.
        """
        program = recording.program
        image = recording.values[program.image]
        black, white = (
            torch.tensor(
                [(value - mean) / std for mean, std in zip(preprocessing.mean, preprocessing.std, strict=True)]
            )
            .to(image)
            .reshape(-1, 1, 1)
            for value in (0, 1)
        )
        # An image made of noise may lie outside.
        self._bounds = {program.image: Bounds(torch.minimum(black, image), torch.maximum(white, image))}
        for step in program.steps:
            if not _is_affine(step) or any(traced not in self._bounds for traced in step.inputs):
                continue
            results = [tensors_in(step.again(ends)) for ends in self._corners(step)]
            for output, *values in zip(step.outputs, *results, strict=True):
                # A negative factor exchanges them.
                ends = torch.stack(values)
                self._bounds[output] = Bounds(ends.amin(dim=0), ends.amax(dim=0))

    def _corners(self, step: TracedStep) -> list[dict[Traced, Tensor]]:
        """The inputs where the results are the least and the greatest: all dark, all bright, or one against another."""
        inputs = list(dict.fromkeys(step.inputs))
        bounds = [(self._bounds[traced].low, self._bounds[traced].high) for traced in inputs]
        against = step.operation.overloadpacket in _SUMS
        chosen = product(*bounds) if against else zip(*bounds, strict=True)
        return [dict(zip(inputs, ends, strict=True)) for ends in chosen]

    def bounds(self, traced: Traced) -> Bounds | None:
        """The bounds of a tensor of pixels; None of anything else."""
        return self._bounds.get(traced)


def _is_affine(step: TracedStep) -> bool:
    operation = step.operation.overloadpacket
    one, other = (isinstance(step.arguments.get(name), Traced) for name in ("self", "other"))
    if operation is aten.mul:
        return not (one and other)
    return operation in _AFFINE and not (operation is aten.div and other)

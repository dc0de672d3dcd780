"""Layers with weights: an output's relevance is handed out by contributions that are not negative.

A contribution is an input times a weight, both of one sign. What the contributions to each output sum to is the same
for all prototypes: where they see much of a map it is computed once, of all of it, and where they see little, of that
alone. Only the way back is walked for each, side by side where they see rectangles of one size: weights are then read
once. Biases take part in no rule: relevance goes to what came from the image, and is lost only where nothing did (an
output all of whose inputs are 0).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.mapping.relevance.blocks import Blocks, blocks_of
from pixpnet.mapping.relevance.crops import Crop
from pixpnet.mapping.relevance.windows import Reach, reach

# Denominators are sums of parts that are not negative. Below this a sum is none, and its relevance is lost.
NOTHING = 1e-20


@dataclass(frozen=True)
class Geometry:
    """How a convolution that is not transposed moves over its input, as torch has it."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int

    def forward(self, values: Tensor, weight: Tensor, padding: Any = None) -> Tensor:
        """The convolution, without a bias."""
        padding = self.padding if padding is None else padding
        output: Tensor = torch.ops.aten.convolution(
            values, weight, None, self.stride, padding, self.dilation, False, [0], self.groups
        )
        return output

    def reach(self, crop: Crop, weight: Tensor, shape: torch.Size) -> Reach:
        """What outputs in a rectangle are computed from, in an input of this shape."""
        return reach(crop, shape, weight.shape[2:], self.stride, self.padding, self.dilation)

    def back(
        self,
        outputs: Tensor,
        crops: Sequence[Crop],
        weight: Tensor,
        shape: torch.Size,
        blocks: Blocks | None = None,
    ) -> list[Crop]:
        """From outputs to inputs of this shape, by the transpose of the map with this weight.

        Args:
            outputs: of all prototypes x images x channels x the rows and columns of a rectangle.
            crops: which of them are whose, and where; their values are not read.
            weight: of the map.
            shape: of the inputs.
            blocks: the same map, where it is faster.
        """
        protos = [len(crop.values) for crop in crops]
        batch = outputs.shape[1]
        if crops[0].is_whole and blocks is None:
            like = outputs.new_empty(len(outputs) * batch, *shape[1:])
            if len(shape) == 4:
                like = like.contiguous(memory_format=torch.channels_last)
            inputs = self._transposed(outputs.flatten(0, 1), like, weight, self.padding)
            return [Crop(part, shape) for part in inputs.unflatten(0, (-1, batch)).split(protos)]
        windows = [self.reach(crop, weight, shape) for crop in crops]
        if blocks is None:
            inputs = self._transposed(outputs.flatten(0, 1), windows[0].room(outputs), weight, [0])
        else:
            inputs = blocks(outputs.flatten(0, 1))[..., : windows[0].rows, : windows[0].cols]
        parts = inputs.unflatten(0, (-1, batch)).split(protos)
        return [window.clipped(part) for window, part in zip(windows, parts, strict=True)]

    def _transposed(self, outputs: Tensor, like: Tensor, weight: Tensor, padding: Any) -> Tensor:
        inputs: Tensor = torch.ops.aten.convolution_backward(
            outputs,
            like,  # only its shape is read
            weight,
            None,
            self.stride,
            padding,
            self.dilation,
            False,
            [0],
            self.groups,
            [True, False, False],
        )[0]
        return inputs


class Contributions:
    """Inputs and weights whose products are not negative: either all of them, or two kinds, one of each sign.

    Attributes:
        complete: every output is known to have some.
    """

    def __init__(self, parts: list[tuple[Tensor, Tensor]], geometry: Geometry, everywhere: bool) -> None:
        """The contributions of some parts.

        Args:
            parts: values of the layer's inputs and weights.
            geometry: of the layer.
            everywhere: what they sum to is computed at once, of all outputs; or else of those that are asked for.
        """
        self._shape, self._geometry = parts[0][0].shape, geometry
        if geometry.groups == 1 and len(parts) > 1:
            # One convolution of twice as many channels is the faster way, above all for the three of an image.
            values, weights = zip(*parts, strict=True)
            parts = [(torch.cat(values, dim=1), torch.cat(weights, dim=1))]
        self._parts = parts
        self._blocks = [blocks_of(weight, geometry.stride, geometry.dilation, geometry.groups) for _, weight in parts]
        self._sums = self._summed([geometry.forward(*part) for part in parts]) if everywhere else None
        self.complete = self._sums is not None and bool(self._sums.amin() > NOTHING)

    def sums(self, crops: Sequence[Crop]) -> list[Tensor]:
        """What the contributions to each output sum to, in rectangles of one size; `NOTHING` where they are none."""
        if self._sums is not None:
            return [crop.of(self._sums) for crop in crops]
        images = crops[0].values.shape[1]
        different = {crop.rectangle: crop for crop in crops}
        sums = []
        for values, weight in self._parts:
            windows = [self._geometry.reach(crop, weight, values.shape) for crop in different.values()]
            read = torch.cat([window.read(values, images) for window in windows])
            sums.append(self._geometry.forward(read, weight, [0]))
        sums_of = dict(zip(different, self._summed(sums).split(images), strict=True))
        return [sums_of[crop.rectangle] for crop in crops]

    def back(self, crops: Sequence[Crop], sums: Sequence[Tensor]) -> list[Crop]:
        """The relevance of the inputs: each has the share of an output's that it has in the sum; may overwrite crops.

        Args:
            crops: relevance of the outputs, in rectangles of one size.
            sums: of each rectangle.
        """
        share = crops[0].values if len(crops) == 1 and _is_dense(crops[0].values) else _room(crops)
        for part, crop, divisor in zip(share.split([len(crop.values) for crop in crops]), crops, sums, strict=True):
            torch.div(crop.values, divisor, out=part)
        shared: list[list[Tensor]] = [[] for _ in crops]
        for (values, weight), blocks in zip(self._parts, self._blocks, strict=True):
            inputs = self._geometry.back(share, crops, weight, values.shape, blocks)
            for pieces, part in zip(shared, inputs, strict=True):
                pieces += part.values.mul_(part.of(values)).split(self._shape[1], dim=2)
        totals = [pieces[0] if len(pieces) == 1 else torch.add(*pieces) for pieces in shared]
        return [replace(part, values=total, shape=self._shape) for part, total in zip(inputs, totals, strict=True)]

    @staticmethod
    def _summed(sums: list[Tensor]) -> Tensor:
        return torch.stack(sums).sum(dim=0).clamp_min_(NOTHING) if len(sums) > 1 else sums[0].clamp_min_(NOTHING)


class PositiveParts:
    """z+ (alpha 1, beta 0): each input has a share by its positive contribution, w x > 0.

    An output that has negative contributions only (it may still matter: behind a sigmoid, or a batch norm that shifts)
    is shared by those.
    """

    def __init__(
        self,
        values: Float[Tensor, "batch in_channels *cells"],
        weight: Tensor,
        geometry: Geometry,
        everywhere: bool,
    ) -> None:
        self._values, self._weight, self._geometry, self._everywhere = values, weight, geometry, everywhere
        self._contributions = _of_one_sign(values, weight, geometry, everywhere)
        self._opposite: Contributions | None = None

    def back(self, crops: Sequence[Crop]) -> list[Crop]:
        """The relevance of the inputs; the rectangles are of one size."""
        sums = self._contributions.sums(crops)
        if self._contributions.complete:
            return self._contributions.back(crops, sums)
        left = [
            replace(crop, values=torch.where(divisor <= NOTHING, crop.values, 0))
            for crop, divisor in zip(crops, sums, strict=True)
        ]
        results = self._contributions.back(crops, sums)
        for number, crop in enumerate(left):
            if crop.values.any():
                if self._opposite is None:
                    self._opposite = _of_one_sign(self._values, -self._weight, self._geometry, self._everywhere)
                (opposite,) = self._opposite.back([crop], self._opposite.sums([crop]))
                results[number] = results[number].plus(opposite)
        return results


class BeyondTheBounds:
    """zB: each pixel has a share by its contribution beyond the least that any value in its box could contribute."""

    def __init__(
        self,
        values: Float[Tensor, "batch in_channels *cells"],
        low: Tensor,
        high: Tensor,
        weight: Tensor,
        geometry: Geometry,
        everywhere: bool,
    ) -> None:
        # w x - w+ low - w- high, written so that no part is negative, whatever is rounded.
        parts = [(values - low, weight.clamp_min(0)), (values - high, weight.clamp_max(0))]
        self._contributions = Contributions(parts, geometry, everywhere)

    def back(self, crops: Sequence[Crop]) -> list[Crop]:
        """The relevance of the inputs; the rectangles are of one size."""
        return self._contributions.back(crops, self._contributions.sums(crops))


def _of_one_sign(values: Tensor, weight: Tensor, geometry: Geometry, everywhere: bool) -> Contributions:
    parts = [(values, weight.clamp_min(0))]
    if values.amin() < 0:
        # Behind a ReLU only positive weights contribute, which is half of the work.
        parts = [(values.clamp_min(0), weight.clamp_min(0)), (values.clamp_max(0), weight.clamp_max(0))]
    return Contributions(parts, geometry, everywhere)


def _is_dense(values: Tensor) -> bool:
    return values.ndim == 5 and values.permute(0, 1, 3, 4, 2).is_contiguous()


def _room(crops: Sequence[Crop]) -> Tensor:
    """A tensor for the values of all, prototypes behind one another; not to be read."""
    values, protos = crops[0].values, sum(len(crop.values) for crop in crops)
    if values.ndim != 5:
        return values.new_empty(protos, *values.shape[1:])
    images, channels, rows, cols = values.shape[1:]
    # Channels last, as networks are run.
    return values.new_empty(protos, images, rows, cols, channels).permute(0, 1, 4, 2, 3)

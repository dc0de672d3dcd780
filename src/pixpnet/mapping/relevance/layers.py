"""Layers with weights: an output's relevance is handed out by contributions that are not negative.

A contribution is an input times a weight, both of one sign. What the contributions to each output sum to is the same
for all prototypes, so it is computed once; only the way back is walked for each. Biases take part in no rule: relevance
goes to what came from the image, and is lost only where nothing did (an output all of whose inputs are 0).
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.mapping.relevance.crops import Crop
from pixpnet.mapping.relevance.windows import reach

# Denominators are sums of parts that are not negative. Below this a sum is none, and its relevance is lost.
NOTHING = 1e-20


@dataclass(frozen=True)
class Geometry:
    """How a convolution that is not transposed moves over its input, as torch has it."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int

    def forward(self, values: Tensor, weight: Tensor) -> Tensor:
        """The convolution, without a bias."""
        output: Tensor = torch.ops.aten.convolution(
            values, weight, None, self.stride, self.padding, self.dilation, False, [0], self.groups
        )
        return output

    def back(self, crop: Crop, weight: Tensor, shape: torch.Size) -> Crop:
        """From outputs to inputs of this shape, by the transpose of the map with this weight."""
        protos, batch = crop.values.shape[:2]
        if crop.is_whole:
            like = crop.values.new_empty(protos * batch, *shape[1:])
            if len(shape) == 4:
                like = like.contiguous(memory_format=torch.channels_last)
            inputs = self._transposed(crop.values, like, weight, self.padding)
            return Crop(inputs.unflatten(0, (protos, batch)), shape)
        window = reach(crop, shape, weight.shape[2:], self.stride, self.padding, self.dilation)
        inputs = self._transposed(crop.values, window.room(crop.values), weight, [0])
        return window.clipped(inputs.unflatten(0, (protos, batch)))

    def _transposed(self, outputs: Tensor, like: Tensor, weight: Tensor, padding: Any) -> Tensor:
        inputs: Tensor = torch.ops.aten.convolution_backward(
            outputs.flatten(0, 1),
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
        sums: of the products of each output; `NOTHING` where they are none.
    """

    def __init__(self, parts: list[tuple[Tensor, Tensor]], geometry: Geometry) -> None:
        """The sums of some parts.

        Args:
            parts: values of the layer's inputs and weights.
            geometry: of the layer.
        """
        self._shape, self._geometry = parts[0][0].shape, geometry
        if geometry.groups == 1 and len(parts) > 1:
            # One convolution of twice as many channels is the faster way, above all for the three of an image.
            values, weights = zip(*parts, strict=True)
            parts = [(torch.cat(values, dim=1), torch.cat(weights, dim=1))]
        self._parts = parts
        sums = [geometry.forward(values, weight) for values, weight in parts]
        self.sums = torch.stack(sums).sum(dim=0).clamp_min(NOTHING) if len(sums) > 1 else sums[0].clamp_min_(NOTHING)

    def back(self, crop: Crop) -> Crop:
        """The relevance of the inputs: each has the share of an output's that it has in the sum."""
        share = replace(crop, values=crop.values / crop.of(self.sums))
        shared: list[Tensor] = []
        for values, weight in self._parts:
            inputs = self._geometry.back(share, weight, values.shape)
            shared += inputs.values.mul_(inputs.of(values)).split(self._shape[1], dim=2)
        total = shared[0] if len(shared) == 1 else torch.add(*shared)
        return Crop(total, self._shape, inputs.top, inputs.left, inputs.first)


class PositiveParts:
    """z+ (alpha 1, beta 0): each input has a share by its positive contribution, w x > 0.

    An output that has negative contributions only (it may still matter: behind a sigmoid, or a batch norm that shifts)
    is shared by those.
    """

    def __init__(self, values: Float[Tensor, "batch in_channels *cells"], weight: Tensor, geometry: Geometry) -> None:
        self._values, self._weight, self._geometry = values, weight, geometry
        self._contributions = _of_one_sign(values, weight, geometry)
        nothing = self._contributions.sums <= NOTHING
        self._nothing = nothing if nothing.any() else None
        self._opposite: Contributions | None = None

    def back(self, crop: Crop) -> Crop:
        """The relevance of the inputs."""
        result = self._contributions.back(crop)
        if self._nothing is None:
            return result
        left = torch.where(crop.of(self._nothing), crop.values, 0)
        if not left.any():
            return result
        if self._opposite is None:
            self._opposite = _of_one_sign(self._values, -self._weight, self._geometry)
        return result.plus(self._opposite.back(replace(crop, values=left)))


def beyond_the_bounds(
    values: Float[Tensor, "batch in_channels *cells"], low: Tensor, high: Tensor, weight: Tensor, geometry: Geometry
) -> Contributions:
    """zB: each pixel has a share by its contribution beyond the least that any value in its box could contribute."""
    # w x - w+ low - w- high, written so that no part is negative, whatever is rounded.
    return Contributions([(values - low, weight.clamp_min(0)), (values - high, weight.clamp_max(0))], geometry)


def _of_one_sign(values: Tensor, weight: Tensor, geometry: Geometry) -> Contributions:
    parts = [(values, weight.clamp_min(0))]
    if values.min() < 0:
        # Behind a ReLU only positive weights contribute, which is half of the work.
        parts = [(values.clamp_min(0), weight.clamp_min(0)), (values.clamp_max(0), weight.clamp_max(0))]
    return Contributions(parts, geometry)

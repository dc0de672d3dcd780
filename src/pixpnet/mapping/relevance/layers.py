"""Layers with weights: zennit's rules, applied to a convolution that was recorded rather than to a module with hooks.

A rule of zennit says what to do with a layer's input and weights, with the relevance behind it, and with the product of
input and gradient. Its own hooks would need a forward pass for every prototype; here the image is passed through the
changed layer once, and only the way back is walked for every prototype. Biases take part in no rule: relevance goes to
what came from the image, and is lost only where nothing did (an output all of whose inputs are 0).
"""

import pixpnet._torchvision  # noqa: F401  isort: skip  before zennit imports torchvision

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from zennit.core import BasicHook, ParamMod
from zennit.rules import ClampMod, ZBox, ZPlus

# Denominators are sums of parts that are not negative. Below this a sum is none, and its relevance is lost.
NOTHING = 1e-20


class Convolution(nn.Module):
    """A convolution without its bias, as a linear map with a way back."""

    def __init__(self, weight: Tensor, how: tuple[Any, ...]) -> None:
        """A convolution that was seen.

        Args:
            weight: as the operation got it.
            how: stride, padding, dilation, transposed, output padding and groups.
        """
        super().__init__()
        self.weight = nn.Parameter(weight.detach(), requires_grad=False)
        self.how = how

    def forward(self, values: Float[Tensor, "batch in_channels *cells"]) -> Float[Tensor, "batch out_channels *out"]:
        """The convolution."""
        output: Tensor = torch.ops.aten.convolution(values, self.weight, None, *self.how)
        return output

    def back(
        self, outputs: Float[Tensor, "protos batch out_channels *out"], weight: Tensor, shape: torch.Size
    ) -> Float[Tensor, "protos batch in_channels *cells"]:
        """From outputs to inputs of this shape, by the transpose of the map with this weight."""
        protos, batch = outputs.shape[:2]
        like = outputs.new_empty(1).expand(protos * batch, *shape[1:])  # only its shape is read
        inputs, _, _ = torch.ops.aten.convolution_backward(
            outputs.flatten(0, 1), like, weight, None, *self.how, [True, False, False]
        )
        return inputs.unflatten(0, (protos, batch))  # type: ignore[no-any-return]


def by_positive_parts(
    layer: Convolution, values: Float[Tensor, "batch in_channels *cells"], relevance: Float[Tensor, "protos batch *out"]
) -> Float[Tensor, "protos batch in_channels *cells"]:
    """z+ (alpha 1, beta 0): each input has a share by its positive contribution, w x > 0.

    An output that has negative contributions only (it may still matter: behind a sigmoid, or a batch norm that shifts)
    is shared by those.
    """
    result, outputs = _apply(_z_plus(values), layer, values, relevance)
    sums = outputs[0] if len(outputs) == 1 else outputs[0] + outputs[1]
    if not (sums > NOTHING).all():
        left = torch.where(sums > NOTHING, 0, relevance)
        if left.any():
            opposite = Convolution(-layer.weight, layer.how)
            result = result + _apply(_z_plus(values), opposite, values, left).relevance
    return result


def by_distance_from_the_bounds(
    layer: Convolution,
    values: Float[Tensor, "batch in_channels *cells"],
    low: Tensor,
    high: Tensor,
    relevance: Float[Tensor, "protos batch *out"],
) -> Float[Tensor, "protos batch in_channels *cells"]:
    """zB: each pixel has a share by its contribution beyond the least that any value in its box could contribute."""
    return _apply(ZBox(low, high, stabilizer=_positive), layer, values, relevance).relevance


class _Applied(NamedTuple):
    relevance: Tensor
    outputs: list[Tensor]


def _apply(rule: BasicHook, layer: Convolution, values: Tensor, relevance: Tensor) -> _Applied:
    """The relevance of a layer's inputs by one of zennit's rules, and the outputs of the changed layers."""
    inputs, outputs, weights = [], [], []
    for change_input, change_weight in zip(rule.input_modifiers, rule.param_modifiers, strict=True):
        inputs.append(change_input(values))
        with ParamMod.ensure(change_weight)(layer) as changed:
            outputs.append(changed(inputs[-1]))
            weights.append(changed.weight)
    shares = rule.gradient_mapper(relevance, outputs)
    gradients = [layer.back(share, weight, values.shape) for share, weight in zip(shares, weights, strict=True)]
    return _Applied(rule.reducer(inputs, gradients), outputs)


def _z_plus(values: Tensor) -> BasicHook:
    if values.min() >= 0:
        # Behind a ReLU only positive weights contribute, which is half of the work.
        return BasicHook(
            param_modifiers=[ClampMod(min=0.0)],
            gradient_mapper=lambda relevance, outputs: [relevance / _positive(outputs[0])],
            reducer=lambda inputs, gradients: inputs[0] * gradients[0],
        )
    return ZPlus(stabilizer=_positive)


def _positive(sums: Tensor) -> Tensor:
    return sums.clamp_min(NOTHING)

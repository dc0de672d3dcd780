"""One rule for each operation: the layers that compute single cells of its result, never one for an architecture.

A rule gets the operation as it was recorded (`pixpnet.tracing`) and a `Probe` for each input, a sample of what changes
there, so that it can choose the cheaper of two ways. To add one, write a function and put it into `RULES` under torch's
name of the operation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pixpnet.metrics.ordering.layers import (
    AveragePool,
    Convolution,
    MaxPool,
    Product,
    ReplayLayer,
    Rowwise,
    TapSum,
    concatenate,
)
from pixpnet.metrics.ordering.versions import Versions
from pixpnet.metrics.ordering.windows import Window
from pixpnet.tracing import Traced, TracedStep
from pixpnet.tracing.program import pair

aten = torch.ops.aten

# A table of products has a row for each cell with room for every tap; beyond this size gathering is the better way.
_LARGEST_TABLE = 2**26
# Sums of products cost something too, so they must spare a fifth of the multiplications.
_WORTH_IT = 0.8


class NoIncrementalRule(LookupError):
    """A network cannot be evaluated step by step; the message says why."""


@dataclass(frozen=True)
class Probe:
    """An input of an operation: its shape (channels, rows, columns), and the versions of a sample of single pixels."""

    shape: tuple[int, int, int]
    versions: Versions


Rule = Callable[[TracedStep, Sequence[Probe]], tuple[ReplayLayer, ...]]


def layers_of(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    """The layers that compute an operation, each reading the one before it.

    Raises:
        NoIncrementalRule: if there is no rule for it.
    """
    if step.operation in RULES:
        return RULES[step.operation](step, inputs)
    if torch.Tag.pointwise in step.operation.tags:
        return _pointwise(step, inputs)
    raise NoIncrementalRule(f"no rule for {step.operation}")


def cells_of(traced: Traced) -> tuple[int, int, int]:
    """Channels, rows and columns of a tensor.

    Raises:
        NoIncrementalRule: if it does not have them.
    """
    if len(traced.shape) != 4 or traced.shape[0] != 1:
        raise NoIncrementalRule(f"a result has the shape {tuple(traced.shape)}, not channels, rows and columns")
    if not traced.dtype.is_floating_point:
        raise NoIncrementalRule(f"a result holds {traced.dtype}, not numbers with fractions")
    _, channels, rows, cols = traced.shape
    return channels, rows, cols


def _pointwise(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    """Whatever torch says computes each number from those in the same place, or from one number for all channels."""
    shape = cells_of(step.outputs[0])
    constants = [value for value in step.arguments.values() if isinstance(value, Tensor) and value.dim() > 0]
    if constants or not all(_fits(probe.shape, shape) for probe in inputs):
        raise NoIncrementalRule(f"no rule for {step.operation} of tensors with different rows and columns")
    channels, rows, cols = shape
    return (Rowwise(rows * cols, channels, step, len(inputs)),)


def _fits(given: tuple[int, int, int], result: tuple[int, int, int]) -> bool:
    return given[1:] == result[1:] and given[0] in (1, result[0])


def _convolution(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    weight, bias, groups = step["weight"], step["bias"], step["groups"]
    if step["transposed"] or not isinstance(step["input"], Traced) or not isinstance(weight, Tensor):
        raise NoIncrementalRule("no rule for a transposed convolution, or one whose kernel depends on the image")
    window = _window(step, inputs[0], weight.shape[2:], step["stride"], step["padding"], step["dilation"])
    taps, count = weight[0, 0].numel(), inputs[0].versions.count
    if groups > 1:
        return (Convolution(window, weight, bias, groups),)
    if window.is_pointwise:
        return (Product(count, weight.flatten(1).T, bias),)
    sums = TapSum(window, weight.shape[0], bias, weight.device)
    before, after = len(inputs[0].versions), len(sums.changed(inputs[0].versions))
    if before > _WORTH_IT * after or count * taps * weight.shape[0] * weight.element_size() > _LARGEST_TABLE:
        return (Convolution(window, weight, bias, 1),)
    # A cell's share in each tap is computed once for its version, not once for each of the cells that read it.
    return Product(count, weight.flatten(2).permute(1, 2, 0).flatten(1)), sums


def _batch_norm(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    weight, bias, mean, variance = (step[name] for name in ("weight", "bias", "running_mean", "running_var"))
    if step.get("training", False) or mean is None:
        raise NoIncrementalRule("no rule for a batch norm in training mode, which reads every pixel")
    epsilon = step["eps"]
    channels, rows, cols = cells_of(step.outputs[0])

    def normalize(values: Tensor) -> Tensor:
        return F.batch_norm(values, mean, variance, weight, bias, eps=epsilon)

    return (Rowwise(rows * cols, channels, normalize),)


def _max_pool(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    kernel, padding, dilation = step["kernel_size"], step.get("padding", 0), step.get("dilation", 1)
    window = _window(step, inputs[0], kernel, step.get("stride", []) or kernel, padding, dilation)
    return (MaxPool(window, inputs[0].shape[0], inputs[0].versions.keys.device),)


def _average_pool(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    kernel, divisor = step["kernel_size"], step.get("divisor_override", None)
    window = _window(step, inputs[0], kernel, step.get("stride", []) or kernel, step.get("padding", 0), 1)
    divisors = (
        _divisors(window, step.get("count_include_pad", True))
        if divisor is None
        else torch.full((window.count,), float(divisor))
    )
    return (AveragePool(window, inputs[0].shape[0], divisors.to(inputs[0].versions.keys.device)),)


def _mean(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    if step["dim"] not in ([1], [-3]) or not step.get("keepdim", False) or step.get("dtype", None) is not None:
        raise NoIncrementalRule("no rule for a mean that is not that of each cell over its channels")
    _, rows, cols = cells_of(step.outputs[0])
    return (Rowwise(rows * cols, 1, lambda values: values.mean(dim=1, keepdim=True)),)


def _concatenation(step: TracedStep, inputs: Sequence[Probe]) -> tuple[ReplayLayer, ...]:
    if step.get("dim", 0) not in (1, -3) or not all(isinstance(part, Traced) for part in step["tensors"]):
        raise NoIncrementalRule("no rule for a concatenation that is not one of the network's results along channels")
    _, rows, cols = cells_of(step.outputs[0])
    return (concatenate(rows * cols, [probe.shape[0] for probe in inputs]),)


RULES: Mapping[Any, Rule] = {
    aten.convolution.default: _convolution,
    aten.native_batch_norm.default: _batch_norm,
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten.avg_pool2d.default: _average_pool,
    aten.mean.dim: _mean,
    aten.cat.default: _concatenation,
}


def _window(step: TracedStep, probe: Probe, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Window:
    sizes = (pair(kernel), pair(stride), pair(padding), pair(dilation))
    return Window(probe.shape[1:], cells_of(step.outputs[0])[1:], *sizes)


def _divisors(window: Window, with_padding: bool) -> Tensor:
    """How many values torch divides by: those inside the image, or also its padding but nothing beyond that."""
    counts = []
    for axis in (0, 1):
        pad = window.padding[axis] if with_padding else 0
        starts = torch.arange(window.out_size[axis]) * window.stride[axis] - window.padding[axis]
        ends = (starts + window.kernel[axis]).clamp_max(window.size[axis] + pad)
        counts.append(ends - starts.clamp_min(-pad))
    return (counts[0][:, None] * counts[1]).flatten().float()

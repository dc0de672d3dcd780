"""Convolution, pooling, folding: windows that slide along the last axes."""

from collections.abc import Sequence

import numpy as np
import torch

from pixpnet.fields.errors import UnsupportedOperation
from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.rules.taps import adaptive_taps, transposed_taps, window_taps
from pixpnet.fields.sources import Sources

aten = torch.ops.aten


@rule(aten.convolution.default, aten._convolution.default)
def convolution(call: Call) -> Sources:
    """A window of the axes behind the channels, and the channels of one group."""
    weight = call["weight"].shape
    axes = len(weight) - 2
    sources = _read_group(call.sources("input"), call.shape[1], call["groups"])
    stride, padding = per_axis(call["stride"], axes), per_axis(call["padding"], axes)
    dilation = per_axis(call["dilation"], axes)
    slide = transposed_taps if call["transposed"] else window_taps
    for k in range(axes):
        dim = 2 + k
        taps = slide(sources.shape[dim], call.shape[dim], weight[dim], stride[k], padding[k], dilation[k])
        sources = sources.take(dim, taps)
    weights = _read_weight(call.sources("weight"), call["groups"], call["transposed"])
    per_channel = Sources.union([weights, call.sources("bias")])
    return Sources.union([sources, per_channel.reshape((1, -1, *[1] * axes))]) if per_channel.terms else sources


def _read_weight(weight: Sources, groups: int, transposed: bool) -> Sources:
    """Each output channel reads its own kernel, which may be computed from the input (dynamic convolution)."""
    if not transposed:
        return weight.reduce(range(1, len(weight.shape)), keepdim=False)
    if weight.terms and any(size > 1 for size in weight.shape[2:]):
        raise UnsupportedOperation(
            "a transposed convolution larger than 1 whose weight depends on the image has no receptive-field rule; "
            "cut the backbone before it"
        )
    kernels = weight.reduce(range(2, len(weight.shape)), keepdim=False)
    channels, width = kernels.shape
    return kernels.reshape((groups, channels // groups, width)).reduce([1], keepdim=False).reshape((-1,))


def _read_group(sources: Sources, out_channels: int, groups: int) -> Sources:
    """Each output channel reads every input channel of its group."""
    in_channels = sources.shape[1]
    if groups == 1:
        united = sources.reduce([1], keepdim=True)
        return united.expand((sources.shape[0], out_channels, *sources.shape[2:]))
    group_of = np.arange(out_channels) // (out_channels // groups)
    width = in_channels // groups
    return sources.take(1, group_of[:, None] * width + np.arange(width))


@rule(
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
    aten.max_pool1d.default,
    aten.max_pool2d.default,
    aten.max_pool3d.default,
)
def max_pool(call: Call) -> tuple[Sources, ...]:
    """A window of each channel; the indices read what the values read."""
    return (_pool(call),) * len(call.shapes)


@rule(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def avg_pool(call: Call) -> Sources:
    """A window of each channel."""
    return _pool(call)


def _pool(call: Call) -> Sources:
    sources = call.sources("self")
    taps = pool_taps(call)
    for k, windows in enumerate(taps):
        sources = sources.take(len(sources.shape) - len(taps) + k, windows)
    return sources


def pool_taps(call: Call) -> list[np.ndarray]:
    """The windows of a pooling along each of its axes, the last ones."""
    if "output_size" in call:
        shape = call.sources("self").shape
        return [adaptive_taps(shape[-k], call.shape[-k]) for k in range(len(call["output_size"]), 0, -1)]
    axes = int(call.operation._schema.name.split("pool")[1][0])
    sizes = call.sources("self").shape[-axes:]
    kernel = per_axis(call["kernel_size"], axes)
    stride = per_axis(call["stride"], axes) if call["stride"] else kernel
    padding, dilation = per_axis(call["padding"], axes), per_axis(call.get("dilation", 1), axes)
    windows = zip(sizes, call.shape[-axes:], kernel, stride, padding, dilation, strict=True)
    return [window_taps(*window) for window in windows]


@rule(
    aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool3d.default,
    aten.adaptive_avg_pool1d.default,
    aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d.default,
    aten.adaptive_max_pool1d.default,
)
def adaptive_pool(call: Call) -> tuple[Sources, ...]:
    """Windows that cover the axis evenly, overlapping where its length does not divide."""
    return (_pool(call),) * len(call.shapes)


@rule(aten.im2col.default)
def unfold(call: Call) -> Sources:
    """``F.unfold``: every window becomes a column."""
    sources = call.sources("self")
    batch = sources.shape[:-3]
    kernel, dilation = call["kernel_size"], call["dilation"]
    padding, stride = call["padding"], call["stride"]
    out = []
    for k in range(2):
        dim, size = len(batch) + 1 + k, sources.shape[len(batch) + 1 + k]
        reach = dilation[k] * (kernel[k] - 1) + 1
        out.append((size + 2 * padding[k] - reach) // stride[k] + 1)
        windows = window_taps(size, out[k], kernel[k], stride[k], padding[k], dilation[k])
        sources = sources.take(dim, windows.T.reshape(-1, 1))
    split = sources.reshape((*batch, sources.shape[len(batch)], kernel[0], out[0], kernel[1], out[1]))
    return split.transpose(-3, -2).reshape(call.shape)


@rule(aten.col2im.default)
def fold(call: Call) -> Sources:
    """``F.fold``: every pixel reads the entries of all windows that hold it."""
    sources = call.sources("self")
    batch, (height, width) = sources.shape[:-2], call["output_size"]
    kernel, dilation = call["kernel_size"], call["dilation"]
    padding, stride = call["padding"], call["stride"]
    counts = [
        (size + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) // stride[k] + 1
        for k, size in enumerate((height, width))
    ]
    sources = sources.reshape((*batch, -1, *kernel, *counts))
    sources = sources.transpose(-3, -2)
    sources = sources.reshape((*sources.shape[:-4], kernel[0] * counts[0], kernel[1] * counts[1]))
    for k, size in enumerate((height, width)):
        taps = transposed_taps(counts[k], size, kernel[k], stride[k], padding[k], dilation[k])
        # Window j of tap t stands at position t * count + j.
        sources = sources.take(k - 2, np.where(taps >= 0, np.arange(kernel[k]) * counts[k] + taps, -1))
    return sources


def per_axis(value: int | Sequence[int], axes: int) -> Sequence[int]:
    """One number for each axis."""
    values = [value] if isinstance(value, int) else list(value)
    return values * axes if len(values) == 1 else values

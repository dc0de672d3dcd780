"""Interpolation: which input positions an output position is mixed from.

The positions are computed as torch computes them, in the precision it uses, since a rounding error decides
which neighbours are read where an output falls exactly on an input position. A tap that is read with weight
0 is read all the same. In single precision this is what torch's CPU kernels do, size by size. In double
precision they round differently from one build to the next, and such a tie may be read from the other side.
"""

from typing import Any

import numpy as np
import torch

from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.rules.taps import interval_taps
from pixpnet.fields.sources import Sources
from pixpnet.fields.terms import Taps

aten = torch.ops.aten


@rule(aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default)
def nearest(call: Call) -> Sources:
    """The position that the output falls into."""
    return _resample(call, _nearest_taps, offset=0.0)


@rule(
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
)
def nearest_exact(call: Call) -> Sources:
    """The position that the centre of the output falls into."""
    return _resample(call, _nearest_taps, offset=0.5)


@rule(aten.upsample_linear1d.default, aten.upsample_bilinear2d.default, aten.upsample_trilinear3d.default)
def linear(call: Call) -> Sources:
    """Two neighbours along each axis."""
    return _resample(call, _linear_taps)


@rule(aten.upsample_bicubic2d.default)
def cubic(call: Call) -> Sources:
    """Four neighbours along each axis, repeated at the border."""
    return _resample(call, _cubic_taps)


@rule(aten._upsample_bilinear2d_aa.default)
def linear_antialiased(call: Call) -> Sources:
    """All positions under a triangle that widens with the reduction."""
    return _resample(call, _antialiased_taps, support=1.0)


@rule(aten._upsample_bicubic2d_aa.default)
def cubic_antialiased(call: Call) -> Sources:
    """All positions under a cubic kernel that widens with the reduction."""
    return _resample(call, _antialiased_taps, support=2.0)


def _resample(call: Call, taps_of: Any, **options: float) -> Sources:
    sources = call.sources("self")
    axes = len(call.shape) - 2
    real = np.float64 if call["self"].dtype == torch.float64 else np.float32
    for k in range(axes):
        dim = 2 + k
        size, out = sources.shape[dim], call.shape[dim]
        scale = _scale(call, k, axes, size, out, real)
        aligned = bool(call["align_corners"]) if "align_corners" in call else False
        sources = sources.take(dim, taps_of(size, out, scale, aligned, **options))
    return sources


def _scale(call: Call, axis: int, axes: int, size: int, out: int, real: type[np.floating[Any]]) -> Any:
    """Input positions per output position."""
    if call.get("align_corners"):
        return real(size - 1) / real(out - 1) if out > 1 else real(0)
    given = call["scales"] if axes == 1 else call[("scales_d", "scales_h", "scales_w")[axis - axes]]
    if given is not None and given > 0:
        return real(1.0 / given)
    return real(size) / real(out)


def _nearest_taps(size: int, out: int, scale: Any, aligned: bool, offset: float) -> Taps:
    index = np.arange(out).astype(type(scale))
    # For "nearest" torch takes two shortcuts, which a given scale factor would not lead to.
    if offset == 0.0 and out == size:
        position = np.arange(out)
    elif offset == 0.0 and out == 2 * size:
        position = np.arange(out) // 2
    else:
        position = np.floor((index + type(scale)(offset)) * scale).astype(np.int64)
    return np.asarray(np.minimum(position, size - 1)[:, None])


def _source_position(out: int, scale: Any, aligned: bool) -> np.ndarray:
    real, index = type(scale), np.arange(out).astype(type(scale))
    if aligned:
        return np.asarray(index * scale)
    if real is np.float32:
        # torch's kernels multiply and subtract in one step with one rounding; double precision does that here.
        return np.asarray((np.float64(scale) * (np.arange(out) + 0.5) - 0.5).astype(np.float32))
    return np.asarray((index + 0.5) * scale - 0.5)


def _linear_taps(size: int, out: int, scale: Any, aligned: bool) -> Taps:
    if size == out:
        return np.arange(out)[:, None]
    low = np.maximum(_source_position(out, scale, aligned), 0).astype(np.int64)
    low = np.minimum(low, size - 1)
    return np.stack([low, np.minimum(low + 1, size - 1)], axis=1)


def _cubic_taps(size: int, out: int, scale: Any, aligned: bool) -> Taps:
    base = np.floor(_source_position(out, scale, aligned)).astype(np.int64)
    return np.asarray(np.clip(base[:, None] + np.arange(-1, 3), 0, size - 1))


def _antialiased_taps(size: int, out: int, scale: Any, aligned: bool, support: float) -> Taps:
    if size == out:  # torch skips the axis
        return np.arange(out)[:, None]
    real = type(scale)
    reach = real(support) * max(scale, real(1.0))
    centre = scale * (np.arange(out).astype(real) + real(0.5))
    start = np.maximum((centre - reach + real(0.5)).astype(np.int64), 0)
    stop = np.minimum((centre + reach + real(0.5)).astype(np.int64), size)
    return interval_taps(start, stop)

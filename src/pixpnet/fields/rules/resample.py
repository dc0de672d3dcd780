"""Interpolation: which input positions an output position is mixed from.

Where an output falls exactly on an input position, a rounding error decides which neighbours are read, and torch
rounds differently by mode, by precision and by the processor's instructions. A formula of ours could only be nearly
right. So torch is asked: its own kernel resamples lines of NaN, one for each position of an axis, and where they come
out is what is read along that axis. A tap that is read with weight 0 is read all the same.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload

from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.rules.taps import relation_taps
from pixpnet.fields.sources import Sources
from pixpnet.shapes import Bool

aten = torch.ops.aten

# How many numbers to resample at once.
_CHUNK = 1 << 21


@rule(
    aten.upsample_nearest1d.default,
    aten.upsample_nearest2d.default,
    aten.upsample_nearest3d.default,
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
    aten.upsample_linear1d.default,
    aten.upsample_bilinear2d.default,
    aten.upsample_trilinear3d.default,
    aten.upsample_bicubic2d.default,
    aten._upsample_bilinear2d_aa.default,
    aten._upsample_bicubic2d_aa.default,
)
def resample(call: Call) -> Sources:
    """Neighbours along each axis apart: the weights of all modes are products of weights along the axes."""
    sources = call.sources("self")
    options = tuple(tuple(option) if isinstance(option, (list, tuple)) else option for option in call.args[1:])
    named = tuple(sorted(call.kwargs.items()))
    for axis in range(len(call.shape) - 2):
        reads = _reads(call.operation, axis, call["self"].dtype, tuple(call["self"].shape[2:]), options, named)
        sources = sources.take(2 + axis, relation_taps(reads))
    return sources


@lru_cache(maxsize=256)
def _reads(
    operation: OpOverload,
    axis: int,
    dtype: torch.dtype,
    space: tuple[int, ...],
    options: tuple[Any, ...],
    named: tuple[tuple[str, Any], ...],
) -> Bool[np.ndarray, "out size"]:
    """Whether each output position along ``axis`` reads each input position, by torch's own kernel."""
    columns = []
    step = max(_CHUNK // int(np.prod(space)), 1)
    for start in range(0, space[axis], step):
        lines = torch.arange(start, min(start + step, space[axis]))
        images = torch.zeros(len(lines), 1, *space, dtype=dtype)
        images.movedim(2 + axis, 1)[torch.arange(len(lines)), lines] = torch.nan
        reads = operation(images, *options, **dict(named)).isnan().movedim(2 + axis, 1)
        columns.append(reads.flatten(2).any(2))
    return np.ascontiguousarray(torch.cat(columns).numpy().T)

"""Which positions an index that is computed from the image can name.

``x.argmax(3)`` may name any column; an index of max-pooling only those of its window, and ``(x > 0).long()`` only two.
Gathering by such an index reads just the positions that it can name, so the trace keeps account of them, as far as
they are known. An index of which nothing is known is refused where it is used.
"""

from math import prod

import torch
from torch._ops import OpOverload

from pixpnet.fields.rules.convolution import pool_taps
from pixpnet.fields.rules.registry import Call
from pixpnet.fields.rules.taps import Anywhere, Reach, TapWindows

aten = torch.ops.aten


def reach_of(call: Call, result: int) -> Reach | None:
    """What the elements of a result can name, used as an index; None where that is not known."""
    if call.operation in _ALONG_AN_AXIS and result == _ALONG_AN_AXIS[call.operation]:
        shape = call.sources("self").shape
        dim = call["dim"]
        return Anywhere(prod(shape) if dim is None else shape[dim] if shape else 1)
    if call.operation in _POOLS and result == 1:
        taps = pool_taps(call)
        return TapWindows(call.sources("self").shape[-len(taps) :], tuple(taps))
    if call.operation in _COPIES:
        return call.reach(call.args[0])
    if call.operation is aten.remainder.Scalar:  # in `torch.take_along_dim`, to allow for negative positions
        reach = call.reach(call.args[0])
        return reach if reach is not None and reach.size <= call["other"] else None
    if call.operation is aten.cat.default:
        parts = {call.reach(tensor) for tensor in call.args[0] if call.read(tensor).terms}
        return parts.pop() if len(parts) == 1 and isinstance(next(iter(parts)), Anywhere) else None
    return None


# The operations that say where they found something, and which of their results says it.
_ALONG_AN_AXIS: dict[OpOverload, int] = {
    aten.argmax.default: 0,
    aten.argmin.default: 0,
    aten.argsort.default: 0,
    **dict.fromkeys((aten.max.dim, aten.min.dim, aten.median.dim, aten.nanmedian.dim), 1),
    **dict.fromkeys((aten.mode.default, aten.kthvalue.default, aten.topk.default), 1),
    **dict.fromkeys((aten.sort.default, aten.sort.stable), 1),
}
_POOLS = (
    *(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default),
    *(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default),
)
_COPIES = (aten.clone.default, aten._to_copy.default)

"""Indexing, gathering and scattering: by constants exactly, by an index computed from the image as far as it reaches.

Such an index may name any of the positions that it can reach (`reach.py`): the result reads all of these, and what
the index reads. An index of which it is not known what it can name is refused.
"""

from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pixpnet.fields.errors import UnknownValue, UnsupportedOperation
from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.rules.taps import Anywhere, TapWindows, scatter_taps
from pixpnet.fields.sources import Sources
from pixpnet.fields.terms import Taps
from pixpnet.shapes import Shaped

aten = torch.ops.aten


@rule(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(call: Call) -> Sources:
    """``x[:, i, j]`` with tensors for indices."""
    dims, places, extra = _indices(call)
    sources = call.sources("self")
    for dim, indices in zip(dims, places, strict=True):
        sources = _reached(call, sources, dim, call["indices"][dim]) if indices is None else sources
    shape = extra.shape
    flat = _flat_places(sources.shape, dims, places, shape)
    rest = [dim for dim in range(len(sources.shape)) if dim not in dims]
    picked = sources.permute([*dims, *rest]).reshape((-1, *(sources.shape[dim] for dim in rest)))
    picked = picked.take(0, flat.reshape(-1, 1)).reshape((*shape, *picked.shape[1:]))
    picked = Sources.union([picked, extra.reshape((*shape, *[1] * len(rest)))])
    return picked.permute(_index_order(dims, len(shape), len(rest)))


@rule(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(call: Call) -> Sources:
    """``x[:, i, j] = values``."""
    dims, places, extra = _indices(call)
    sources, values = call.sources("self"), call.sources("values")
    rest = [dim for dim in range(len(sources.shape)) if dim not in dims]
    order = [*dims, *rest]
    shape = extra.shape
    rest_shape = tuple(sources.shape[dim] for dim in rest)
    layout = _index_order(dims, len(shape), len(rest))
    picked_shape = [(*shape, *rest_shape)[k] for k in layout]
    values = values.expand(picked_shape).permute(np.argsort(layout).tolist())
    flat_base = sources.permute(order).reshape((-1, *rest_shape))
    flat_values = values.reshape((-1, *rest_shape))
    if any(indices is None for indices in places):
        for dim, indices in zip(dims, places, strict=True):
            if indices is None and _anywhere(call, call["indices"][dim]) < sources.shape[dim]:
                raise UnsupportedOperation(_unknown_reach(call))
        anywhere = Sources.union([flat_values, extra.reshape((-1, *[1] * len(rest)))])
        written = Sources.union([flat_base, anywhere.reduce([0], keepdim=True)])
    else:
        taps = scatter_taps(_flat_places(sources.shape, dims, places, shape).ravel(), flat_base.shape[0])
        unwritten = flat_base if call["accumulate"] else _without(flat_base, 0, taps)
        written = Sources.union([unwritten, flat_values.take(0, taps)])
    base_shape = [sources.shape[dim] for dim in order]
    return written.reshape(base_shape).permute(np.argsort(order).tolist())


@rule(aten.index_select.default)
def index_select(call: Call) -> Sources:
    """Chosen positions of one axis."""
    sources, dim = call.sources("self"), call["dim"]
    indices = _place(call, call["index"])
    if indices is None:
        everything = _reached(call, sources, dim, call["index"])
        picks = call.sources("index").reshape([-1 if k == dim % len(call.shape) else 1 for k in range(len(call.shape))])
        return Sources.union([everything, picks])
    return sources.take(dim, indices.reshape(-1, 1))


@rule(aten.gather.default)
def gather(call: Call) -> Sources:
    """``out[i, j] = x[index[i, j], j]``."""
    sources, dim = call.sources("self"), call["dim"]
    indices = _place(call, call["index"])
    if indices is None:
        reach = call.reach(call["index"])
        if isinstance(reach, TapWindows):
            return Sources.union([_windows(call, sources, reach), call.sources("index")])
        everything = _reached(call, sources, dim, call["index"])
        for k, size in enumerate(call.shape):
            if k != dim % len(call.shape):
                everything = everything.take(k, np.arange(size)[:, None])
        return Sources.union([everything, call.sources("index")])
    return _flat(sources).take(0, _flat_index(sources.shape, dim, indices)).reshape(call.shape)


@rule(aten.index_add.default, aten.index_copy.default, aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_write(call: Call) -> Sources:
    """``x[:, index] = source`` along one axis, or added to what is there, or one number."""
    sources, dim = call.sources("self"), call["dim"] % max(len(call.shape), 1)
    indices = _constant_place(call)
    taps = scatter_taps(np.where(indices < 0, indices + sources.shape[dim], indices).ravel(), sources.shape[dim])
    unwritten = sources if call.operation is aten.index_add.default else _without(sources, dim, taps)
    if "source" in call:
        return Sources.union([unwritten, call.sources("source").take(dim, taps)])
    written = np.where(taps[:, :1] < 0, -1, np.arange(len(taps))[:, None])
    return Sources.union([unwritten, call.sources("value").expand(call.shape).take(dim, written)])


@rule(aten.scatter.src, aten.scatter.value, aten.scatter.reduce, aten.scatter_add.default, aten.scatter_reduce.two)
def scatter(call: Call) -> Sources:
    """``x[index[i, j], j] = src[i, j]``, or combined with what is there."""
    sources = call.sources("self")
    indices = _constant_place(call)
    taps = scatter_taps(_flat_index(sources.shape, call["dim"], indices).ravel(), sources.numel)
    combines = call.operation not in (aten.scatter.src, aten.scatter.value) and call.get("include_self", True)
    merged = _flat(sources) if combines else _without(_flat(sources), 0, taps)
    values = call.sources_of(call.get("src"))
    if values.terms:
        for dim, size in enumerate(indices.shape):
            values = values.take(dim, np.arange(size)[:, None])  # the index may be smaller than the source
        merged = Sources.union([merged, _flat(values).take(0, taps)])
    return merged.reshape(sources.shape)


@rule(aten.embedding.default)
def embedding(call: Call) -> Sources:
    """Whole rows of a table."""
    rows = call.sources("weight").reduce([0], keepdim=False)
    return Sources.union([rows, call.sources("indices").unsqueeze(-1)])


@rule(aten.where.self, aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def choose(call: Call) -> Sources:
    """By a constant mask, exactly the chosen one; by a mask that depends on the image, both and the mask."""
    if call.operation is aten.where.self:
        mask, chosen, other = call["condition"], call.sources("self"), call.sources("other")
    else:
        mask, chosen, other = call["mask"], call.sources("value"), call.sources("self")
    chosen, other = chosen.expand(call.shape), other.expand(call.shape)
    flags = _place(call, mask)
    if flags is None:
        return Sources.union([call.read(mask), chosen, other])
    return Sources.union([chosen.keep(flags), other.keep(~flags)])


@rule(aten.tril.default, aten.triu.default)
def triangle(call: Call) -> Sources:
    """One side of the diagonal; the other is zero whatever the input."""
    rows, cols = call.shape[-2:]
    below = np.tri(rows, cols, call["diagonal"] - (call.operation is aten.triu.default), dtype=bool)
    return call.sources("self").keep(below if call.operation is aten.tril.default else ~below)


# The values of an index, or of a mask.
Place = Shaped[np.ndarray, "..."]


def _place(call: Call, tensor: Tensor) -> Place | None:
    """The values of a constant index; None where it depends on the input."""
    if call.read(tensor).terms:
        return None
    value = call.constant(tensor)
    if value is None:
        raise UnknownValue(
            f"{call.operation} chooses by a tensor that does not depend on the image and whose values are not known "
            "without running the network; keep the index or mask in a buffer, or register a rule with @rule(...)"
        )
    return np.asarray(value.cpu().numpy())


def _anywhere(call: Call, index: Tensor) -> int:
    """How many positions, from the first on, an index computed from the image can name."""
    reach = call.reach(index)
    if not isinstance(reach, Anywhere):
        raise UnsupportedOperation(_unknown_reach(call))
    return reach.size


def _unknown_reach(call: Call) -> str:
    return (
        f"{call.operation} chooses by an index computed from the image, and which positions it can name is not known "
        "(it is for argmax, sort and topk, and for gathering from the plane that max-pooling gave the index of); cut "
        "the backbone before it, or register a rule with @rule(...)"
    )


def _reached(call: Call, sources: Sources, dim: int, index: Tensor) -> Sources:
    """All positions along an axis that an index computed from the image can name, united."""
    size = _anywhere(call, index)
    if sources.shape and size < sources.shape[dim]:
        sources = sources.take(dim, np.arange(size)[:, None])
    return sources.reduce([dim], keepdim=True)


def _windows(call: Call, sources: Sources, reach: TapWindows) -> Sources:
    """``x.flatten(2).gather(2, indices)`` with the indices of a pooling: its windows of x."""
    lead = sources.shape[:-1]
    if call["dim"] % len(sources.shape) != len(lead) or reach.size != sources.shape[-1]:
        raise UnsupportedOperation(_unknown_reach(call))
    out = tuple(len(taps) for taps in reach.taps)
    if call.shape != (*lead, prod(out)):
        raise UnsupportedOperation(_unknown_reach(call))
    plane = sources.reshape((*lead, *reach.plane))
    for k, taps in enumerate(reach.taps):
        plane = plane.take(len(lead) + k, taps)
    return plane.reshape(call.shape)


def _constant_place(call: Call) -> Place:
    indices = _place(call, call["index"])
    if indices is None:
        raise UnsupportedOperation(
            f"{call.operation} with an index that depends on the image has no receptive-field rule; "
            "cut the backbone before it, or register one with @rule(...)"
        )
    return indices


def _without(sources: Sources, dim: int, taps: Taps) -> Sources:
    """What is left of ``sources`` where ``taps`` write over it."""
    positions = np.arange(len(taps))
    return sources.take(dim, np.where(taps[:, 0] < 0, positions, -1)[:, None])


def _indices(call: Call) -> tuple[list[int], list[Place | None], Sources]:
    """The indexed axes, the positions (None: depends on the input), and what the indices themselves read."""
    tensors: dict[int, Any] = {dim: t for dim, t in enumerate(call["indices"]) if t is not None}
    extra = Sources.union([call.read(tensor) for tensor in tensors.values()])
    return list(tensors), [_place(call, tensor) for tensor in tensors.values()], extra


def _flat_places(shape: tuple[int, ...], dims: list[int], places: list[Place | None], out: tuple[int, ...]) -> Place:
    """Row-major positions over the indexed axes, broadcast to the shape of the indices."""
    flat = np.zeros(out, np.int64)
    for dim, indices in zip(dims, places, strict=True):
        flat = flat * shape[dim] + (0 if indices is None else np.where(indices < 0, indices + shape[dim], indices))
    return flat


def _index_order(dims: list[int], indexed: int, rest: int) -> list[int]:
    """Where the axes (indices first, then the rest) go: in place of adjacent indices, in front otherwise."""
    order = list(range(indexed + rest))
    if dims == list(range(dims[0], dims[-1] + 1)):
        front = order[indexed : indexed + dims[0]]
        order = [*front, *order[:indexed], *order[indexed + dims[0] :]]
    return order


def _flat(sources: Sources) -> Sources:
    return sources.reshape((-1,))


def _flat_index(shape: tuple[int, ...], dim: int, indices: Place) -> Place:
    """For each element of ``indices`` the row-major position with its value as the index along ``dim``."""
    grid: list[np.ndarray] = list(np.indices(indices.shape))
    grid[dim] = np.where(indices < 0, indices + shape[dim], indices)
    return np.ravel_multi_index(tuple(grid), shape).reshape(-1, 1)

"""Views and shapes: the same elements under other indices, and what writing through a view does."""

import numpy as np
import torch

from pixpnet.fields.errors import UnsupportedOperation
from pixpnet.fields.rules.registry import Call, View, rule, view
from pixpnet.fields.sources import Sources

aten = torch.ops.aten


@view(
    aten.view.default,
    aten._reshape_alias.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh.default,
    aten.view_as.default,
)
def reshaped(call: Call) -> View:
    """All elements in the same order."""
    return View(lambda base: base.reshape(call.shape), lambda base, new: new.reshape(base.shape))


@rule(aten._unsafe_view.default, aten._reshape_copy.default, aten.view_copy.default)
def reshaped_copy(call: Call) -> Sources:
    """All elements in the same order."""
    return call.sources("self").reshape(call.shape)


@view(aten.permute.default, aten.transpose.int, aten.t.default, aten.numpy_T.default)
def permuted(call: Call) -> View:
    """All elements with the axes in another order."""
    count = len(call.shape)
    order = list(range(count))
    if call.operation is aten.permute.default:
        order = [dim % count for dim in call["dims"]]
    elif call.operation is aten.transpose.int and count:
        first, second = call["dim0"], call["dim1"]
        order[first], order[second] = order[second], order[first]
    elif call.operation is not aten.transpose.int:
        order.reverse()
    back = [order.index(dim) for dim in range(count)]
    return View(lambda base: base.permute(order), lambda base, new: new.permute(back))


@view(aten.expand.default)
def expanded(call: Call) -> View:
    """The same element many times; torch itself refuses to write through it."""
    return View(lambda base: base.expand(call.shape))


@view(aten.slice.Tensor)
def sliced(call: Call) -> View:
    """Every step-th position from start to end."""
    dim, size = call["dim"], call["self"].shape[call["dim"]]
    return _positions(dim, range(size)[slice(call["start"], call["end"], call["step"])])


@view(aten.select.int)
def selected(call: Call) -> View:
    """One position; its axis goes."""
    dim = call["dim"] % len(call["self"].shape)
    index = call["index"] % call["self"].shape[dim]
    return _one_position(dim, index)


@view(aten.unbind.int)
def unbound(call: Call) -> list[View]:
    """Every position by itself."""
    dim = call["dim"] % len(call["self"].shape)
    return [_one_position(dim, index) for index in range(len(call.shapes))]


@view(aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default)
def pieces(call: Call) -> list[View]:
    """Stretches of one axis."""
    dim, start, views = call["dim"], 0, []
    for shape in call.shapes:
        views.append(_positions(dim, range(start, start + shape[dim])))
        start += shape[dim]
    return views


@rule(aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default)
def copied_pieces(call: Call) -> list[Sources]:
    """Stretches of one axis."""
    sources, views = call.sources("self"), pieces(call)
    return [piece.read(sources) for piece in views]


@view(aten.unfold.default)
def windows(call: Call) -> View:
    """``Tensor.unfold``: overlapping stretches of one axis, with the place inside the stretch last."""
    dim, size, step = call["dimension"], call["size"], call["step"]
    if not call["self"].shape:
        return View(lambda base: base.reshape(call.shape))
    dim %= len(call["self"].shape)
    count = call.shape[dim]
    taps = (np.arange(count)[:, None] * step + np.arange(size)).reshape(-1, 1)

    def read(base: Sources) -> Sources:
        shape = base.shape
        return base.take(dim, taps).reshape((*shape[:dim], count, size, *shape[dim + 1 :])).move(dim + 1, -1)

    return View(read)


@view(aten.diagonal.default)
def diagonal(call: Call) -> View:
    """The elements on one diagonal of two axes, as a last axis."""
    shape, offset = call["self"].shape, call["offset"]
    first, second = call["dim1"] % len(shape), call["dim2"] % len(shape)
    steps = np.arange(call.shape[-1])
    rows, columns = steps + max(-offset, 0), steps + max(offset, 0)
    rest = [dim for dim in range(len(shape)) if dim not in (first, second)]

    def read(base: Sources) -> Sources:
        flat = base.permute([*rest, first, second]).reshape((*(shape[d] for d in rest), -1))
        return flat.take(-1, (rows * shape[second] + columns)[:, None])

    return View(read)


@view(aten.as_strided.default)
def as_strided(call: Call) -> View:
    """Elements addressed by their place in memory; the base must be laid out in order."""
    base_tensor, given = call["self"], call["storage_offset"]
    offset = 0 if given is None else given - base_tensor.storage_offset()
    places = np.full(call.shape, offset)
    for dim, stride in enumerate(call["stride"]):
        places += (np.arange(call.shape[dim]) * stride).reshape([-1 if k == dim else 1 for k in range(places.ndim)])
    if not base_tensor.is_contiguous() or places.min(initial=0) < 0 or places.max(initial=0) >= base_tensor.numel():
        raise UnsupportedOperation(
            "as_strided of a tensor that is not contiguous, or beyond its elements, has no receptive-field rule; "
            "write it with slices, or cut the backbone before it"
        )
    return View(lambda base: base.reshape((-1,)).take(0, places.reshape(-1, 1)).reshape(call.shape))


@rule(aten.as_strided_.default)
def restrided(call: Call) -> Sources:
    """New strides on axes of size 1, by which torch notes a memory format; the elements stay."""
    tensor = call["self"]
    if tuple(call["size"]) != tensor.shape or call["storage_offset"] not in (None, tensor.storage_offset()):
        raise UnsupportedOperation("as_strided_ to another shape has no receptive-field rule")
    return call.sources("self")


@view(aten.view_as_real.default)
def as_real(call: Call) -> View:
    """Real and imaginary part side by side in a last axis."""
    return View(lambda base: base.unsqueeze(-1).expand(call.shape), lambda _, new: new.reduce([-1], keepdim=False))


@view(aten.view_as_complex.default)
def as_complex(call: Call) -> View:
    """Real and imaginary part would have fields of their own, which complex numbers cannot show here."""
    if call.sources("self").terms:
        raise UnsupportedOperation(
            "complex numbers made from two parts that depend on the image have no receptive-field rule; "
            "compute with the parts, or cut the backbone before them"
        )
    return View(lambda base: base.reduce([-1], keepdim=False))


@view(aten.real.default, aten.imag.default, aten._conj.default, aten._neg_view.default)
def same_elements(call: Call) -> View:
    """A part of each number; after a Fourier transform both parts read the same."""
    return View(lambda base: base)


@rule(aten.cat.default)
def cat(call: Call) -> Sources:
    """The tensors one after the other along an axis."""
    # torch lets empty one-dimensional tensors pass, whatever the shape of the others.
    parts = [call.read(tensor) for tensor in call["tensors"] if tensor.shape != (0,)]
    return Sources.cat(parts, call["dim"]) if parts else call.nothing(call.shape)


@rule(aten.stack.default)
def stack(call: Call) -> Sources:
    """The tensors one after the other along a new axis."""
    dim = call["dim"] % len(call.shape)
    return Sources.cat([call.read(tensor).unsqueeze(dim) for tensor in call["tensors"]], dim)


@rule(aten.pixel_shuffle.default)
def pixel_shuffle(call: Call) -> Sources:
    """Groups of channels become squares of pixels."""
    factor = call["upscale_factor"]
    *batch, channels, rows, cols = call["self"].shape
    count = len(batch)
    split = call.sources("self").reshape((*batch, channels // factor**2, factor, factor, rows, cols))
    order = (0, 3, 1, 4, 2)
    return split.permute([*range(count), *(count + k for k in order)]).reshape(call.shape)


@rule(aten.pixel_unshuffle.default)
def pixel_unshuffle(call: Call) -> Sources:
    """Squares of pixels become groups of channels."""
    factor = call["downscale_factor"]
    *batch, channels, rows, cols = call["self"].shape
    count = len(batch)
    split = call.sources("self").reshape((*batch, channels, rows // factor, factor, cols // factor, factor))
    order = (0, 2, 4, 1, 3)
    return split.permute([*range(count), *(count + k for k in order)]).reshape(call.shape)


@rule(aten.channel_shuffle.default, aten.native_channel_shuffle.default)
def channel_shuffle(call: Call) -> Sources:
    """Channels change places between groups."""
    batch, channels, *rest = call.shape
    groups = call["groups"]
    split = call.sources("self").reshape((batch, groups, channels // groups, *rest))
    return split.transpose(1, 2).reshape(call.shape)


@rule(aten.diag_embed.default)
def diag_embed(call: Call) -> Sources:
    """The last axis on a diagonal of two axes; zeros elsewhere."""
    first, second = call["dim1"] % len(call.shape), call["dim2"] % len(call.shape)
    rows, cols = call.shape[first], call.shape[second]
    steps = np.arange(call["self"].shape[-1])
    places = np.full(rows * cols, -1)
    places[(steps + max(-call["offset"], 0)) * cols + steps + max(call["offset"], 0)] = steps
    flat = call.sources("self").take(-1, places[:, None])
    square = flat.reshape((*flat.shape[:-1], rows, cols))
    order = list(range(len(call.shape) - 2))
    for dim, axis in sorted(((first, len(order)), (second, len(order) + 1))):
        order.insert(dim, axis)
    return square.permute(order)


@rule(aten.glu.default)
def gated(call: Call) -> Sources:
    """One half of an axis times the sigmoid of the other."""
    sources, dim = call.sources("self"), call["dim"]
    half = sources.shape[dim] // 2
    return sources.take(dim, np.arange(half)[:, None] + [0, half])


def _positions(dim: int, chosen: range) -> View:
    """Some positions of one axis."""
    taps = np.arange(chosen.start, chosen.stop, chosen.step)[:, None]

    def write(base: Sources, new: Sources) -> Sources:
        back = np.full((base.shape[dim], 1), -1)
        back[taps[:, 0], 0] = np.arange(len(taps))
        untouched = np.where(back < 0, np.arange(len(back))[:, None], -1)
        return Sources.union([base.take(dim, untouched), new.take(dim, back)])

    return View(lambda base: base.take(dim, taps), write)


def _one_position(dim: int, index: int) -> View:
    stretch = _positions(dim, range(index, index + 1))
    assert stretch.write is not None
    write = stretch.write
    return View(
        lambda base: stretch.read(base).squeeze([dim]),
        lambda base, new: write(base, new.reshape((*base.shape[:dim], 1, *base.shape[dim + 1 :]))),
    )

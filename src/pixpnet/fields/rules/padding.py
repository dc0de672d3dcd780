"""Padding, rolling, flipping, repeating: positions move along one axis at a time."""

import numpy as np
import torch

from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.rules.taps import within
from pixpnet.fields.sources import Sources

aten = torch.ops.aten


def _padded(call: Call, fold: str) -> Sources:
    """Pads the last axes; ``fold`` says which position an index outside the axis stands for."""
    sources = call.sources("self")
    pads = call["pad"] if fold == "constant" else call["padding"]
    for k in range(len(pads) // 2):
        dim, before, after = -1 - k, pads[2 * k], pads[2 * k + 1]
        size = sources.shape[dim]
        index = np.arange(-before, size + after)
        if fold == "reflect":
            index = np.abs(index)
            index = np.minimum(index, 2 * (size - 1) - index)
        elif fold == "replicate":
            index = np.clip(index, 0, size - 1)
        sources = sources.take(dim, within(index[:, None], size))
    return sources


@rule(aten.constant_pad_nd.default)
def constant_pad(call: Call) -> Sources:
    """The padding reads nothing; negative padding crops."""
    return _padded(call, "constant")


@rule(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def reflection_pad(call: Call) -> Sources:
    """The padding mirrors the axis without repeating its edge."""
    return _padded(call, "reflect")


@rule(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(call: Call) -> Sources:
    """The padding repeats the edge."""
    return _padded(call, "replicate")


@rule(aten.roll.default)
def roll(call: Call) -> Sources:
    """Positions move along their axis and come in again on the other side."""
    sources = call.sources("self")
    if not call["dims"]:
        flat = sources.reshape((-1,))
        index = (np.arange(flat.shape[0]) - call["shifts"][0]) % max(flat.shape[0], 1)
        return flat.take(0, index[:, None]).reshape(sources.shape)
    for shift, dim in zip(call["shifts"], call["dims"], strict=True):
        size = sources.shape[dim]
        sources = sources.take(dim, ((np.arange(size) - shift) % size)[:, None])
    return sources


@rule(aten.flip.default)
def flip(call: Call) -> Sources:
    """Positions in reverse order."""
    sources = call.sources("self")
    for dim in call["dims"]:
        sources = sources.take(dim, np.arange(sources.shape[dim])[::-1, None])
    return sources


@rule(aten.rot90.default)
def rot90(call: Call) -> Sources:
    """Quarter turns in the plane of two axes."""
    sources, (first, second) = call.sources("self"), call["dims"]
    for _ in range(call["k"] % 4):
        mirrored = sources.take(second, np.arange(sources.shape[second])[::-1, None])
        sources = mirrored.transpose(first, second)
    return sources


@rule(aten.repeat.default)
def repeat(call: Call) -> Sources:
    """The whole tensor again and again along each axis."""
    sources, repeats = call.sources("self"), call["repeats"]
    sources = sources.reshape((1,) * (len(repeats) - len(sources.shape)) + sources.shape)
    for dim, times in enumerate(repeats):
        sources = sources.take(dim, np.tile(np.arange(sources.shape[dim]), times)[:, None])
    return sources

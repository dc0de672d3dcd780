"""A region: one exact set of input pixels, as boxes, as a hull, as a mask."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import prod

import numpy as np
import torch
from torch import Tensor

from pixpnet.box import Box
from pixpnet.fields import bits
from pixpnet.shapes import Bool

# For an input with one or three axes a box is a plain tuple, all starts before all stops.
AnyBox = Box | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Region:
    """The union of ``products``: each holds one set of positions for every axis of the input."""

    products: tuple[tuple[Bool[np.ndarray, " _"], ...], ...]
    space: tuple[int, ...]

    @cached_property
    def boxes(self) -> list[AnyBox]:
        """Disjoint half-open boxes that together are the region, from top to bottom and left to right."""
        if len(self.products) == 1:
            runs = [list(bits.runs(members)) for members in self.products[0]]
            return [_box(*zip(*sides, strict=True)) for sides in product(*runs)]
        return [_box(start, stop) for start, stop in _bands(self._members)]

    @cached_property
    def hull(self) -> AnyBox | None:
        """The smallest box around the region; None for the empty region."""
        if not self.products:
            return None
        shadows = [np.logical_or.reduce(sets).nonzero()[0] for sets in zip(*self.products, strict=True)]
        return _box([int(s[0]) for s in shadows], [int(s[-1]) + 1 for s in shadows])

    @property
    def mask(self) -> Bool[Tensor, "*space"]:
        """True at the pixels of the region."""
        return torch.from_numpy(self._members.copy())

    @cached_property
    def area(self) -> int:
        """How many pixels the region holds."""
        if len(self.products) == 1:
            return prod(int(members.sum()) for members in self.products[0])
        return int(self._members.sum())

    @property
    def fraction(self) -> float:
        """The region's share of the input's pixels, 0 to 1."""
        return self.area / prod(self.space)

    @property
    def is_solid(self) -> bool:
        """Whether the region is one box without holes; the empty region is none."""
        return len(self.boxes) == 1

    @cached_property
    def _members(self) -> Bool[np.ndarray, "*space"]:
        members = np.zeros(self.space, bool)
        for sets in self.products:
            members[np.ix_(*sets)] = True
        return members

    def __contains__(self, pixel: tuple[int, ...]) -> bool:
        return any(all(s[i] for s, i in zip(sets, pixel, strict=True)) for sets in self.products)


def _box(start: Iterator[int] | list[int] | tuple[int, ...], stop: list[int] | tuple[int, ...]) -> AnyBox:
    corners = (*start, *stop)
    return Box(*corners) if len(corners) == 4 else corners


def _bands(members: Bool[np.ndarray, "*space"]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Boxes from bands of equal lines, as ``starts, stops``."""
    if members.ndim == 1:
        for start, stop in bits.runs(members):
            yield (start,), (stop,)
        return
    lines = members.reshape(len(members), -1)
    changes = np.flatnonzero((lines[1:] != lines[:-1]).any(1)) + 1
    edges = [0, *changes.tolist(), len(lines)]
    for first, last in pairwise(edges):
        for starts, stops in _bands(members[first]):
            yield (first, *starts), (last, *stops)

"""Which input positions each output position reads along one axis, for windows of every kind.

All functions return an integer array ``out x taps`` in which -1 stands for "none" (padding is not input).
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from pixpnet.fields.terms import Taps
from pixpnet.shapes import Bool, Int


@dataclass(frozen=True)
class Anywhere:
    """Any position from 0 up to, not including, ``size``."""

    size: int


@dataclass(frozen=True, eq=False)
class TapWindows:
    """Each element a position of its own window of a row-major plane, one array of taps for each of its axes."""

    plane: tuple[int, ...]
    taps: tuple[np.ndarray, ...]  # of different sizes, which the name of an axis cannot have

    @property
    def size(self) -> int:
        """How many positions the plane has."""
        return prod(self.plane)


# Which positions a tensor that depends on the image can name where it is used as an index (`reach.py`).
Reach = Anywhere | TapWindows


def window_taps(size: int, out: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> Taps:
    """Convolution and pooling: output i reads i * stride - padding + k * dilation.

    >>> window_taps(4, 4, kernel=3, padding=1)[:2].tolist()
    [[-1, 0, 1], [0, 1, 2]]
    """
    taps = np.arange(out)[:, None] * stride - padding + np.arange(kernel) * dilation
    return within(taps, size)


def transposed_taps(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> Taps:
    """Transposed convolution, folding: output i reads each j with j * stride - padding + k * dilation = i."""
    reached = np.arange(out)[:, None] + padding - np.arange(kernel) * dilation
    return within(np.where(reached % stride == 0, reached // stride, -1), size)


def adaptive_taps(size: int, out: int) -> Taps:
    """Adaptive pooling: output i reads from floor(i * size / out) up to ceil((i + 1) * size / out)."""
    index = np.arange(out)
    return interval_taps(index * size // out, -(-(index + 1) * size // out))


def interval_taps(start: Int[np.ndarray, " out"], stop: Int[np.ndarray, " out"]) -> Taps:
    """Output i reads the positions from start[i] up to, not including, stop[i]."""
    longest = int((stop - start).max(initial=0))
    taps = start[:, None] + np.arange(longest)
    return np.where(taps < stop[:, None], taps, -1)


def relation_taps(reads: Bool[np.ndarray, "out size"]) -> Taps:
    """Taps from a table that says whether output i reads position j.

    >>> relation_taps(np.array([[True, False, True], [False, False, False]])).tolist()
    [[0, 2], [-1, -1]]
    """
    most = max(int(reads.sum(1).max(initial=0)), 1)
    order = np.argsort(~reads, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(reads, order, 1), order, -1)


def scatter_taps(targets: Int[np.ndarray, " count"], size: int) -> Taps:
    """Position i reads every k with ``targets[k] == i``.

    >>> scatter_taps(np.array([2, 0, 2]), 3).tolist()
    [[1, -1], [-1, -1], [0, 2]]
    """
    order = np.argsort(targets, kind="stable")
    counts = np.bincount(targets, minlength=size)
    first = np.cumsum(counts) - counts
    taps = np.full((size, max(int(counts.max(initial=0)), 1)), -1)
    taps[targets[order], np.arange(len(targets)) - first[targets[order]]] = order
    return taps


def within(taps: Taps, size: int) -> Taps:
    """Taps outside 0 .. size - 1 read nothing."""
    return np.where((taps >= 0) & (taps < size), taps, -1)

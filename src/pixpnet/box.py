"""The one box of the package: half-open whole pixels, rows before columns."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple


class Box(NamedTuple):
    """A half-open box of pixels: ``image[..., y0:y1, x0:x1]`` is the crop."""

    y0: int
    x0: int
    y1: int
    x1: int


def hull(boxes: Sequence[Box]) -> Box | None:
    """The smallest box around a region; None for the empty one.

    >>> hull([Box(0, 4, 2, 6), Box(3, 0, 5, 1)])
    Box(y0=0, x0=0, y1=5, x1=6)
    """
    if not boxes:
        return None
    tops, lefts, bottoms, rights = zip(*boxes, strict=True)
    return Box(min(tops), min(lefts), max(bottoms), max(rights))


def union_area(boxes: Iterable[Box]) -> int:
    """How many pixels lie in any of some boxes, each counted once.

    >>> union_area([Box(0, 0, 2, 2), Box(1, 1, 3, 3), Box(1, 1, 2, 2)])
    7
    """
    # For each range of rows the columns as the bits of a number: neighbouring cells share most of their edges.
    columns: dict[tuple[int, int], int] = {}
    for y0, x0, y1, x1 in boxes:
        columns[y0, y1] = columns.get((y0, y1), 0) | ((1 << x1) - (1 << x0))
    edges = sorted({edge for rows in columns for edge in rows})
    area = 0
    for top, bottom in pairwise(edges):
        inside = 0
        for (y0, y1), bits in columns.items():
            if y0 <= top and bottom <= y1:
                inside |= bits
        area += (bottom - top) * inside.bit_count()
    return area

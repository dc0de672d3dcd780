"""The one box of the package: half-open whole pixels, rows before columns."""

from collections.abc import Sequence
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

"""The one box of the package: half-open whole pixels, rows before columns."""

from typing import NamedTuple


class Box(NamedTuple):
    """A half-open box of pixels: ``image[..., y0:y1, x0:x1]`` is the crop."""

    y0: int
    x0: int
    y1: int
    x1: int

"""Overlapping windows of an image, or of the map of an early layer: where they lie, as whole numbers.

A backbone that is run on windows has one cell for each window, and a cell's field *is* its window, at any depth.
Windows of several sizes make a grid of cells each: parts and wholes side by side in one network.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pixpnet.records import ADDED_LATER


class Scale(NamedTuple):
    """Windows of one size.

    Attributes:
        size: side of a window in pixels of the image.
        stride: largest step from one window to the next, in pixels.
    """

    size: int
    stride: int


@dataclass(frozen=True)
class Windows:
    """Which windows a backbone is run on.

    Attributes:
        size: side of a window in pixels of the image.
        stride: largest step from one window to the next, in pixels.
        start: the layer on whose map windows are cut, with what lies before it run once on the whole image; a cell
            then sees its window and the margin that those layers see. "" cuts the image itself.
        more: further sizes, each of which makes a grid of its own; all are cut from the same map.

    >>> [windows.size for windows in Windows(72, 40, "layer1", (Scale(144, 80),)).by_size]
    [72, 144]
    """

    size: int
    stride: int
    start: str = ""
    more: tuple[Scale, ...] = field(default=(), metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        scales = (Scale(self.size, self.stride), *self.more)
        for size, stride in scales:
            if size < 1 or stride < 1:
                raise ValueError(f"a window and its stride are at least 1 pixel, got {size} and {stride}")
            if stride > size:
                raise ValueError(
                    f"windows of {size} pixels with a stride of {stride} would leave gaps that no cell sees: "
                    f"take a stride of at most {size} (--window-stride)"
                )
        if len({scale.size for scale in scales}) < len(scales):
            sizes = ", ".join(str(scale.size) for scale in scales)
            raise ValueError(f"windows of several sizes differ in size, got {sizes} pixels (--window)")

    @property
    def by_size(self) -> "tuple[Windows, ...]":
        """The windows of each size by themselves, in the order of their grids."""
        return (replace(self, more=()), *(Windows(scale.size, scale.stride, self.start) for scale in self.more))


def window_starts(length: int, size: int, stride: int) -> tuple[int, ...]:
    """Where windows begin along an axis: equal steps (to a whole number) not above the stride, the last one flush.

    Args:
        length: of the axis.
        size: of a window.
        stride: the largest step.

    Raises:
        ValueError: if a window does not fit.

    >>> window_starts(384, 112, 56)
    (0, 54, 109, 163, 218, 272)
    """
    room = length - size
    if room < 0:
        raise ValueError(f"a window of {size} does not fit into {length}: take a smaller window or larger images")
    steps = -(-room // stride)
    return tuple((2 * room * step + steps) // (2 * steps) for step in range(steps + 1)) if steps else (0,)


def resolve_windows(window: float | str, stride: float | str | None, start: str, image_size: int) -> Windows:
    """Windows as a person gives them: in pixels, or below 1 as a fraction of the image's side.

    Args:
        window: side of a window; several with commas.
        stride: largest step, one for all sizes or one for each; None is half a window.
        start: the layer on whose map they are cut.
        image_size: side of the image in pixels.

    Raises:
        ValueError: if something is not a number, windows do not fit, or there are more or fewer strides than sizes.

    >>> resolve_windows(0.25, None, "", 384)
    Windows(size=96, stride=48, start='', more=())
    >>> resolve_windows("72,144", "40,80", "layer1", 384)
    Windows(size=72, stride=40, start='layer1', more=(Scale(size=144, stride=80),))
    """
    sizes = [_pixels(length, image_size, "window") for length in lengths(window, "window")]
    if stride is None:
        steps = [max(1, size // 2) for size in sizes]
    else:
        steps = [_pixels(length, image_size, "window stride") for length in lengths(stride, "window stride")]
        steps = steps * len(sizes) if len(steps) == 1 else steps
    if len(steps) != len(sizes):
        raise ValueError(
            f"{len(sizes)} sizes of windows have one stride each, or one for all, and {len(steps)} came: see "
            "--window and --window-stride"
        )
    for size in sizes:
        if size > image_size:
            raise ValueError(
                f"a window of {size} pixels does not fit into images of {image_size} x {image_size}: "
                "take a smaller one (--window), or larger images (--size)"
            )
    first, *more = map(Scale, sizes, steps)
    return Windows(first.size, first.stride, start, tuple(more))


def lengths(text: float | str, name: str) -> tuple[float, ...]:
    """One or several numbers, as a person gives them.

    Args:
        text: a number, or several with commas.
        name: what they are, for the message.

    Raises:
        ValueError: if one of them is not a number.

    >>> lengths("72,144", "window"), lengths(0.25, "window")
    ((72.0, 144.0), (0.25,))
    """
    if not isinstance(text, str):
        return (float(text),)
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError as error:
        raise ValueError(f"a {name} is a number, or several with commas such as 72,144, got {text!r}") from error


def _pixels(length: float, image_size: int, name: str) -> int:
    if not length > 0:
        raise ValueError(f"a {name} is above 0, got {length}")
    if length < 1:
        return max(1, round(length * image_size))
    if length != int(length):
        raise ValueError(
            f"a {name} is a whole number of pixels, or a fraction of the image's side below 1, got {length}"
        )
    return int(length)

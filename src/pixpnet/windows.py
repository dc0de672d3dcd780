"""Overlapping windows of an image, or of the map of an early layer: where they lie, as whole numbers.

A backbone that is run on windows has one cell for each window, and a cell's field *is* its window, at any depth.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Windows:
    """Which windows a backbone is run on.

    Attributes:
        size: side of a window in pixels of the image.
        stride: largest step from one window to the next, in pixels.
        start: the layer on whose map windows are cut, with what lies before it run once on the whole image; a cell
            then sees its window and the margin that those layers see. "" cuts the image itself.
    """

    size: int
    stride: int
    start: str = ""

    def __post_init__(self) -> None:
        if self.size < 1 or self.stride < 1:
            raise ValueError(f"a window and its stride are at least 1 pixel, got {self.size} and {self.stride}")
        if self.stride > self.size:
            raise ValueError(
                f"windows of {self.size} pixels with a stride of {self.stride} would leave gaps that no cell sees: "
                f"take a stride of at most {self.size} (--window-stride)"
            )


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


def resolve_windows(window: float, stride: float | None, start: str, image_size: int) -> Windows:
    """Windows as a person gives them: in pixels, or below 1 as a fraction of the image's side.

    Args:
        window: side of a window.
        stride: largest step; None is half a window.
        start: the layer on whose map they are cut.
        image_size: side of the image in pixels.

    >>> resolve_windows(0.25, None, "", 384)
    Windows(size=96, stride=48, start='')
    """
    size = _pixels(window, image_size, "window")
    step = max(1, size // 2) if stride is None else _pixels(stride, image_size, "window stride")
    if size > image_size:
        raise ValueError(
            f"a window of {size} pixels does not fit into images of {image_size} x {image_size}: "
            "take a smaller one (--window), or larger images (--size)"
        )
    return Windows(size, step, start)


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

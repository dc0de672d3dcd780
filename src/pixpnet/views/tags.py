"""Where the numbers of regions stand on an image, so that none covers another."""

from collections.abc import Iterator, Sequence

from pixpnet.box import Box

_STEPS = tuple(step / 8 for step in range(9))


def tag_places(
    hulls: Sequence[Box], sizes: Sequence[tuple[float, float]], frame: tuple[int, int]
) -> tuple[tuple[float, float], ...]:
    """The top left corners (x, y) of tags, each along the inner side of its region, at the first place that is free.

    Args:
        hulls: of the regions, in the `pixel` frame.
        sizes: width and height of each tag, in pixels.
        frame: height and width of the image.

    >>> same = Box(0, 0, 50, 50)
    >>> tag_places([same, same], [(8, 5), (8, 5)], (96, 96))
    ((0.0, 0.0), (10.5, 0.0))
    """
    taken: list[tuple[float, float, float, float]] = []
    for hull, (width, height) in zip(hulls, sizes, strict=True):
        for x, y in _candidates(hull, width, height, frame):
            if all(x + width <= x0 or x1 <= x or y + height <= y0 or y1 <= y for x0, y0, x1, y1 in taken):
                break
        taken.append((x, y, x + width, y + height))
    return tuple((x, y) for x, y, _, _ in taken)


def _candidates(hull: Box, width: float, height: float, frame: tuple[int, int]) -> Iterator[tuple[float, float]]:
    """Along the top, the left, the right and the bottom; then anywhere, since the colour still says which it is."""
    last_x, last_y = max(0.0, frame[1] - width), max(0.0, frame[0] - height)
    left, top = min(float(hull.x0), last_x), min(float(hull.y0), last_y)
    right, bottom = max(left, hull.x1 - width), max(top, hull.y1 - height)
    yield from ((left + (right - left) * step, top) for step in _STEPS)
    yield from ((left, top + (bottom - top) * step) for step in _STEPS)
    yield from ((right, top + (bottom - top) * step) for step in _STEPS)
    yield from ((left + (right - left) * step, bottom) for step in _STEPS)
    yield from ((last_x * across / 7, last_y * down / 11) for down in range(12) for across in range(8))

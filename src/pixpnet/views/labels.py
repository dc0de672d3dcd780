"""Places for labels beside points, none of which overlaps another. The same points give the same places.

All lengths are inches from the top left corner, as on a `Slide`.
"""

from collections.abc import Sequence
from itertools import product
from math import cos, hypot, pi, sin
from typing import NamedTuple

_DIRECTIONS = 16
_DISTANCES = (0.15, 0.23, 0.33, 0.46, 0.62, 0.8, 1.0, 1.25, 1.5)
_POINT = 0.07  # half the side of a marker
_COST_OF_HIDING = 0.35  # a label that hides a point may as well stand this much farther off
_GAP = 0.03


class Spot(NamedTuple):
    """A point of the figure, in inches."""

    x: float
    y: float


class Rect(NamedTuple):
    """A rectangle with its sides parallel to the axes."""

    x0: float
    y0: float
    x1: float
    y1: float

    def overlaps(self, other: "Rect", gap: float = 0.0) -> bool:
        """Whether they share area, or come nearer to each other than a gap.

        >>> Rect(0, 0, 1, 1).overlaps(Rect(1, 0, 2, 1)), Rect(0, 0, 1, 1).overlaps(Rect(1, 0, 2, 1), gap=0.1)
        (False, True)
        """
        apart_x = self.x1 + gap <= other.x0 or other.x1 + gap <= self.x0
        apart_y = self.y1 + gap <= other.y0 or other.y1 + gap <= self.y0
        return not (apart_x or apart_y)

    def holds(self, other: "Rect") -> bool:
        """Whether the other one lies inside."""
        return self.x0 <= other.x0 and self.y0 <= other.y0 and other.x1 <= self.x1 and other.y1 <= self.y1


def place_labels(
    anchors: Sequence[Spot], sizes: Sequence[tuple[float, float]], area: Rect, points: Sequence[Spot]
) -> tuple[Rect | None, ...]:
    """For each anchor a place for its label near by, in the order in which they come; None where nothing is free.

    Args:
        anchors: what is labelled; the first ones choose first.
        sizes: width and height of each label.
        area: where labels may be.
        points: everything that should rather not be hidden.
    """
    placed: list[Rect | None] = []
    for anchor, size in zip(anchors, sizes, strict=True):
        taken = [rect for rect in placed if rect is not None]
        options = [rect for rect in _around(anchor, size) if area.holds(rect)]
        free = [rect for rect in options if not any(rect.overlaps(other, _GAP) for other in taken)]
        placed.append(min(free, key=lambda rect: _cost(rect, anchor, points), default=None))
    return tuple(placed)


def nearest_edge(rect: Rect, spot: Spot) -> Spot:
    """The point of a rectangle that is nearest to a spot: where a line to its label ends."""
    return Spot(min(max(spot.x, rect.x0), rect.x1), min(max(spot.y, rect.y0), rect.y1))


def _around(anchor: Spot, size: tuple[float, float]) -> list[Rect]:
    width, height = size
    rects = []
    for distance, step in product(_DISTANCES, range(_DIRECTIONS)):
        # From the right, going round upwards.
        across, down = cos(2 * pi * step / _DIRECTIONS), -sin(2 * pi * step / _DIRECTIONS)
        x = anchor.x + distance * across + (across - 1) / 2 * width
        y = anchor.y + distance * down + (down - 1) / 2 * height
        rects.append(Rect(x, y, x + width, y + height))
    return rects


def _cost(rect: Rect, anchor: Spot, points: Sequence[Spot]) -> float:
    edge = nearest_edge(rect, anchor)
    hidden = sum(
        rect.overlaps(Rect(point.x - _POINT, point.y - _POINT, point.x + _POINT, point.y + _POINT)) for point in points
    )
    return hypot(edge.x - anchor.x, edge.y - anchor.y) + _COST_OF_HIDING * hidden

"""The outline of a region: closed rings around the union of its boxes, holes included.

Rings run along whole pixels, clockwise (on a screen, where rows go down) around what is inside and the other way
round a hole, so that both fill rules of SVG and matplotlib paint exactly the region.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from pixpnet.box import Box
from pixpnet.shapes import Bool

Ring = tuple[tuple[int, int], ...]
_Corner = tuple[int, int]


def rings(boxes: Sequence[Box]) -> tuple[Ring, ...]:
    """The closed rings around a union of boxes, each as its corners (x, y), the first one not repeated.

    >>> rings([Box(0, 0, 2, 2), Box(0, 2, 2, 5)])
    (((0, 0), (5, 0), (5, 2), (0, 2)),)
    """
    lines_y = sorted({line for box in boxes for line in (box.y0, box.y1)})
    lines_x = sorted({line for box in boxes for line in (box.x0, box.x1)})
    after = _edges(_inside(boxes, lines_y, lines_x))
    closed = []
    while after:
        ring = _walk(min(after), after)
        closed.append(tuple((lines_x[x], lines_y[y]) for y, x in _corners(ring)))
    return tuple(closed)


def svg_path(boxes: Sequence[Box]) -> str:
    """The same for the attribute `d` of an SVG path.

    >>> svg_path([Box(0, 0, 2, 5)])
    'M0 0H5V2H0Z'
    """
    return "".join(_svg_ring(ring) for ring in rings(boxes))


def signed_area(ring: Ring) -> float:
    """What a ring encloses; negative for a hole.

    >>> signed_area(((0, 0), (5, 0), (5, 2), (0, 2)))
    10.0
    """
    return sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in pairwise((*ring, ring[0]))) / 2


def _inside(boxes: Sequence[Box], lines_y: list[int], lines_x: list[int]) -> Bool[np.ndarray, "down across"]:
    """Which fields of the grid that the sides of the boxes span belong to the region, with a margin of one."""
    inside = np.zeros((len(lines_y) + 1, len(lines_x) + 1), bool)
    row = {line: index + 1 for index, line in enumerate(lines_y)}
    col = {line: index + 1 for index, line in enumerate(lines_x)}
    for y0, x0, y1, x1 in boxes:
        inside[row[y0] : row[y1], col[x0] : col[x1]] = True
    return inside


def _edges(inside: Bool[np.ndarray, "down across"]) -> dict[_Corner, list[_Corner]]:
    """For each grid point the ends of the edges that leave it, with the region on the right-hand side."""
    after: dict[_Corner, list[_Corner]] = {}
    for upper, y, x in _changes(inside):  # horizontal edges, left to right where the region is below
        start, end = ((y, x), (y, x + 1)) if not upper else ((y, x + 1), (y, x))
        after.setdefault(start, []).append(end)
    for left, x, y in _changes(inside.T):  # vertical edges, downwards where the region is on the left
        start, end = ((y, x), (y + 1, x)) if left else ((y + 1, x), (y, x))
        after.setdefault(start, []).append(end)
    return after


def _changes(inside: Bool[np.ndarray, "down across"]) -> Iterator[tuple[bool, int, int]]:
    """Where a field differs from the one below it: whether the upper one is inside, and the edge's grid point."""
    for line, position in np.argwhere(inside[1:] != inside[:-1]).tolist():
        yield bool(inside[line, position]), line, position - 1


def _walk(start: _Corner, after: dict[_Corner, list[_Corner]]) -> list[_Corner]:
    """Takes one ring out of the edges; where four meet, it turns so that parts that only touch stay apart."""
    ring = [start]
    before, here = start, start
    while True:
        ends = after[here]
        going = max(ends, key=lambda end: _turn(before, here, end))
        ends.remove(going)
        if not ends:
            del after[here]
        before, here = here, going
        if here == start:
            return ring
        ring.append(here)


def _turn(before: _Corner, here: _Corner, end: _Corner) -> int:
    """1 for a turn to the right (on the screen), -1 to the left, 0 straight on."""
    (y0, x0), (y1, x1), (y2, x2) = before, here, end
    return int(np.sign((x1 - x0) * (y2 - y1) - (y1 - y0) * (x2 - x1)))


def _corners(ring: list[_Corner]) -> list[_Corner]:
    """Without the points where nothing turns."""
    around = zip([ring[-1], *ring[:-1]], ring, [*ring[1:], ring[0]], strict=True)
    return [here for before, here, end in around if _turn(before, here, end)]


def _svg_ring(ring: Ring) -> str:
    (x, y), *rest = ring
    steps = "".join(
        f"V{next_y}" if next_x == last_x else f"H{next_x}"
        for (last_x, _), (next_x, next_y) in pairwise(((x, y), *rest))
    )
    return f"M{x} {y}{steps}Z"

"""Outlines of unions of boxes: laws that hold for any of them."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path

from pixpnet.box import Box, hull
from pixpnet.views.outline import rings, signed_area, svg_path
from tests.views.material import comb

SIDE = 9
grids = st.lists(st.lists(st.booleans(), min_size=SIDE, max_size=SIDE), min_size=SIDE, max_size=SIDE)


def boxes_of(grid: list[list[bool]]) -> list[Box]:
    """One box for each pixel that is in."""
    return [Box(y, x, y + 1, x + 1) for y, row in enumerate(grid) for x, inside in enumerate(row) if inside]


@given(grids)
def test_the_outline_encloses_as_many_pixels_as_the_boxes_hold(grid: list[list[bool]]) -> None:
    boxes = boxes_of(grid)
    assert sum(map(signed_area, rings(boxes))) == len(boxes)


@given(grids)
def test_exactly_the_pixels_of_the_region_lie_inside_its_outline(grid: list[list[bool]]) -> None:
    centers = np.array([(x + 0.5, y + 0.5) for y in range(SIDE) for x in range(SIDE)])
    # Even-odd: how many rings a pixel's centre lies in, counted by matplotlib.
    crossed = sum((Path([*ring, ring[0]]).contains_points(centers).astype(int) for ring in rings(boxes_of(grid))), 0)
    assert (np.broadcast_to(crossed, SIDE * SIDE) % 2).astype(bool).tolist() == [cell for row in grid for cell in row]


@given(grids)
def test_rings_turn_at_every_corner_and_run_along_rows_and_columns(grid: list[list[bool]]) -> None:
    for ring in rings(boxes_of(grid)):
        closed = [*ring, ring[0], ring[1]]
        across = [a[1] == b[1] for a, b in pairwise(closed)]
        assert all(a != b for a, b in pairwise(across))


@given(grids)
def test_how_a_region_is_cut_into_boxes_does_not_matter(grid: list[list[bool]]) -> None:
    rows = []
    for y, row in enumerate(grid):
        x = 0
        while x < SIDE:
            end = x
            while end < SIDE and row[end]:
                end += 1
            if end > x:
                rows.append(Box(y, x, y + 1, end))
            x = end + 1
    assert sorted(rings(rows)) == sorted(rings(boxes_of(grid)))


def test_a_frame_has_an_outer_ring_and_a_hole() -> None:
    frame = [Box(0, 0, 1, 3), Box(1, 0, 2, 1), Box(1, 2, 2, 3), Box(2, 0, 3, 3)]
    assert [signed_area(ring) for ring in rings(frame)] == [9, -1]
    assert svg_path(frame) == "M0 0H3V3H0ZM1 1V2H2V1Z"


def test_the_empty_region_has_no_outline_and_no_hull() -> None:
    assert rings([]) == ()
    assert svg_path([]) == ""
    assert hull([]) is None


def test_a_comb_of_holes_has_one_ring_for_each_tooth() -> None:
    assert len(rings(comb())) == len(comb())

"""The hull of an origin against a mask of the pixels that it sees."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.box import Box
from pixpnet.model import Origin


@given(
    tops=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5
    )
)
def test_the_hull_of_an_origin_is_the_smallest_box_around_its_field(tops: list[tuple[int, int, int, int]]) -> None:
    boxes = tuple(Box(y, x, y + height, x + width) for y, x, height, width in tops)
    seen = torch.zeros(60, 60, dtype=torch.bool)
    for box in boxes:
        seen[box.y0 : box.y1, box.x0 : box.x1] = True
    rows, cols = seen.any(dim=1).nonzero(), seen.any(dim=0).nonzero()
    hull = Origin(0, 0, "", 0, 0, boxes, (0.0,) * 9, 0.0, "image").hull
    assert hull == (int(rows.min()), int(cols.min()), int(rows.max()) + 1, int(cols.max()) + 1)


def test_an_origin_that_sees_nothing_has_no_hull() -> None:
    assert Origin(0, 0, "", 0, 0, (), (0.0,) * 9, 0.0, "image").hull is None

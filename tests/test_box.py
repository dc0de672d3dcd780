"""Boxes: the area of a union against painting pixels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.box import Box, union_area

boxes = st.tuples(*[st.integers(0, 9)] * 4).map(
    lambda ends: Box(min(ends[0], ends[1]), min(ends[2], ends[3]), max(ends[0], ends[1]), max(ends[2], ends[3]))
)


@given(st.lists(boxes, max_size=8))
def test_the_area_of_a_union_counts_each_pixel_once(some: list[Box]) -> None:
    painted = np.zeros((10, 10), dtype=bool)
    for box in some:
        painted[box.y0 : box.y1, box.x0 : box.x1] = True
    assert union_area(some) == painted.sum()

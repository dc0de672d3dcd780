"""Points in regions, windows, and points folded into parts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.box import Box
from pixpnet.metrics.part_hits import fold, hull, part_hits, points_inside, window

# The 15 points of CUB-200-2011 in the order of its file, and the part of each: left and right are one (App. J).
CUB_POINTS = (
    *("back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing"),
    *("nape", "right eye", "right leg", "right wing", "tail", "throat"),
)
CUB_PARTS = tuple(sorted({name.split()[-1] for name in CUB_POINTS}))
CUB_FOLDING = tuple(CUB_PARTS.index(name.split()[-1]) for name in CUB_POINTS)


def test_a_point_lies_in_a_box_when_its_pixel_does() -> None:
    points = torch.tensor([[0.0, 0.0], [3.99, 1.99], [4.0, 0.0], [0.0, 2.0], [-0.01, 0.0]])
    assert points_inside((Box(0, 0, 2, 4),), points).tolist() == [True, True, False, False, False]


def test_x_is_across_and_y_is_down() -> None:
    points = torch.tensor([[6.5, 1.5], [1.5, 6.5]])
    assert points_inside((Box(0, 4, 4, 8),), points).tolist() == [True, False]


def test_a_point_in_a_hole_of_a_field_is_not_in_the_field() -> None:
    # A 1 x 1 convolution with stride 2 under a 3 x 3 one sees nine single pixels (FACTS 3).
    holes = tuple(Box(y, x, y + 1, x + 1) for y in (0, 2, 4) for x in (0, 2, 4))
    points = torch.tensor([[2.5, 2.5], [1.5, 2.5], [2.5, 3.5]])
    assert points_inside(holes, points).tolist() == [True, False, False]


def test_nothing_lies_in_an_empty_field() -> None:
    assert points_inside((), torch.tensor([[1.0, 1.0]])).tolist() == [False]
    assert hull(()) is None
    assert window((), (224, 224)) == ()


# Eighths, so that no sum is rounded.
places = st.tuples(*[st.integers(0, 95).map(lambda eighths: eighths / 8)] * 2)
boxes = st.tuples(*[st.integers(0, 11)] * 4).map(
    lambda at: Box(min(at[0], at[1]), min(at[2], at[3]), max(at[0], at[1]) + 1, max(at[2], at[3]) + 1)
)


@given(
    st.lists(boxes, max_size=4),
    st.lists(places, min_size=1, max_size=5),
)
def test_a_region_holds_the_points_whose_pixels_are_painted(
    region: list[Box], points: list[tuple[float, float]]
) -> None:
    painted = torch.zeros(12, 12, dtype=torch.bool)
    for y0, x0, y1, x1 in region:
        painted[y0:y1, x0:x1] = True
    expected = [bool(painted[int(y), int(x)]) for x, y in points]
    assert points_inside(tuple(region), torch.tensor(points)).tolist() == expected


def test_the_window_is_72_pixels_around_the_middle_of_the_hull() -> None:
    # Rows 100 to 119 have their middle at 110; columns 30 to 49 and 150 to 169 have theirs at 100.
    region = (Box(100, 30, 110, 50), Box(110, 150, 120, 170))
    assert hull(region) == Box(100, 30, 120, 170)
    assert window(region, (224, 224)) == (Box(74, 64, 146, 136),)


def test_the_window_of_a_region_at_the_border_is_cut_and_not_moved() -> None:
    # Its middle is (5, 219), so it would reach from -31 to 41 and from 183 to 255.
    assert window((Box(0, 214, 10, 224),), (224, 224)) == (Box(0, 183, 41, 224),)


@given(boxes, st.integers(1, 30), places)
def test_cutting_a_window_to_the_image_changes_no_hit(box: Box, side: int, point: tuple[float, float]) -> None:
    points = torch.tensor([point])
    large = window((Box(box.y0 + 50, box.x0 + 50, box.y1 + 50, box.x1 + 50),), (200, 200), side)
    assert points_inside(window((box,), (12, 12), side), points).equal(points_inside(large, points + 50))


def test_the_15_points_of_cub_are_12_parts() -> None:
    hidden = torch.zeros(15, dtype=torch.bool)
    assert len(CUB_POINTS) == 15
    assert fold(hidden, CUB_FOLDING).shape == (12,)
    hidden[CUB_POINTS.index("right eye")] = True
    assert [CUB_PARTS[part] for part in fold(hidden, CUB_FOLDING).nonzero().flatten()] == ["eye"]


@pytest.mark.parametrize("seen", ["left eye", "right eye"])
def test_left_and_right_are_one_part_and_a_hidden_one_counts_for_nothing(seen: str) -> None:
    keypoints, visible = torch.zeros(15, 2), torch.zeros(15, dtype=torch.bool)
    keypoints[CUB_POINTS.index("left eye")] = torch.tensor([10.0, 10.0])
    keypoints[CUB_POINTS.index("right eye")] = torch.tensor([50.0, 50.0])
    visible[CUB_POINTS.index(seen)] = True
    eye = CUB_PARTS.index("eye")
    result = part_hits([(Box(5, 5, 15, 15),), (Box(45, 45, 55, 55),)], keypoints, visible, CUB_FOLDING)
    assert result.visible.nonzero().flatten().tolist() == [eye]
    assert result.hit[:, eye].tolist() == [seen == "left eye", seen == "right eye"]
    assert int(result.hit.sum()) == 1  # the points at the origin are hidden, so they hit nothing


def test_points_of_another_data_set_are_refused() -> None:
    with pytest.raises(ValueError, match="2 keypoints, but point_parts names the parts of 3"):
        part_hits([], torch.zeros(2, 2), torch.ones(2, dtype=torch.bool), (0, 1, 2))

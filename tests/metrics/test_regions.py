"""Areas and overlaps of sets of pixels with holes, against masks counted pixel by pixel."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torchvision import tv_tensors

from pixpnet.box import Box
from pixpnet.data.sample import box_in
from pixpnet.metrics.regions import Cell, CellRegions, area, center, iou, object_mask, shared_area, union_mask
from tests.explanation.toys import toy
from tests.metrics.part_toys import BLACK, RED, picture

SIDE = 5
masks = st.lists(st.booleans(), min_size=SIDE * SIDE, max_size=SIDE * SIDE).map(
    lambda bits: np.array(bits).reshape(SIDE, SIDE)
)


def boxes(mask: np.ndarray) -> tuple[Box, ...]:
    """A mask as one box for each run of pixels in a row."""
    runs = []
    for row, line in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(int), [0]])))
        runs += [Box(row, int(start), row + 1, int(stop)) for start, stop in edges.reshape(-1, 2)]
    return tuple(runs)


@given(masks, masks)
def test_iou_of_unions_of_boxes_is_that_of_their_pixels(one: np.ndarray, other: np.ndarray) -> None:
    both, either = int((one & other).sum()), int((one | other).sum())
    assert area(boxes(one)) == one.sum()
    assert shared_area(boxes(one), boxes(other)) == both
    assert iou(boxes(one), boxes(other)) == (both / either if either else None)
    assert (union_mask([boxes(one), boxes(other)], (SIDE, SIDE)).numpy() == (one | other)).all()


def test_the_same_region_overlaps_wholly_and_an_empty_one_not_at_all() -> None:
    holes = (Box(0, 0, 1, 1), Box(2, 2, 3, 3))
    assert iou(holes, holes) == 1.0
    # The hulls would overlap by 9 of 9.
    assert iou(holes, (Box(0, 1, 3, 2),)) == 0.0
    assert iou(holes, ()) == 0.0
    assert iou((), ()) is None
    assert center(()) is None


def test_cells_whose_fields_have_holes_are_compared_by_their_pixels() -> None:
    network = nn.Sequential(nn.Conv2d(3, 3, 1, stride=2), nn.Conv2d(3, 3, 3, padding=1))
    model = toy(network, size=(12, 12))
    field = model.field_at((12, 12))
    regions = CellRegions(model, (12, 12))
    assert len(regions.region(Cell(0, 2, 2))) == 9  # FACTS 3: 9 pixels, not the hull's 25
    for one, other in [((2, 2), (2, 2)), ((2, 2), (2, 3)), ((0, 0), (1, 1)), ((0, 0), (5, 5))]:
        first, second = field.mask(*one), field.mask(*other)
        expected = int((first & second).sum()) / int((first | second).sum())
        cells = [Cell(0, *one), Cell(0, *other)]
        assert regions.mean_iou(cells) == regions.mean_iou(cells[::-1]) == expected


def test_the_mean_is_over_pairs_and_windows_are_cut_to_the_image() -> None:
    model = toy()  # cells of 4 x 4 pixels in 8 x 8
    regions = CellRegions(model, (8, 8))
    left, right = Cell(0, 0, 0), Cell(0, 0, 1)
    # Of three cells two are the same: pairs with 1, 0 and 0.
    assert regions.mean_iou([left, left, right]) == pytest.approx(1 / 3)
    # Middles (2, 2) and (2, 6) with windows of 6: 5 x 5 pixels each, 5 x 2 of them shared.
    assert regions.region(right, 6) == (Box(0, 3, 5, 8),)
    assert regions.mean_iou([left, right], 6) == 10 / 40
    assert regions.mean_iou([left]) is None


def test_the_object_is_its_box_or_else_its_masks() -> None:
    parts = torch.zeros(2, 8, 8, dtype=torch.bool)
    parts[0, 0, 0] = parts[1, 7, 7] = True
    plain = picture(((RED, BLACK), (BLACK, BLACK)), [])
    masked = picture(((RED, BLACK), (BLACK, BLACK)), [], masks=parts)
    assert object_mask(plain) is None
    shown = object_mask(masked)
    assert shown is not None and shown.nonzero().tolist() == [[0, 0], [7, 7]]
    boxed = type(masked)(**{**vars(masked), "bounding_box": box_in((2.0, 0.0, 6.0, 3.0), (8, 8))})
    shown = object_mask(boxed)
    assert shown is not None and int(shown.sum()) == 12 and shown[:3, 2:6].all()
    outside = type(masked)(**{**vars(masked), "bounding_box": box_in((9.0, 0.0, 12.0, 3.0), (8, 8))})
    assert object_mask(outside) is None
    assert isinstance(boxed.bounding_box, tv_tensors.BoundingBoxes)

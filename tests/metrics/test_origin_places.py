"""Prototypes' patches by hand: on the object's box or not, near a part or not, and the same at random places."""

from dataclasses import replace

import pytest
import torch
from torchvision import tv_tensors

from pixpnet.box import Box
from pixpnet.data import Sample
from pixpnet.data.sample import box_in
from pixpnet.metrics.bootstrap import DefinedMean
from pixpnet.metrics.origin_places import PrototypePlaces, prototype_places
from pixpnet.model import PixPNet
from pixpnet.records import from_plain, to_plain
from tests.metrics.part_toys import (
    BLACK,
    BOTTOM_RIGHT,
    RED,
    TOP_LEFT,
    TOP_RIGHT,
    data_of,
    finder,
    origin,
    picture,
)

# The object is the left half; its two parts are in the top left and the bottom left square.
WARM = replace(
    picture(((RED, BLACK), (BLACK, BLACK)), [(2.5, 2), (1, 7)], name="warm"),
    bounding_box=box_in((0.0, 0.0, 4.0, 8.0), (8, 8)),
)


def with_origins(*regions: tuple[Box, ...]) -> PixPNet:
    model = finder()
    model.origins = tuple(origin(number, "warm", region) for number, region in enumerate(regions))
    return model


def mean(measured: DefinedMean) -> float:
    assert measured.estimate is not None
    return measured.estimate.mean


def test_four_patches_by_hand() -> None:
    # Middles at (2, 2), (6, 2), (6, 6) and (2, 6): two on the box. The radius is 16 x 8 / 224 = 0.571: only the first
    # is that near to a point (0.5); the last is sqrt(2) from the other.
    model = with_origins(TOP_LEFT, TOP_RIGHT, BOTTOM_RIGHT, (Box(4, 0, 8, 4),))
    places = prototype_places(model, data_of([WARM]))
    assert (mean(places.on_object), mean(places.near_part)) == (0.5, 0.25)
    assert places.radius == pytest.approx(4 / 7)
    assert places.object_known_by == "boxes"
    assert (places.on_object.undefined, places.near_part.undefined) == (0, 0)


def test_random_places_are_those_of_the_same_region_in_the_same_image() -> None:
    # A region of 4 x 4 in 8 x 8 has its middle at 2, 3, 4, 5 or 6; on the left half at 2 or 3: 2/5.
    places = prototype_places(with_origins(*[TOP_RIGHT] * 4), data_of([WARM]))
    assert mean(places.on_object) == 0.0
    assert mean(places.random_on_object) == pytest.approx(2 / 5, abs=0.08)
    # Near (2.5, 2) are the middles (2, 2) and (3, 2), near (1, 7) none: 2 of 25.
    assert mean(places.random_near_part) == pytest.approx(2 / 25, abs=0.05)
    # A region as large as the image has one place, and its middle, (4, 4), is not on the left half.
    whole = prototype_places(with_origins(*[(Box(0, 0, 8, 8),)] * 4), data_of([WARM]))
    assert mean(whole.on_object) == mean(whole.random_on_object) == 0.0


def test_the_middle_is_that_of_the_hull() -> None:
    # Two corners of the top left square: the middle lies between them.
    corners = (Box(0, 0, 1, 1), Box(3, 3, 4, 4))
    assert mean(prototype_places(with_origins(*[corners] * 4), data_of([WARM])).near_part) == 1.0


def test_what_is_not_known_is_undefined_and_counted() -> None:
    def places(sample: Sample, *regions: tuple[Box, ...]) -> PrototypePlaces:
        return prototype_places(with_origins(*regions), data_of([sample]))

    empty = places(WARM, TOP_LEFT, TOP_LEFT, TOP_LEFT, ())
    assert (empty.on_object.undefined, empty.near_part.undefined, empty.random_near_part.undefined) == (1, 1, 1)
    no_box = places(replace(WARM, bounding_box=None), *[TOP_LEFT] * 4)
    assert (no_box.on_object, no_box.object_known_by) == (DefinedMean(None, 4), "nothing")
    assert mean(no_box.near_part) == 1.0
    no_parts = places(replace(WARM, visible=torch.tensor([False, False])), *[TOP_LEFT] * 4)
    assert no_parts.near_part == no_parts.random_near_part == DefinedMean(None, 4)
    assert mean(no_parts.on_object) == 1.0
    masks = torch.zeros(1, 8, 8, dtype=torch.bool)
    masks[0, 2, 2] = True
    masked = replace(WARM, bounding_box=None, masks=tv_tensors.Mask(masks))
    by_mask = places(masked, TOP_LEFT, TOP_LEFT, TOP_RIGHT, TOP_RIGHT)
    assert (mean(by_mask.on_object), by_mask.object_known_by) == (0.5, "masks")


def test_without_origins_everything_is_undefined() -> None:
    places = prototype_places(finder(), data_of([WARM]))
    assert places.on_object == places.near_part == DefinedMean(None, 4)


def test_an_image_that_is_cut_otherwise_now_is_refused() -> None:
    model = finder()
    shifted = (1.0, 0.0, 3.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    model.origins = (origin(0, "warm", TOP_LEFT, shifted),)
    with pytest.raises(ValueError, match="wrong place"):
        prototype_places(model, data_of([WARM]))


def test_the_record_reads_back_and_images_are_ticked() -> None:
    ticks: list[int] = []
    places = prototype_places(with_origins(*[TOP_LEFT] * 4), data_of([WARM]), tick=lambda: ticks.append(1))
    assert from_plain(PrototypePlaces, to_plain(places)) == places
    assert len(ticks) == 1

"""Background, duplicates, coverage and the cost of replacement, counted by hand."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pixpnet.box import Box
from pixpnet.data import DrawnBirds, Preprocessing, preprocess
from pixpnet.data.drawn import birds_catalog
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics import accuracy_lost_at_replacement, explanation_size, prototype_health
from pixpnet.metrics.health.background import background
from pixpnet.metrics.health.duplicates import duplicates, near_rows
from pixpnet.metrics.health.patches import object_share, patches
from pixpnet.metrics.health.replacement_cost import difference
from pixpnet.model import Backbone, PixPNet
from pixpnet.records import from_plain, to_plain
from pixpnet.training import Run, RunError
from tests.metrics.part_toys import (
    BLACK,
    BLUE,
    BOTTOM_LEFT,
    BOTTOM_RIGHT,
    IDENTITY,
    RED,
    TOP_LEFT,
    TOP_RIGHT,
    WHITE,
    YELLOW,
    data_of,
    finder,
    origin,
    picture,
)


def nothing() -> None:
    pass


# Beak at the top left, tail at the top right; in "cold" the tail is hidden.
WARM = picture(((RED, YELLOW), (BLACK, BLACK)), [(2, 2), (6, 2)], 0, "warm")
COLD = picture(((BLUE, WHITE), (BLACK, BLACK)), [(2, 2), None], 1, "cold")
BLIND = picture(((BLUE, WHITE), (BLACK, BLACK)), [None, None], 1, "blind")


def test_where_only_points_are_known_background_is_a_region_without_a_visible_part() -> None:
    model = finder()
    # Beak; nothing; nothing (the hidden tail does not count); in an image that shows nothing.
    places = [("warm", TOP_LEFT), ("warm", BOTTOM_LEFT), ("cold", TOP_RIGHT), ("blind", TOP_LEFT)]
    model.origins = tuple(origin(number, *index) for number, index in enumerate(places))
    result = prototype_health(model, data_of([WARM, COLD, BLIND])).background
    assert result.known_by == "keypoints"
    assert result.share is not None
    assert result.share.mean == 2 / 3
    assert result.prototypes == (1, 2)
    assert result.undefined == 1
    assert result.object_share is None


def test_where_masks_are_known_background_is_too_few_pixels_of_the_object() -> None:
    masks = torch.zeros(2, 8, 8, dtype=torch.bool)
    masks[0, 0, 0:2] = True  # 2 of the 16 pixels of the top left square
    masks[1, 0:4, 4:8] = True  # all of the top right
    masks[1, 4, 0] = True  # 1 of 16 of the bottom left
    masked = picture(((RED, YELLOW), (BLACK, BLACK)), [(2, 2), (6, 2)], 0, "warm", masks)
    model = finder()
    regions = [TOP_LEFT, TOP_RIGHT, BOTTOM_LEFT, BOTTOM_RIGHT]
    model.origins = tuple(origin(number, "warm", region) for number, region in enumerate(regions))
    data = data_of([masked])
    result = prototype_health(model, data).background
    assert result.known_by == "masks"
    assert result.object_share is not None
    assert result.object_share.mean == (2 / 16 + 1 + 1 / 16 + 0) / 4
    # By the tenth: 1/16 and 0 are too few. By the half: 2/16 as well.
    assert result.prototypes == (2, 3)
    assert prototype_health(model, data, least_object=0.5).background.prototypes == (0, 2, 3)


def test_the_object_is_counted_once_where_parts_overlap_and_boxes_add_up() -> None:
    shown = torch.zeros(4, 4, dtype=torch.bool)
    shown[0] = True
    assert object_share((Box(0, 0, 1, 2), Box(2, 0, 3, 2)), shown) == 0.5
    assert object_share((), shown) is None


def test_a_prototype_about_which_nothing_is_known_is_undefined() -> None:
    model = finder()
    # An empty region, and an image that the data set does not have.
    model.origins = (origin(0, "warm", ()), origin(1, "gone", TOP_LEFT), *(origin(n, "warm", TOP_LEFT) for n in (2, 3)))
    result = prototype_health(model, data_of([WARM]))
    assert result.background.undefined == 2
    assert result.background.share is not None
    assert result.background.share.mean == 0
    model.origins = None
    unknown = prototype_health(model, data_of([WARM]))
    assert (unknown.background.share, unknown.background.undefined, unknown.background.known_by) == (None, 4, "nothing")
    assert (unknown.coverage.share, unknown.coverage.undefined) == (None, 2)
    assert unknown.duplicates.within.same_image is None
    assert unknown.duplicates.undefined == 4


def test_a_data_set_without_parts_says_nothing_about_background() -> None:
    model = finder()
    model.origins = tuple(origin(number, "plain", TOP_LEFT) for number in range(4))
    plain = picture(((RED, YELLOW), (BLACK, BLACK)), [], 0, "plain")
    result = prototype_health(model, data_of([plain], point_parts=()))
    assert (result.background.share, result.background.undefined) == (None, 4)
    assert result.coverage.share is None


def test_an_image_that_is_cut_otherwise_now_is_refused() -> None:
    model = finder()
    moved = (1.0, 0.0, 3.0, *IDENTITY[3:])
    model.origins = tuple(origin(number, "warm", TOP_LEFT, moved) for number in range(4))
    with pytest.raises(ValueError, match="not cut and scaled as it was"):
        prototype_health(model, data_of([WARM]))


def test_drawn_birds_have_masks() -> None:
    catalog = birds_catalog(DrawnBirds(train=24, test=0))
    bird = catalog.reader(catalog.entries[0])
    shown = preprocess(bird, catalog.preprocessing)
    assert shown.masks is not None
    assert shown.box is not None
    y0, x0, y1, x1 = shown.box
    # The box is around the bird: nothing of it is outside, and something inside.
    inside = object_share((shown.box,), shown.masks.any(dim=0))
    assert inside is not None
    assert inside > 0.1
    outside = (Box(0, 0, y0, 96), Box(y1, 0, 96, 96), Box(y0, 0, y1, x0), Box(y0, x1, y1, 96))
    assert object_share(tuple(box for box in outside if box.y0 < box.y1 and box.x0 < box.x1), shown.masks.any(0)) == 0


# Coverage -----------------------------------------------------------------------------------------------------


def test_a_part_is_covered_by_one_prototype_of_the_class() -> None:
    model = finder()
    places = [("warm", TOP_LEFT), ("warm", BOTTOM_LEFT), ("cold", TOP_LEFT), ("cold", TOP_LEFT)]
    model.origins = tuple(origin(number, *index) for number, index in enumerate(places))
    result = prototype_health(model, data_of([WARM, COLD])).coverage
    # Warm shows beak and tail, and the beak is covered. Cold shows the beak only, and covers it.
    assert [(explained.visible, explained.covered) for explained in result.classes] == [((0, 1), (0,)), ((0,), (0,))]
    assert result.share is not None
    assert result.share.mean == 0.75
    assert (result.share.low, result.share.high) == (0.5, 1.0)
    assert result.undefined == 0


def test_a_class_that_shows_no_part_is_undefined() -> None:
    model = finder()
    places = [("warm", TOP_LEFT), ("warm", TOP_RIGHT), ("blind", TOP_LEFT), ("blind", TOP_LEFT)]
    model.origins = tuple(origin(number, *index) for number, index in enumerate(places))
    result = prototype_health(model, data_of([WARM, BLIND])).coverage
    assert result.undefined == 1
    assert result.share is not None
    assert (result.share.mean, result.share.count) == (1.0, 1)


# Duplicates ---------------------------------------------------------------------------------------------------


def test_twins_are_found_in_the_class_and_across() -> None:
    model = finder()
    # Class 0: one image, two regions. Class 1: one of its two prototypes is the very patch that prototype 0 is.
    places = [("a", TOP_LEFT), ("a", TOP_RIGHT), ("a", TOP_LEFT), ("b", TOP_LEFT)]
    model.origins = tuple(origin(number, *index) for number, index in enumerate(places))
    result = duplicates(model)
    means = [
        estimate and estimate.mean
        for twins in (result.within, result.across)
        for estimate in (twins.same_image, twins.same_region, twins.near_vector)
    ]
    # Within: 0 and 1 share an image, none a region. Across: 0 and 2, 1 and 2 share an image; 0 and 2 a region.
    assert means == [0.5, 0.0, 0.0, 0.75, 0.5, 0.0]


def test_nearly_the_same_vector_is_within_the_tolerance_of_its_length() -> None:
    model = finder()
    with torch.no_grad():
        model.prototypes.copy_(
            torch.tensor([[3.0, 4.0, 0.0], [3.0, 4.0, 0.04], [0.0, 0.0, 1.0], [3.0, 4.0, 0.06]])[:, :, None, None]
        )
    # The longest is 5, so 1 % is 0.05: 0.04 and 0.02 apart are near, 0.06 is not.
    near = torch.cat([rows for _, rows in near_rows(model, tolerance=0.01)])
    assert near.fill_diagonal_(False).nonzero().tolist() == [[0, 1], [1, 0], [1, 3], [3, 1]]
    result = duplicates(model, tolerance=0.01)
    assert result.within.near_vector is not None
    assert result.across.near_vector is not None
    assert (result.within.near_vector.mean, result.across.near_vector.mean) == (0.5, 0.5)


@pytest.mark.parametrize(("distance", "same"), [("cosine", True), ("squared_l2", False)])
def test_length_matters_only_to_a_distance_that_sees_it(distance: str, same: bool) -> None:
    model = finder(distance=distance)
    with torch.no_grad():
        model.prototypes[1] = 2 * model.prototypes[0]
    near = torch.cat([rows for _, rows in near_rows(model)])
    assert bool(near[0, 1]) is same


# The rest -----------------------------------------------------------------------------------------------------


def evaluation_of(right: int, images: int) -> dict[str, object]:
    return {"accuracy": right / images, "images": images}


def test_the_cost_of_replacement_is_read_from_the_run(tmp_path: Path) -> None:
    figures = {
        "validation_before": evaluation_of(27, 36),
        "validation": evaluation_of(18, 36),
        "test_before": evaluation_of(80, 100),
        "test": evaluation_of(90, 100),
    }
    (tmp_path / "metrics.json").write_text(json.dumps(figures))
    result = accuracy_lost_at_replacement(Run(tmp_path))
    assert result is not None
    assert (result.validation.mean, result.validation.count) == (0.25, 36)
    assert result.test is not None
    assert result.test.mean == pytest.approx(-0.1)
    (tmp_path / "metrics.json").write_text(json.dumps({**figures, "test": None, "test_before": None}))
    untested = accuracy_lost_at_replacement(Run(tmp_path))
    assert untested is not None
    assert untested.test is None
    never = {**figures, "validation_before": None, "test_before": None}
    (tmp_path / "metrics.json").write_text(json.dumps(never))
    assert accuracy_lost_at_replacement(Run(tmp_path)) is None
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(RunError, match="damaged"):
        accuracy_lost_at_replacement(Run(tmp_path))


def test_the_interval_of_a_difference_is_newcombes() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table II: examples (a) 56/70 - 48/80 and (b) 9/10 - 3/10, method 10.
    for counts, low, high in (((56, 70, 48, 80), 0.0524, 0.3339), ((9, 10, 3, 10), 0.1705, 0.8090)):
        result = difference(*counts)
        assert (result.low, result.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_a_whole_checkup_goes_to_plain_values_and_back_and_tells_how_far_it_is(tmp_path: Path) -> None:
    model = finder()
    model.origins = tuple(origin(number, ("warm", "cold")[number // 2], TOP_LEFT) for number in range(4))
    told: list[tuple[int, int]] = []
    again = picture(((RED, YELLOW), (BLACK, BLACK)), [(2, 2), (6, 2)], 0, "again")
    data = data_of([WARM, COLD], [again])
    result = prototype_health(model, data, progress=lambda _, done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert result.count == 4
    assert result.replacement is None
    assert result.deciding.images == 1
    assert from_plain(type(result), to_plain(result)) == result
    assert not model.training


def test_the_test_split_is_no_place_to_look() -> None:
    with pytest.raises(ValueError, match="'val' or 'train'"):
        prototype_health(finder(), data_of([WARM]), "test")


def test_patches_come_in_the_order_of_prototypes() -> None:
    model = finder()
    model.origins = tuple(origin(number, ("warm", "cold")[number % 2], TOP_LEFT) for number in range(4))
    result = patches(model, data_of([WARM, COLD]), nothing)
    assert [patch.prototype for patch in result] == [0, 1, 2, 3]
    assert background(result, 4).undefined == 0


def test_explanation_size_is_one_of_the_metrics() -> None:
    # Two prototypes for each of two classes: two scores; or a score and a weight for each, and for all four.
    assert explanation_size(finder()) == (2, 2)
    assert explanation_size(finder(head="linear")) == (4, 8)


@pytest.mark.parametrize("several_owners", [False, True])
def test_twins_among_many_prototypes_are_those_of_plain_loops(
    several_owners: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More prototypes than are looked at together, some of them a little less or more than the tolerance apart."""
    model = _many_prototypes(600)
    vectors = model.grids[0].comparison.prototypes.detach()
    generator = torch.Generator().manual_seed(1)
    for number in range(0, 200, 2):
        other = int(torch.randint(200, 600, (), generator=generator))
        step = torch.randn(vectors.shape[1:], generator=generator)
        share = 0.0098 if number % 4 else 0.0102
        vectors[other] = vectors[number] + share * vectors[number].norm() * step / step.norm()
    mask = model.ownership.mask()
    if several_owners:
        mask = mask | (torch.rand(mask.shape, generator=generator) < 0.1)
        mask[:, 5] = False
        monkeypatch.setattr(type(model.ownership), "mask", lambda self: mask)
    flat = torch.nn.functional.normalize(vectors.flatten(1).double()).numpy()
    images = [one.image for one in model.origins or ()]
    counts = {(where, kind): 0 for where in ("within", "across") for kind in ("same_image", "near_vector")}
    for one in range(600):
        own = (mask[:, [one]] & mask).any(dim=0).numpy()
        others = np.arange(600) != one
        near = np.sqrt(((flat - flat[one]) ** 2).sum(axis=1)) <= 0.01
        same = np.array([image == images[one] for image in images])
        for kind, alike in (("same_image", same), ("near_vector", near)):
            counts["within", kind] += bool((alike & others & own).any())
            counts["across", kind] += bool((alike & others & ~own).any())
    found = duplicates(model)
    asked = {"within": int(mask.any(dim=0).sum()), "across": 600}
    for (where, kind), count in counts.items():
        share = getattr(getattr(found, where), kind)
        assert share.mean == pytest.approx(count / asked[where])
    assert 20 < counts["across", "near_vector"] < 200


def _many_prototypes(count: int) -> PixPNet:
    torch.manual_seed(0)
    backbone = Backbone(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 4, stride=4)), "0", (8, 8))
    architecture = Architecture(dim=48, prototypes_per_class=10)
    names = [str(label) for label in range(count // 10)]
    model = PixPNet(backbone, architecture, names, Preprocessing(shortest_side=None, crop=8, size=8))
    images = torch.randint(0, count, (count,)).tolist()
    model.origins = tuple(
        replace(origin(number, f"{image}.jpg", TOP_LEFT), label=number // 10) for number, image in enumerate(images)
    )
    return model

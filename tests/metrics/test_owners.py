"""Metrics of prototypes that speak for several classes, and of some that speak for none."""

from dataclasses import replace

import pytest
import torch

from pixpnet.data import collate
from pixpnet.mapping import MAPPINGS
from pixpnet.metrics import (
    answer_places,
    consistency_and_stability,
    prototype_distinctiveness,
    prototype_health,
    prototype_places,
    prototype_purity,
    relevance_ordering,
)
from pixpnet.metrics.auditing.grounding import check_grounding
from pixpnet.metrics.health.deciding import deciding
from pixpnet.metrics.health.duplicates import duplicates
from pixpnet.metrics.part_scores import PartScores
from pixpnet.model import PixPNet
from pixpnet.records import from_plain, to_plain
from tests.metrics.ownerships import owned
from tests.metrics.part_toys import BLACK, BLUE, RED, TOP_LEFT, YELLOW, data_of, finder, origin, picture

# Red is of class 0, yellow of both, blue of class 1, white of none.
SHARED = [[1, 1, 0, 0], [0, 1, 1, 0]]
WARM = picture(((RED, YELLOW), (BLACK, BLACK)), [(2, 2), (6, 2)], 0, "warm")
COLD = picture(((BLUE, YELLOW), (BLACK, BLACK)), [(2, 2), (6, 6)], 1, "cold")
PARTS = (0, 1)


def shared(mask: list[list[int]] = SHARED) -> PixPNet:
    return owned(finder(), mask)


def test_a_shared_prototype_is_looked_for_in_images_of_all_its_classes() -> None:
    result = consistency_and_stability(shared(), [WARM, COLD], PARTS, region="field", noise=0.0)
    # Yellow is at the tail of the one and at no part of the other.
    assert [(prototype.part, prototype.frequency, prototype.images) for prototype in result.prototypes] == [
        (0, 1.0, 1),
        (1, 0.5, 2),
        (0, 1.0, 1),
        (None, None, 0),
    ]
    assert [prototype.owners for prototype in result.prototypes] == [(0,), (0, 1), (1,), ()]
    assert [prototype.label for prototype in result.prototypes] == [0, 0, 1, -1]
    assert (result.undefined, result.not_drawn) == (1, 0)
    assert result.consistency is not None
    assert (result.consistency.count, result.consistency.clusters) == (3, 2)
    assert from_plain(PartScores, to_plain(result)) == result


def test_one_without_a_class_is_undefined_and_one_whose_classes_were_not_drawn_is_not() -> None:
    result = consistency_and_stability(shared(), [WARM], PARTS, region="field")
    assert (result.undefined, result.not_drawn, result.class_images) == (1, 1, (1, 0))


def test_records_of_earlier_versions_have_one_class_for_each_prototype() -> None:
    result = consistency_and_stability(finder(), [WARM], PARTS, region="field")
    plain = to_plain(result)
    for prototype in plain["prototypes"]:
        del prototype["owners"]
    earlier = from_plain(PartScores, plain)
    assert (earlier.not_drawn, earlier.undefined) == (result.not_drawn, result.undefined) == (2, 0)


def test_health_counts_a_shared_prototype_for_each_class_and_none_for_no_class() -> None:
    model = shared()
    model.origins = (
        origin(0, "warm", TOP_LEFT),
        replace(origin(1, "cold", TOP_LEFT), label=1),
        origin(2, "cold", ()),
        replace(origin(3, "warm", TOP_LEFT), label=0),
    )
    result = prototype_health(model, data_of([WARM, COLD], [WARM]))
    # Red and yellow: the beak of "warm" and of "cold", which show beak and tail. Blue has an empty region.
    assert [(explained.visible, explained.covered) for explained in result.coverage.classes] == [
        ((0, 1), (0,)),
        ((0, 1), (0,)),
    ]
    assert result.background.undefined == 1
    assert result.background.share is not None
    # Yellow is listed with red; blue is known by nothing; white is a cluster of its own.
    assert (result.background.share.count, result.background.share.clusters) == (3, 2)
    assert result.count == 4
    assert result.deciding.never is not None
    assert result.deciding.never.clusters == 3
    assert from_plain(type(result), to_plain(result)) == result


def test_twins_share_a_class_or_do_not() -> None:
    model = shared()
    places = ["a", "b", "b", "a"]
    model.origins = tuple(origin(number, index, TOP_LEFT) for number, index in enumerate(places))
    result = duplicates(model)
    within, across = result.within.same_image, result.across.same_image
    assert within is not None and across is not None
    # Yellow and blue share class 1 and an image. White has no class: it is asked about the second kind alone.
    assert (within.mean, within.count) == (pytest.approx(2 / 3), 3)
    # Red and white share an image and no class.
    assert (across.mean, across.count) == (0.5, 4)


def test_deciding_is_asked_of_the_decision() -> None:
    result = deciding(shared(), [collate([WARM, COLD])], "val")
    assert len(result.decided) == 4
    assert result.never is not None
    assert result.never.count == 4


def test_purity_and_places_do_not_need_classes() -> None:
    model = shared()
    with torch.no_grad():
        model.head.weight[:, 3] = 1.0
    result = prototype_purity(model, [WARM, COLD], PARTS, images=1)
    assert result.prototypes == 4
    assert result.field.mean is not None
    assert result.field.mean.clusters == 3
    model.origins = tuple(origin(number, "warm", TOP_LEFT) for number in range(4))
    near = prototype_places(model, data_of([WARM])).near_part.estimate
    assert near is not None
    assert (near.count, near.clusters) == (4, 3)


def test_an_answer_of_a_class_that_no_prototype_speaks_for_has_no_places() -> None:
    model = shared([[1, 1, 1, 0], [0, 0, 0, 0]])
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[0.0] * 4, [1.0] * 4]))
    places = answer_places(model, [WARM])
    for figure in (places.distinct_cells, places.overlap, places.image_covered, places.winning_region):
        assert (figure.estimate, figure.undefined) == (None, 1)
    assert places.prototypes == 0
    assert prototype_distinctiveness(model, [COLD]).field.undefined == 1
    # Nothing to order for "cold", and three curves for "warm".
    ordered = relevance_ordering(model, [WARM, COLD], MAPPINGS["field"], prototypes_per_sample=None)
    assert {pair.sample for pair in ordered.pairs} == {"warm"}
    assert len(ordered.pairs) == 3


@pytest.mark.parametrize(
    ("images", "wrong"), [(("warm", "warm", "cold", "warm"), ()), (("cold", "cold", "warm", "cold"), (0, 2))]
)
def test_the_audit_asks_which_class_may_give_a_patch(images: tuple[str, ...], wrong: tuple[int, ...]) -> None:
    model = shared()
    labels = {"warm": 0, "cold": 1}
    model.origins = tuple(
        replace(origin(number, image, TOP_LEFT), label=labels[image]) for number, image in enumerate(images)
    )
    result = check_grounding(model, data_of([WARM, COLD]))
    claim = next(finding for finding in result.findings if "training image" in finding.claim)
    assert claim.verdict == ("fails" if wrong else "holds"), claim.evidence
    for number in wrong:
        assert f"prototype {number} comes from {images[number]} of another class" in claim.evidence

"""Signs of doubt: AUROC by counting pairs, false positives by hand, lists without a length counted as undefined."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.metrics.doubt import DECIDING, RARER, auroc, compare_doubt, false_positive_rate, scores_of
from pixpnet.model.calibration import Calibration
from pixpnet.training.kept_scores import UNKNOWN, SplitScores
from tests.explanation.toys import real

NUMBERS = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(known=NUMBERS, others=NUMBERS)
def test_auroc_is_the_share_of_pairs_in_the_right_order(known: list[int], others: list[int]) -> None:
    pairs = [1.0 if one > other else 0.5 if one == other else 0.0 for one in known for other in others]
    assert auroc(np.array(known, float), np.array(others, float)) == pytest.approx(np.mean(pairs))


@given(known=NUMBERS, others=NUMBERS)
def test_the_limit_of_the_false_positives_is_reached_by_95_percent_and_no_larger_one_is(
    known: list[int], others: list[int]
) -> None:
    limits = [limit for limit in known if sum(value >= limit for value in known) >= 0.95 * len(known)]
    expected = np.mean([value >= max(limits) for value in others])
    assert false_positive_rate(np.array(known, float), np.array(others, float)) == pytest.approx(expected)


def split(largest: list[float], lengths: list[int]) -> SplitScores:
    logits = torch.tensor([[value, 0.0, 0.0] for value in largest]).reshape(-1, 3)
    zeros = torch.zeros(len(largest), dtype=torch.int64)
    return SplitScores(logits, zeros, logits[:, 0], torch.tensor(lengths, dtype=torch.int64))


def test_each_sign_has_its_figures_and_what_is_undefined_is_counted() -> None:
    model = real()
    model.calibration = Calibration(1.0, "validation", 1, (0.1,), 4.0)
    known, others = split([9, 8, 7, 5], [1, 2, UNKNOWN, 2]), split([6, 3, 2, 1], [3, 3, 3, UNKNOWN])
    result = compare_doubt(model, known, "test", others, "noise", "")
    logit, score, length, rarer = result.signs
    assert logit.auroc is not None and logit.auroc.mean == 15 / 16
    assert logit.false_positives is not None and logit.false_positives.mean == 0.25
    assert length.auroc is not None and length.auroc.mean == 1.0
    assert (length.known, length.others, length.undefined) == (3, 3, 2)
    assert result.warned == 0.75 and score.undefined == 0
    assert rarer.auroc == logit.auroc  # the two signs are the same numbers here
    assert logit.auroc.low is not None and logit.auroc.high is not None
    assert logit.auroc.low <= logit.auroc.mean <= logit.auroc.high


def test_the_rarer_of_two_signs_sees_what_either_sees() -> None:
    known = split([9, 8, 7, 6], [1] * 4)
    # A known sum of weak scores, a known score in a weak sum, and both known.
    others = replace(split([8, 1, 8], [1] * 3), largest_scores=torch.tensor([1.0, 8.0, 8.0]))
    rarer = compare_doubt(real(), known, "val", others, "others", "").signs[-1]
    assert rarer.sign == RARER and rarer.auroc is not None
    # Ranks 7/8, 5/8, 3/8, 1/8 against 0, 0, 5/8: nine pairs in the right order, one equal.
    pairs = [(k > o) + 0.5 * (k == o) for k in (7, 5, 3, 1) for o in (0, 0, 5)]
    assert rarer.auroc.mean == sum(pairs) / 12 == 9.5 / 12


def test_rarity_is_told_among_the_images_that_the_limits_are_from() -> None:
    known, others = split([9, 8, 7, 6], [1] * 4), split([5, 4], [1] * 2)
    assert rarer_area(known, others, None) == 1.0
    # Among these all of them are as rare as can be: nothing tells them apart.
    assert rarer_area(known, others, split([20, 30], [1] * 2)) == 0.5
    # And among these 9 and 8 are known, the rest is not.
    assert rarer_area(known, others, split([7.5] * 3, [1] * 3)) == (2 * 2 + 2 * 2 * 0.5) / 8


def rarer_area(known: SplitScores, others: SplitScores, calibrated_on: SplitScores | None) -> float:
    result = compare_doubt(real(), known, "val", others, "others", "", calibrated_on=calibrated_on)
    assert result.signs[-1].sign == RARER and result.signs[-1].auroc is not None
    return result.signs[-1].auroc.mean


def test_the_model_warns_of_images_below_either_limit() -> None:
    model = real()
    model.calibration = Calibration(1.0, "validation", 1, (0.1,), 4.0, least_score=2.0)
    others = replace(split([8, 1, 8, 8], [1] * 4), largest_scores=torch.tensor([1.0, 8.0, 8.0, 2.0]))
    result = compare_doubt(model, others, "val", others, "others", "")
    assert result.warned == 0.5 and (result.limit, result.score_limit) == (4.0, 2.0)
    assert result.other_scores == (1.0, 8.0, 8.0, 2.0)


def test_where_lists_cannot_be_told_the_reason_is() -> None:
    known = split([9, 8], [UNKNOWN] * 2)
    result = compare_doubt(real(), known, "val", known, "itself", "bounds say nothing")
    (length,) = [sign for sign in result.signs if sign.sign == DECIDING]
    assert length.auroc is None and length.reason == "bounds say nothing" and length.undefined == 4
    assert result.warned is None


def test_scores_of_images_are_those_of_the_network() -> None:
    model = real()
    images = torch.randn(5, 3, 48, 48, generator=torch.Generator().manual_seed(0))
    scores, refusal = scores_of(model, [images[:3], images[3:]])
    with torch.no_grad():
        output = model(images)
    torch.testing.assert_close(scores.logits, output.logits)
    torch.testing.assert_close(scores.largest_scores, output.matches.scores.amax(dim=1))
    assert refusal == "" and ((scores.deciding >= 1) & (scores.deciding <= 6)).all()
    assert len(replace(scores, labels=scores.labels)) == 5


def test_without_other_images_the_reason_is_that_and_one_image_has_no_interval() -> None:
    model = real()
    model.calibration = Calibration(1.0, "validation", 1, (0.1,), 4.0)
    known = split([9, 8], [1, 2])
    none = compare_doubt(model, known, "test", split([], []), "nothing", "trees have no bounds")
    assert none.warned is None and none.warned_interval is None
    assert {sign.reason for sign in none.signs} == {"there are no images"}
    one = compare_doubt(model, known, "test", split([3], [UNKNOWN]), "one", "")
    assert one.signs[0].auroc is not None and one.signs[0].auroc.mean == 1.0 and one.signs[0].auroc.low is None
    assert one.signs[2].reason == "no image has a value"
    assert one.warned == 1.0 and one.warned_interval is not None and one.warned_interval.low < 0.5

"""Two signs of doubt with one rate of false alarms: laws that hold for any numbers, ties and all, and hand counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pixpnet.model.calibration import Calibration, calibrate, doubt, warned_of
from pixpnet.model.doubt import Doubt, DoubtLimits, doubt_limits, least_known
from pixpnet.records import from_plain, to_plain

RATES = st.sampled_from([0.05, 0.1, 0.25, 0.5])


@st.composite
def pairs(draw: st.DrawFn, least: int = 0, most: int = 70) -> list[tuple[float, float]]:
    """Logits and scores of images, from nothing in common to the same numbers, with few ties, many, or nothing else."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, steps = draw(st.integers(least, most)), draw(st.sampled_from([1, 3, 20, 10**6]))
    logits = random.integers(0, steps, count).astype(float)
    together = draw(st.sampled_from(["apart", "same", "against", "constant"]))
    apart = random.integers(0, draw(st.sampled_from([1, 3, 20, 10**6])), count).astype(float)
    scores = {"apart": apart, "same": logits, "against": -logits, "constant": np.full(count, 0.7)}[together]
    return list(zip(logits.tolist(), scores.tolist(), strict=True))


def limits_of(images: Sequence[tuple[float, float]], rate: float) -> DoubtLimits:
    return doubt_limits([logit for logit, _ in images], [score for _, score in images], rate)


def is_rare(image: tuple[float, float], limits: DoubtLimits) -> bool:
    return any(limit is not None and value < limit for value, limit in zip(image, limits, strict=True))


@given(images=pairs(), rate=RATES)
def test_no_more_calibration_images_than_the_rate_allows_are_warned_of(
    images: list[tuple[float, float]], rate: float
) -> None:
    limits = limits_of(images, rate)
    assert sum(is_rare(image, limits) for image in images) <= rate * len(images)


@settings(max_examples=60, deadline=None)
@given(images=pairs(least=1, most=60), rate=RATES)
@example(images=[(float(n), float(-n)) for n in range(40)], rate=0.05)
@example(images=[(float(n), float(n)) for n in range(60)], rate=0.05)
def test_of_images_that_take_turns_in_being_new_no_more_than_the_rate_allows_are_warned_of(
    images: list[tuple[float, float]], rate: float
) -> None:
    # Which of n + 1 exchangeable images is the new one is a matter of chance: this *is* the rate of false alarms.
    warned = [is_rare(image, limits_of(images[:n] + images[n + 1 :], rate)) for n, image in enumerate(images)]
    assert sum(warned) <= rate * len(images) + 1e-9


@given(images=pairs(), rate=RATES, seed=st.integers(0, 2**32 - 1))
def test_the_order_of_the_images_changes_nothing_and_the_signs_are_treated_alike(
    images: list[tuple[float, float]], rate: float, seed: int
) -> None:
    limits = limits_of(images, rate)
    shuffled = [images[index] for index in np.random.default_rng(seed).permutation(len(images))]
    assert limits_of(shuffled, rate) == limits
    if limits.score is not None:
        swapped = limits_of([(score, logit) for logit, score in images], rate)
        assert swapped == DoubtLimits(limits.score, limits.logit)


@given(images=pairs(), rates=st.tuples(RATES, RATES))
def test_a_larger_rate_never_has_lower_limits(images: list[tuple[float, float]], rates: tuple[float, float]) -> None:
    low, high = (limits_of(images, rate) for rate in sorted(rates))
    if low.score is not None:  # from one limit to two the logit's may fall: the score takes its share of the rate
        assert low.logit is not None and high.logit is not None and high.score is not None
        assert low.logit <= high.logit and low.score <= high.score
    assert low.logit is None or high.logit is not None


@given(images=pairs(least=39), image=st.tuples(st.floats(-5, 25), st.floats(-5, 25)), more=st.floats(0, 9))
def test_more_evidence_or_a_better_match_never_raises_doubt(
    images: list[tuple[float, float]], image: tuple[float, float], more: float
) -> None:
    limits = limits_of(images, 0.05)
    for better in ((image[0] + more, image[1]), (image[0], image[1] + more)):
        assert is_rare(image, limits) or not is_rare(better, limits)


@given(count=st.integers(0, 130))
def test_how_many_limits_there_are_depends_on_the_number_of_images_alone(count: int) -> None:
    random = np.random.default_rng(count)
    limits = doubt_limits(random.normal(size=count).tolist(), random.normal(size=count).tolist(), 0.05)
    assert [limit is not None for limit in limits] == [count >= 19, count >= 39]


def test_the_rank_is_the_largest_that_is_safe_for_signs_without_anything_in_common() -> None:
    # 119 images, so 6 of 120 may be warned of. The lowest three by each sign are six others: at rank 3 the new image
    # and 2 + 3 more are rare, at rank 4 the new image and 3 + 4.
    logits = [float(n) for n in range(119)]
    scores = [float((n + 60) % 119) for n in range(119)]
    assert doubt_limits(logits, scores, 0.05) == pytest.approx((2.0, 2.0), rel=1e-4)
    # The same numbers twice: at rank 5 the new image and 5 more, though 4 of them would be more exact.
    assert doubt_limits(logits, logits, 0.05) == pytest.approx((4.0, 4.0), rel=1e-4)


def test_scores_that_say_nothing_cost_one_rank_of_the_logit_and_warn_of_nobody() -> None:
    logits = [float(n) for n in range(1, 321)]
    limits = doubt_limits(logits, [0.7] * 320, 0.05)
    alone = least_known(logits, 0.05)
    assert alone == 16.0 and limits.logit == pytest.approx(15.0, rel=1e-4)
    # In another batch the same number has other last digits.
    assert limits.score is not None and 0.7 * (1 - 2**-20) > limits.score > 0.699


def test_new_known_images_are_warned_of_as_rarely_as_stated() -> None:
    random = np.random.default_rng(0)
    alarms = []
    for _ in range(300):
        shared = random.normal(size=(360, 1))
        values = shared + random.normal(size=(360, 2))
        limits = doubt_limits(*values[:160].T.tolist(), 0.05)
        assert limits.logit is not None and limits.score is not None
        alarms.append(((values[160:, 0] < limits.logit) | (values[160:, 1] < limits.score)).mean())
    assert 0.035 < np.mean(alarms) < 0.05


def known(least_logit: float | None, least_score: float | None) -> Calibration:
    return Calibration(1.0, "folds", 1, (0.1,), least_logit, least_score=least_score)


def test_doubt_says_which_sign_is_rare() -> None:
    def rare(logit: float, score: float, limits: Calibration) -> tuple[str, ...]:
        doubtful = doubt(limits, logit, score)
        assert doubtful is not None and doubtful.raised == bool(doubtful.rare) and doubtful.source == "folds"
        return doubtful.rare

    both = known(2.0, 0.5)
    assert rare(2.0, 0.5, both) == () and rare(1.9, 0.5, both) == ("logit",)
    assert rare(2.0, 0.4, both) == ("score",) and rare(1.9, 0.4, both) == ("logit", "score")
    assert rare(2.0, 0.0, known(2.0, None)) == ()  # as files of earlier versions have it
    assert doubt(None, 3.0, 1.0) is None and doubt(known(None, None), 3.0, 1.0) is None


@given(images=pairs(least=1, most=50), limits=st.sampled_from([(None, None), (3.0, None), (3.0, 0.5), (1e6, -1.0)]))
def test_doubt_about_many_images_is_doubt_about_each(
    images: list[tuple[float, float]], limits: tuple[float | None, float | None]
) -> None:
    calibration = known(*limits)
    logits = torch.tensor([[logit, logit - 1] for logit, _ in images], dtype=torch.float64)
    scores = torch.tensor([score for _, score in images], dtype=torch.float64)
    each = [doubt(calibration, logit, score) for logit, score in images]
    warned = warned_of(calibration, logits, scores)
    if limits[0] is None:
        assert warned is None and each == [None] * len(images)
    else:
        assert warned is not None
        assert warned.tolist() == [one is not None and one.raised for one in each]


def test_a_calibration_has_the_limits_of_its_images_and_keeps_them_in_plain_values() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, scores = torch.randn(60, 3, generator=generator), torch.rand(60, generator=generator)
    calibration = calibrate(logits, scores, torch.zeros(60, dtype=torch.int64), "validation")
    assert calibration is not None
    limits = doubt_limits(logits.double().amax(dim=1).tolist(), scores.double().tolist(), 0.05)
    assert (calibration.least_logit, calibration.least_score) == limits and None not in limits
    assert from_plain(Calibration, to_plain(calibration), "card") == calibration


def test_records_of_earlier_versions_have_one_limit_and_still_doubt_by_it() -> None:
    plain = to_plain(known(2.0, None))
    del plain["least_score"]
    old = from_plain(Calibration, plain, "card")
    assert old == known(2.0, None) and to_plain(old, for_all=True).keys() == plain.keys() - {"correction"}
    said = from_plain(
        Doubt, {"largest_logit": 1.0, "least_logit": 2.0, "false_alarms": 0.05, "images": 9}, "explanation"
    )
    assert said.raised and said.rare == ("logit",) and said.source is None


def test_limits_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="comes with one of logits"):
        replace(known(2.0, 0.5), least_logit=None)
    with pytest.raises(ValueError, match="a logit and a score"):
        doubt_limits([1.0], [], 0.05)

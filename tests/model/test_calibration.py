"""Certainty: temperature, prediction sets and doubt, against NumPy by hand, and laws that hold for any model."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pixpnet.model.calibration import (
    Calibration,
    calibrate,
    fewest_images,
    fit_temperature,
    prediction_set,
    probabilities,
    set_limit,
)
from pixpnet.model.doubt import least_known

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, images: int, classes: int, sharpness: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and labels drawn from their softmax: honest at temperature 1; then the logits are made too sharp."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 2, (images, classes))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = [random.choice(classes, p=row) for row in chances]
    return torch.from_numpy(sharpness * logits), torch.tensor(labels)


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
def test_logits_that_are_too_sharp_by_a_factor_get_that_temperature(sharpness: float) -> None:
    logits, labels = drawn(0, 4000, 5, sharpness)
    assert fit_temperature(logits, labels) == pytest.approx(sharpness, rel=0.08)


def test_the_temperature_is_where_the_cross_entropy_is_smallest() -> None:
    logits, labels = drawn(1, 60, 4, 3.0)
    rows, truth = logits.numpy(), labels.numpy()
    targets = np.full((60, 4), 1 / 62 / 3)
    targets[np.arange(60), truth] = 61 / 62

    def loss(temperature: float) -> float:
        scaled = rows / temperature
        return float(-(targets * (scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True)))).sum(axis=1).mean())

    temperature = fit_temperature(logits, labels)
    grid = np.exp(np.linspace(np.log(temperature) - 1, np.log(temperature) + 1, 201))
    assert min(grid, key=loss) == pytest.approx(temperature, rel=1e-9)


def test_images_that_are_all_right_do_not_make_everything_certain() -> None:
    logits, labels = 5 * torch.eye(3).repeat(12, 1), torch.arange(3).repeat(12)
    chance = float(probabilities(logits, fit_temperature(logits, labels))[0, 0])
    assert chance == pytest.approx(37 / 38, rel=1e-6)


@given(seed=SEEDS, temperature=st.floats(0.01, 100))
def test_a_temperature_changes_no_answer(seed: int, temperature: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(seed).normal(0, 5, (20, 6)))
    assert torch.equal(probabilities(logits, temperature).argmax(dim=1), logits.argmax(dim=1))


def plain(nonconformity: list[float]) -> Calibration:
    return Calibration(1.0, "validation", len(nonconformity), tuple(sorted(nonconformity)), None)


def test_the_limit_of_a_set_is_the_right_order_statistic() -> None:
    calibration = plain([number / 100 for number in range(1, 20)])  # 19 images
    # ceil(20 * 0.95) = 19, ceil(20 * 0.9) = 18, ceil(20 * 0.5) = 10
    assert [set_limit(calibration, coverage) for coverage in (0.95, 0.9, 0.5)] == [0.19, 0.18, 0.10]
    assert set_limit(calibration, 0.96) is None
    assert fewest_images(0.95) == 19 and fewest_images(0.96) == 24 and fewest_images(0.9) == 9


def test_too_few_images_give_all_classes() -> None:
    logits = torch.tensor([0.0, 9.0, 1.0])
    assert prediction_set(plain([0.0] * 18), logits, 0.95) == (1, 2, 0)
    assert prediction_set(plain([0.01] * 19), logits, 0.95) == (1,)


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_sets_hold_the_true_class_as_often_as_they_promise(coverage: float) -> None:
    # Exchangeable images of a model that is anything but honest: the promise holds on average over many draws.
    held, sizes = [], []
    for seed in range(150):
        logits, labels = drawn(seed, 80, 4, 5.0)
        calibration = calibrate(logits[:40], logits[:40, 0], labels[:40], "validation")
        assert calibration is not None
        for row, label in zip(logits[40:], labels[40:].tolist(), strict=True):
            chosen = prediction_set(calibration, row, coverage)
            held.append(label in chosen)
            sizes.append(len(chosen))
    # Between coverage and coverage + 1 / (n + 1), up to what 6000 images that come in 150 draws can tell.
    assert coverage - 0.015 < np.mean(held) < coverage + 1 / 41 + 0.015
    assert 1 < np.mean(sizes) < 4


@pytest.mark.parametrize("coverage", [0.0, 1.0, 95.0])
def test_a_coverage_that_is_no_share_is_refused(coverage: float) -> None:
    with pytest.raises(ValueError, match="such as"):
        set_limit(plain([0.1]), coverage)


@settings(max_examples=30)
@given(values=st.lists(st.integers(0, 30), min_size=1, max_size=60), rate=st.sampled_from([0.05, 0.1, 0.5]))
def test_fewer_known_images_than_the_rate_allows_are_below_the_limit(values: list[int], rate: float) -> None:
    limit = least_known([float(value) for value in values], rate)
    if limit is None:
        assert rate * (len(values) + 1) < 1
    else:
        assert sum(value < limit for value in values) <= rate * (len(values) + 1)


def test_warnings_of_new_known_images_are_as_rare_as_stated() -> None:
    random = np.random.default_rng(0)
    alarms = []
    for _ in range(400):
        limit = least_known(random.normal(size=50).tolist(), 0.05)
        assert limit is not None
        alarms.append(np.mean(random.normal(size=200) < limit))
    assert 0.02 < np.mean(alarms) < 0.05


def test_without_images_there_is_no_calibration() -> None:
    assert calibrate(torch.zeros(0, 3), torch.zeros(0), torch.zeros(0, dtype=torch.int64), "validation") is None


@pytest.mark.parametrize("numbers", [(0.2, 0.1), (0.1,)])
def test_a_calibration_that_cannot_be_is_refused(numbers: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="rising order"):
        Calibration(1.0, "validation", 2, numbers, None)
    with pytest.raises(ValueError, match="temperature"):
        Calibration(0.0, "validation", 1, (0.1,), None)

"""Honest probabilities on images: bins and their error by hand, sets by counting, and what no temperature changes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.metrics.certainty import BINS, certainty_table, reliability, set_coverage
from pixpnet.model.calibration import Calibration, calibrate
from pixpnet.training.kept_scores import SplitScores


def logits_for(chances: list[float]) -> torch.Tensor:
    """Two classes, of which the first gets these probabilities."""
    return torch.tensor([[np.log(chance), np.log(1 - chance)] for chance in chances], dtype=torch.float64)


def test_the_error_is_the_one_that_a_hand_computes() -> None:
    # Bins of a fifteenth: 0.61 and 0.63 in the tenth (0.6 to 0.667), 0.99 in the last.
    result = reliability(logits_for([0.61, 0.63, 0.99, 0.99]), torch.tensor([0, 1, 0, 0]), 1.0)
    assert result.error.mean == pytest.approx((abs(0.62 - 0.5) * 2 + abs(0.99 - 1.0) * 2) / 4)
    held = {n: (some.images, some.probability, some.accuracy) for n, some in enumerate(result.bins) if some.images}
    assert held == {9: (2, pytest.approx(0.62), 0.5), 14: (2, pytest.approx(0.99), 1.0)}
    assert result.error.low is not None and result.error.low <= result.error.mean


def drawn(images: int, sharper: float, seed: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Logits of a model, labels drawn by honest probabilities, and the honest ones of its answers."""
    random = np.random.default_rng(seed)
    honest = random.normal(0, 3, (images, 8))
    chances = np.exp(honest) / np.exp(honest).sum(axis=1, keepdims=True)
    labels = (random.random((images, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(max=7)
    return torch.from_numpy(sharper * honest), torch.from_numpy(labels), chances.max(axis=1)


@pytest.mark.parametrize("sharper", [1.0, 2.0])
def test_the_interval_holds_the_error_that_many_images_show(sharper: float) -> None:
    logits, _, truth = drawn(200_000, sharper, 0)
    stated = logits.softmax(dim=1).amax(dim=1).numpy()
    number = np.minimum((stated * BINS).astype(int), BINS - 1)
    off = np.abs(np.bincount(number, stated, BINS) - np.bincount(number, truth, BINS)).sum() / len(stated)
    assert off < 1e-9 if sharper == 1 else off > 0.05
    results = [reliability(*drawn(200, sharper, 1 + seed)[:2], 1.0, seed) for seed in range(40)]
    held = [result.error.low <= off + 1e-4 and off <= result.error.high for result in results]  # type: ignore[operator]
    assert np.mean(held) >= 0.85
    # What honest models show on 200 images is what chance is said to do.
    honest = [reliability(*drawn(200, 1.0, 1 + seed)[:2], 1.0, seed) for seed in range(40)]
    means = [np.mean([result.error.mean for result in honest]), np.mean([result.by_chance for result in honest])]
    assert means[0] == pytest.approx(means[1], rel=0.1) and means[0] > 0.04


@given(seed=st.integers(0, 2**32 - 1), temperature=st.floats(0.2, 5))
def test_the_error_lies_between_nothing_and_one_and_bins_hold_every_image_once(seed: int, temperature: float) -> None:
    random = np.random.default_rng(seed)
    logits, labels = torch.from_numpy(random.normal(0, 3, (25, 4))), torch.from_numpy(random.integers(0, 4, 25))
    result = reliability(logits, labels, temperature)
    assert result.error.low is not None and result.error.high is not None
    assert 0 <= result.error.low <= result.error.mean <= result.error.high <= 1
    assert sum(some.images for some in result.bins) == 25 and len(result.bins) == BINS
    right = sum(some.images * some.accuracy for some in result.bins if some.accuracy is not None)
    assert right == pytest.approx(int((logits.argmax(dim=1) == labels).sum()))


def test_a_temperature_makes_logits_that_are_too_sharp_honest() -> None:
    random = np.random.default_rng(0)
    honest = random.normal(0, 1.5, (3000, 4))
    chances = np.exp(honest) / np.exp(honest).sum(axis=1, keepdims=True)
    labels = torch.tensor([random.choice(4, p=row) for row in chances])
    logits = torch.from_numpy(4 * honest).float()
    scores = [
        SplitScores(logits[part], labels[part], logits[part].amax(dim=1), torch.ones(1500, dtype=torch.int64))
        for part in (slice(0, 1500), slice(1500, 3000))
    ]
    known = calibrate(scores[0].logits, scores[0].largest_scores, scores[0].labels, "validation")
    assert known is not None
    table = certainty_table(scores[1], known, "test")
    assert table is not None
    assert table.before.error.mean > 0.2 and table.after.error.mean < 0.05
    assert table.sets.interval.low - 0.02 < 0.95 < table.sets.interval.high + 0.02
    assert table.warned is not None and table.warned == pytest.approx(0.05, abs=0.02)


def test_sets_are_counted_as_they_are() -> None:
    logits = logits_for([0.9, 0.6, 0.2])
    scores = SplitScores(logits, torch.tensor([0, 1, 1]), logits[:, 0], torch.ones(3, dtype=torch.int64))
    # Classes with a probability of at least 0.4 are in the set: {0}, {0, 1}, {1}.
    known = Calibration(1.0, "validation", 19, (0.6 + 1e-9,) * 19, None)
    result = set_coverage(scores, known, 0.95)
    assert (result.held, result.mean_size, result.single, result.empty) == (1.0, 4 / 3, 2 / 3, 0.0)
    assert not result.too_few
    few = set_coverage(scores, Calibration(1.0, "validation", 1, (0.0,), None), 0.95)
    assert few.too_few and few.mean_size == 2 and few.held == 1


def test_without_images_there_is_nothing_to_say() -> None:
    empty = SplitScores(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), torch.zeros(0), torch.zeros(0).long())
    assert certainty_table(empty, Calibration(1.0, "validation", 1, (0.0,), None), "test") is None
    with pytest.raises(ValueError, match="without images"):
        reliability(empty.logits, empty.labels, 1.0)

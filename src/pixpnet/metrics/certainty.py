"""Are its probabilities honest? Reliability, expected calibration error, and what prediction sets hold, with intervals.

The expected calibration error (ECE) sorts images by how probable the model says its answer is, into bins of equal
width, and averages how far the mean probability of a bin is from the share of right answers in it, each bin by its
images. It is never negative, so on few images it is larger than it would be on many. Its interval draws images again;
draws have the same bias once more, so they are moved back by how far their mean is from the error itself.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pixpnet.metrics.bootstrap import Estimate
from pixpnet.model.calibration import Calibration, prediction_set, probabilities, set_limit, warned_of
from pixpnet.training import Interval
from pixpnet.training.evaluation import wilson
from pixpnet.training.kept_scores import SplitScores

BINS = 15
_DRAWS = 1000
_LEVEL = 0.95


@dataclass(frozen=True)
class Bin:
    """Images whose answer is about equally probable.

    Attributes:
        low, high: between which probabilities.
        images: how many.
        probability: mean of what the model says; None without images.
        accuracy: share of right answers; None without images.
    """

    low: float
    high: float
    images: int
    probability: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Reliability:
    """How honest the probabilities of answers are.

    Attributes:
        bins: of equal width.
        error: the expected calibration error.
    """

    bins: tuple[Bin, ...]
    error: Estimate


@dataclass(frozen=True)
class SetCoverage:
    """What prediction sets hold.

    Attributes:
        wanted: the share of images whose true class is to be in the set.
        held: the share whose true class is.
        interval: of that share (Wilson, 95 %).
        images: how many.
        mean_size: classes in a set.
        single: share of sets with exactly one class.
        empty: share of sets without any.
        too_few: whether all sets hold all classes, because too few images were there to calibrate on.
    """

    wanted: float
    held: float
    interval: Interval
    images: int
    mean_size: float
    single: float
    empty: float
    too_few: bool


@dataclass(frozen=True)
class CertaintyTable:
    """All about the certainty of a model on the images of a split.

    Attributes:
        split: whose images.
        temperature: of the calibration.
        before: at temperature 1.
        after: at the model's temperature.
        sets: for one coverage.
        warned: share of these images for which there is doubt, which is false alarm; None where there is no limit.
        warned_interval: of that share (Wilson, 95 %).
    """

    split: str
    temperature: float
    before: Reliability
    after: Reliability
    sets: SetCoverage
    warned: float | None
    warned_interval: Interval | None


def certainty_table(
    scores: SplitScores, calibration: Calibration, split: str, coverage: float = 0.95, seed: int = 0
) -> CertaintyTable | None:
    """Measures a model's certainty on images of which scores were kept; None without any.

    Args:
        scores: of the images.
        calibration: of the model.
        split: what the images are, for the record.
        coverage: of prediction sets.
        seed: of the intervals' draws.
    """
    if not len(scores):
        return None
    doubted = warned_of(calibration, scores.logits, scores.largest_scores)
    warned = None if doubted is None else int(doubted.sum())
    return CertaintyTable(
        split=split,
        temperature=calibration.temperature,
        before=reliability(scores.logits, scores.labels, 1.0, seed),
        after=reliability(scores.logits, scores.labels, calibration.temperature, seed),
        sets=set_coverage(scores, calibration, coverage),
        warned=None if warned is None else warned / len(scores),
        warned_interval=None if warned is None else wilson(warned, len(scores)),
    )


def reliability(
    logits: Float[Tensor, "images classes"], labels: Int64[Tensor, " images"], temperature: float, seed: int = 0
) -> Reliability:
    """How honest the softmax at a temperature is about the answers to some images.

    Raises:
        ValueError: without any image.
    """
    if not len(labels):
        raise ValueError("without images nothing can be said about probabilities")
    chances = probabilities(logits, temperature)
    stated = chances.amax(dim=1).numpy()
    right = (chances.argmax(dim=1) == labels.cpu()).numpy()
    bin_index = np.minimum((stated * BINS).astype(np.int64), BINS - 1)
    drawn = np.random.default_rng(seed).integers(len(stated), size=(_DRAWS, len(stated)))
    errors = [_error(bin_index[row], stated[row], right[row]) for row in drawn]
    measured = _error(bin_index, stated, right)
    ends = np.quantile(errors, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]) - (np.mean(errors) - measured)
    low, high = np.clip(ends, [0.0, measured], [measured, 1.0]).tolist()
    bins = [_bin(number, stated[bin_index == number], right[bin_index == number]) for number in range(BINS)]
    several = len(stated) > 1
    error = Estimate(measured, low if several else None, high if several else None, len(stated), len(stated))
    return Reliability(tuple(bins), error)


def _error(
    bin_index: Int64[np.ndarray, " images"], stated: Float[np.ndarray, " images"], right: Bool[np.ndarray, " images"]
) -> float:
    gaps = np.bincount(bin_index, stated, BINS) - np.bincount(bin_index, right, BINS)
    return float(np.abs(gaps).sum() / len(stated))


def _bin(number: int, stated: Float[np.ndarray, " some"], right: Bool[np.ndarray, " some"]) -> Bin:
    ends = (number / BINS, (number + 1) / BINS)
    return (
        Bin(*ends, len(stated), float(stated.mean()), float(right.mean())) if len(stated) else Bin(*ends, 0, None, None)
    )


def set_coverage(scores: SplitScores, calibration: Calibration, coverage: float) -> SetCoverage:
    """How often prediction sets hold the true class of images, and how large they are."""
    sets = [prediction_set(calibration, row, coverage) for row in scores.logits]
    held = sum(label in chosen for label, chosen in zip(scores.labels.tolist(), sets, strict=True))
    sizes = np.array([len(chosen) for chosen in sets])
    return SetCoverage(
        wanted=coverage,
        held=held / len(sets),
        interval=wilson(held, len(sets)),
        images=len(sets),
        mean_size=float(sizes.mean()),
        single=float((sizes == 1).mean()),
        empty=float((sizes == 0).mean()),
        too_few=set_limit(calibration, coverage) is None,
    )

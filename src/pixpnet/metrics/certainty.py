"""Are its probabilities honest? Reliability, expected calibration error, and what prediction sets hold, with intervals.

The expected calibration error (ECE) sorts images by how probable the model says its answer is, into bins of equal
width, and averages how far the mean probability of a bin is from the share of right answers in it, each bin by its
images. It is never negative, so on few images it is larger than it would be on many: even a model that is honest shows
some, and how much is told beside it (`Reliability.by_chance`).

Its interval is of the error that many images would show. For any such error, images can be drawn with accuracies that
are off by it in every bin, to the side that was seen; the interval holds those errors under which what was measured is
neither among the largest 2.5 % of draws nor among the smallest. An honest model's interval so begins at 0.
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
from pixpnet.wording import percent

BINS = 15
_DRAWS = 1000
_LEVEL = 0.95
# Of the two ends of an interval, which is far finer than what is printed.
_HALVINGS = 14


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
        error: the expected calibration error, with an interval of what it would be on many images.
        by_chance: what a model whose probabilities are honest shows on as many images, on average.
    """

    bins: tuple[Bin, ...]
    error: Estimate
    by_chance: float


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
        own_images: whether the model was calibrated on these very images, so that all of it flatters the model.
    """

    split: str
    temperature: float
    before: Reliability
    after: Reliability
    sets: SetCoverage
    warned: float | None
    warned_interval: Interval | None
    own_images: bool = False


FITTED_TO_THESE = (
    "The model was calibrated on these very images, which flatters it: sets hold, and warnings are rare, by "
    "construction. Only images that it was not calibrated on can tell."
)
"""What is said beside figures on the images of the calibration (`CertaintyTable.own_images`)."""


def error_words(reliability: Reliability) -> str:
    """By how much stated probabilities are off, with the interval, and what chance alone does on so many images.

    >>> error_words(Reliability((), Estimate(0.031, 0.0, 0.042, 351, 351), 0.027))
    '3.1 % (95 % interval 0 % to 4.2 %; an honest model shows 2.7 % on as many images)'
    """
    low, high = reliability.error.low, reliability.error.high
    between = "" if low is None or high is None else f"95 % interval {percent(low)} to {percent(high)}; "
    chance = f"an honest model shows {percent(reliability.by_chance)} on as many images"
    return f"{percent(reliability.error.mean)} ({between}{chance})"


def fitted_to(calibration: Calibration, split: str) -> bool:
    """Whether a model was calibrated on the images of a split of its own data set."""
    return calibration.source == "validation" and split in ("val", "validation")


def certainty_table(
    scores: SplitScores,
    calibration: Calibration,
    split: str,
    coverage: float = 0.95,
    seed: int = 0,
    own_images: bool = False,
) -> CertaintyTable | None:
    """Measures a model's certainty on images of which scores were kept; None without any.

    Args:
        scores: of the images.
        calibration: of the model.
        split: what the images are, for the record.
        coverage: of prediction sets.
        seed: of the intervals' draws.
        own_images: whether these are the images that it was calibrated on.
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
        own_images=own_images,
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
    bins = tuple(_bin(number, stated[bin_index == number], right[bin_index == number]) for number in range(BINS))
    filled = _FilledBins(bins, seed)
    count, measured = len(stated), filled.error
    low, high = filled.interval() if count > 1 else (None, None)
    error = Estimate(measured, low, high, count, count)
    return Reliability(bins, error, float(filled.draws(0.0).mean()))


class _FilledBins:
    """Bins with images, as numbers, from which others are drawn as if probabilities were off by some error."""

    def __init__(self, bins: tuple[Bin, ...], seed: int) -> None:
        known = [
            (some.images, some.probability, some.accuracy)
            for some in bins
            if some.probability is not None and some.accuracy is not None
        ]
        images, self.stated, self.right = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
        self.images = int(images.sum())
        self.shares = images / self.images
        self.seed = seed

    @property
    def error(self) -> float:
        return float(self.shares @ np.abs(self.stated - self.right))

    def accuracies(self, off: float) -> Float[np.ndarray, " bins"]:
        """Off from what is stated by so much, to the side that was seen, but not beyond 0 and 1."""
        side = np.where(self.right > self.stated, 1.0, -1.0)
        return np.clip(self.stated + off * side, 0.0, 1.0)

    def true_error(self, off: float) -> float:
        return float(self.shares @ np.abs(self.stated - self.accuracies(off)))

    def draws(self, off: float) -> Float[np.ndarray, " draws"]:
        """Errors that as many images show; by the same random numbers for every `off`."""
        random = np.random.default_rng(self.seed)
        images = random.multinomial(self.images, self.shares, size=_DRAWS)
        right = random.binomial(images, self.accuracies(off))
        return np.asarray(np.abs(images * self.stated - right).sum(axis=1) / self.images)

    def interval(self) -> tuple[float, float]:
        """Errors under which the measured one is neither rarely large nor rarely small."""
        ends = (1 + _LEVEL) / 2, (1 - _LEVEL) / 2
        low, high = (self._off_where(end) for end in ends)
        return min(self.true_error(low), self.error), max(self.true_error(high), self.error)

    def _off_where(self, quantile: float) -> float:
        """How far off accuracies are where the measured error is this quantile of draws; 0 where it is below all."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if float(np.quantile(self.draws(middle), quantile)) < self.error:
                low = middle
            else:
                high = middle
        return (low + high) / 2 if low > 0 else 0.0


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

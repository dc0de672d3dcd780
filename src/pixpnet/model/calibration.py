"""How sure a model may say to be: probabilities, prediction sets and doubt, from images that it did not learn from.

**Temperature** (Guo et al. 2017): logits are divided by one number before the softmax, chosen so that the probabilities
of held-out images are as honest as one number can make them. It changes no answer. **Prediction sets** (split conformal
prediction): of all classes those whose calibrated probability is not lower than that of the true class in all but a few
held-out images. **Doubt**: an image whose largest logit or largest score is smaller than that of nearly all held-out
images (`pixpnet.model.doubt`).

Logits of which images these are made of, `source` says; one kept number for each is all that prediction sets need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from pixpnet.model.doubt import FALSE_ALARMS, Doubt, Source, doubt_limits
from pixpnet.records import ADDED_LATER

# 1 / temperature is sought between these.
_LEAST, _MOST = 1e-4, 1e4
_HALVINGS = 80
_DRAWS = 100


@dataclass(frozen=True)
class Calibration:
    """What a model knows about its own certainty, from images that it did not learn from.

    Attributes:
        temperature: that logits are divided by.
        source: whose logits: those of the validation images, by this model; or those of the training images, each by a
            model of the same settings that was trained without it (folds).
        images: how many.
        nonconformity: for each image one minus the calibrated probability of its true class, in rising order.
        least_logit: the largest logit of an answer below which there is doubt; None where there were too few images.
        false_alarms: the share of known images below a limit, at most (on average over draws of such images).
        correction: what the temperature of the images was multiplied with, because models that learnt from fewer images
            answered (`size_correction`); 1 where the model itself did.
        least_score: the largest score below which there is doubt, too; None where there were too few images for two
            limits, and in files of earlier versions, which warn by the logit alone.
    """

    temperature: float
    source: Source
    images: int
    nonconformity: tuple[float, ...]
    least_logit: float | None
    false_alarms: float = FALSE_ALARMS
    correction: float = field(default=1.0, metadata=ADDED_LATER)
    least_score: float | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"a temperature is positive and finite, got {self.temperature}")
        if len(self.nonconformity) != self.images or list(self.nonconformity) != sorted(self.nonconformity):
            raise ValueError(
                f"there is one number for each of {self.images} images in rising order, got {len(self.nonconformity)}"
            )
        if self.least_score is not None and self.least_logit is None:
            raise ValueError(f"a limit of scores comes with one of logits, got {self.least_score} alone")


def calibrate(
    logits: Float[Tensor, "images classes"],
    largest_scores: Float[Tensor, " images"],
    labels: Int64[Tensor, " images"],
    source: Source,
    correction: float = 1.0,
) -> Calibration | None:
    """What logits and scores of images that were not learnt from say about certainty; None without any image.

    Args:
        logits: of the images.
        largest_scores: the largest score of any prototype, of each image.
        labels: their true classes.
        source: whose logits they are.
        correction: of the temperature, where other models answered.

    >>> import torch
    >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
    >>> calibrate(logits, logits.amax(dim=1), torch.tensor([0, 1, 1]), "validation").temperature > 1
    True
    """
    if not len(labels):
        return None
    exact = logits.double()
    temperature = correction * fit_temperature(exact, labels)
    true = probabilities(exact, temperature).gather(1, labels[:, None].cpu())[:, 0]
    limits = doubt_limits(exact.amax(dim=1).tolist(), largest_scores.double().tolist(), FALSE_ALARMS)
    return Calibration(
        temperature=temperature,
        source=source,
        images=len(labels),
        nonconformity=tuple(sorted((1 - true).tolist())),
        least_logit=limits.logit,
        correction=correction,
        least_score=limits.score,
    )


def size_correction(
    logits: Float[Tensor, "images classes"],
    by_folds: Sequence[Float[Tensor, "images classes"]],
    labels: Int64[Tensor, " images"],
    seed: int = 0,
) -> float:
    """What the temperature of folds is to be multiplied with to be that of a model that learnt from all images.

    Models of folds learnt from fewer images, know less, and so need a higher temperature than the model that is kept.
    Both kinds are asked about the same images, which neither learnt from: the validation images. They are few, but what
    makes one of them hard makes it hard for both, so the *ratio* of the two temperatures is known far better than
    either. How well, drawing the images again says, and the log of the ratio is shrunk by that: by r^2 / (r^2 + s^2)
    for a ratio of e^r with a standard deviation of s. What cannot be told from 1 stays near 1.

    Args:
        logits: of the validation images, by the model that is kept.
        by_folds: of the same images, by the model of each fold.
        labels: their true classes.
        seed: of the draws.

    >>> import torch
    >>> easy = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [3.0, 2.0]] * 10)
    >>> truth = torch.tensor([0, 1, 1, 0] * 10)
    >>> size_correction(easy, [easy, easy], truth), round(size_correction(easy / 2, [easy], truth), 2)
    (1.0, 0.5)
    """
    if not len(labels) or not by_folds:
        return 1.0

    def log_ratio(chosen: Int64[np.ndarray, " images"]) -> float:
        truth = labels[chosen]
        folds = [np.log(fit_temperature(part[chosen], truth)) for part in by_folds]
        return float(np.log(fit_temperature(logits[chosen], truth)) - np.mean(folds))

    drawn = np.random.default_rng(seed).integers(len(labels), size=(_DRAWS, len(labels)))
    ratio, deviation = log_ratio(np.arange(len(labels))), float(np.std([log_ratio(row) for row in drawn]))
    if ratio == 0:
        return 1.0
    return float(np.exp(ratio**3 / (ratio**2 + deviation**2)))


def probabilities(
    logits: Float[Tensor, "*batch classes"], temperature: float = 1.0
) -> Float64[Tensor, "*batch classes"]:
    """The softmax of logits at a temperature, in double precision."""
    return (logits.detach().double().cpu() / temperature).softmax(dim=-1)


def fit_temperature(logits: Float[Tensor, "images classes"], labels: Int64[Tensor, " images"]) -> float:
    """The temperature with the smallest cross-entropy.

    Images that are all answered rightly would ask for temperature 0, so that everything is certain; so of n images the
    true class counts (n + 1) / (n + 2), as Platt (1999) has it, and the other classes share the rest. In the inverse of
    the temperature the cross-entropy is convex: its derivative is divided in halves.
    """
    exact, count = logits.detach().double().cpu(), len(labels)
    exact = exact - exact.amax(dim=1, keepdim=True)
    true = exact.gather(1, labels.cpu()[:, None])[:, 0]
    others = (exact.sum(dim=1) - true) / (exact.shape[1] - 1)
    wanted = (((count + 1) * true + others) / (count + 2)).mean()

    def slope(inverse: float) -> float:
        return float(((exact * inverse).softmax(dim=1) * exact).sum(dim=1).mean() - wanted)

    low, high = np.log(_LEAST), np.log(_MOST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if slope(float(np.exp(middle))) > 0:
            high = middle
        else:
            low = middle
    return float(np.exp(-(low + high) / 2))


def set_limit(calibration: Calibration, coverage: float) -> float | None:
    """The largest nonconformity of a class in a prediction set; None where there are too few images for this coverage.

    With n images it is the ceil((n + 1) coverage)-th smallest of theirs: a new image like them has its true class in
    its set with at least this probability, over the draw of all.

    Raises:
        ValueError: if the coverage is no share.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is a share between 0 and 1, such as 0.95, got {coverage}")
    # A product that is a whole number may lie above it by a rounding error.
    rank = ceil((calibration.images + 1) * coverage - 1e-9)
    return None if rank > calibration.images else calibration.nonconformity[rank - 1]


def fewest_images(coverage: float) -> int:
    """How many images prediction sets of a coverage need, so that they are not always all classes.

    >>> fewest_images(0.95), fewest_images(0.5)
    (19, 1)
    """
    return ceil(coverage / (1 - coverage) - 1e-9)


def prediction_set(calibration: Calibration, logits: Float[Tensor, " classes"], coverage: float) -> tuple[int, ...]:
    """The classes that may be the true one, the most probable first; all of them where there are too few images.

    It may be empty: then no class is as probable as the true one is in nearly all known images.
    """
    chances = probabilities(logits, calibration.temperature)
    order = chances.argsort(descending=True, stable=True).tolist()
    limit = set_limit(calibration, coverage)
    return tuple(order) if limit is None else tuple(label for label in order if 1 - float(chances[label]) <= limit)


def doubt(calibration: Calibration | None, largest_logit: float, largest_score: float) -> Doubt | None:
    """Whether there is doubt about an answer; None where the model has no limit for it."""
    if calibration is None or calibration.least_logit is None:
        return None
    return Doubt(
        largest_logit=largest_logit,
        least_logit=calibration.least_logit,
        false_alarms=calibration.false_alarms,
        images=calibration.images,
        largest_score=largest_score,
        least_score=calibration.least_score,
        source=calibration.source,
    )


def warned_of(
    calibration: Calibration | None,
    logits: Float[Tensor, "images classes"],
    largest_scores: Float[Tensor, " images"],
) -> Bool[Tensor, " images"] | None:
    """For each image whether there is doubt; None where the model has no limit for it."""
    if calibration is None or calibration.least_logit is None:
        return None
    rare = logits.double().amax(dim=1) < calibration.least_logit
    return rare if calibration.least_score is None else rare | (largest_scores.double() < calibration.least_score)

"""How sure a model may say to be: probabilities, prediction sets and doubt, from images that it did not learn from.

**Temperature** (Guo et al. 2017): logits are divided by one number before the softmax, chosen so that the probabilities
of held-out images are as honest as one number can make them. It changes no answer. **Prediction sets** (split conformal
prediction): of all classes those whose calibrated probability is not lower than that of the true class in all but a few
held-out images. **Doubt**: an answer whose largest logit is smaller than that of nearly all held-out images.

Logits of which images these are made of, `source` says; one kept number for each is all that prediction sets need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from pixpnet.records import ADDED_LATER

FALSE_ALARMS = 0.05
"""Of known images, the share that doubt is allowed to warn of."""
# 1 / temperature is sought between these.
_LEAST, _MOST = 1e-4, 1e4
_HALVINGS = 80
_DRAWS = 100

Source = Literal["validation", "folds"]


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
        false_alarms: the share of known images below it, at most (on average over draws of such images).
        correction: what the temperature of the images was multiplied with, because models that learnt from fewer images
            answered (`size_correction`); 1 where the model itself did.
    """

    temperature: float
    source: Source
    images: int
    nonconformity: tuple[float, ...]
    least_logit: float | None
    false_alarms: float = FALSE_ALARMS
    correction: float = field(default=1.0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"a temperature is positive and finite, got {self.temperature}")
        if len(self.nonconformity) != self.images or list(self.nonconformity) != sorted(self.nonconformity):
            raise ValueError(
                f"there is one number for each of {self.images} images in rising order, got {len(self.nonconformity)}"
            )


@dataclass(frozen=True)
class Doubt:
    """Whether an image looks like something that the model knows.

    Attributes:
        largest_logit: of the answer.
        least_logit: below which there is doubt.
        false_alarms: the share of known images for which there is, too.
        images: that the limit is from.
    """

    largest_logit: float
    least_logit: float
    false_alarms: float
    images: int

    @property
    def raised(self) -> bool:
        """Whether the image looks like nothing that the model knows."""
        return self.largest_logit < self.least_logit


def calibrate(
    logits: Float[Tensor, "images classes"], labels: Int64[Tensor, " images"], source: Source, correction: float = 1.0
) -> Calibration | None:
    """What logits of images that were not learnt from say about certainty; None without any image.

    Args:
        logits: of the images.
        labels: their true classes.
        source: whose logits they are.
        correction: of the temperature, where other models answered.

    >>> import torch
    >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
    >>> calibrate(logits, torch.tensor([0, 1, 1]), "validation").temperature > 1
    True
    """
    if not len(labels):
        return None
    exact = logits.double()
    temperature = correction * fit_temperature(exact, labels)
    true = probabilities(exact, temperature).gather(1, labels[:, None].cpu())[:, 0]
    return Calibration(
        temperature=temperature,
        source=source,
        images=len(labels),
        nonconformity=tuple(sorted((1 - true).tolist())),
        least_logit=least_known(exact.amax(dim=1).tolist(), FALSE_ALARMS),
        correction=correction,
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


def least_known(values: list[float], rate: float) -> float | None:
    """The value below which at most a share of images like these fall; None where there are too few for that.

    >>> least_known([float(value) for value in range(19)], 0.05), least_known([1.0] * 18, 0.05)
    (0.0, None)
    """
    rank = floor(rate * (len(values) + 1) + 1e-9)
    return sorted(values)[rank - 1] if rank else None


def doubt(calibration: Calibration | None, largest_logit: float) -> Doubt | None:
    """Whether there is doubt about an answer; None where the model has no limit for it."""
    if calibration is None or calibration.least_logit is None:
        return None
    return Doubt(largest_logit, calibration.least_logit, calibration.false_alarms, calibration.images)

"""Doubt: whether an image looks like something that a model knows, by two signs with limits that are chosen together.

The signs are the **largest logit** (how much evidence the best class gets) and the **largest score** (how well the best
part matches a prototype). Neither is enough: a sum of many weak matches may pass for a class, and one match by chance
for a part. So there is doubt where *either* is below its limit. Both limits have one rank among the calibration images,
the k-th smallest logit and the k-th smallest score, and k is the largest for which false alarms stay within their rate.

**Why the rate holds.** Take n calibration images and a new one like them, in any order (exchangeable). Call an image
*rare at k* if at most k of all n + 1 have a logit no larger than its own (itself included), or at most k a score no
larger. The new image is below a limit only if it is rare at k. Let r be floor(rate (n + 1)). The largest k at which no
more than r images are rare is safe: each of the n + 1 images is the new one with the same probability. That k depends
on the new image, which is not known when limits are chosen. But where the new image is rare by its logit, a calibration
image is rare only if fewer than k calibration images have a logit no larger, or at most k a score no larger; and the
other way round where the new one is rare by its score. The k that is chosen keeps both counts at r - 1 or less, so it
is never above the safe one. With r = 1 there is no such k: two signs need twice as many images as one (39 for 5 %).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Literal, NamedTuple

import numpy as np

from pixpnet.records import ADDED_LATER

FALSE_ALARMS = 0.05
"""Of known images, the share that doubt is allowed to warn of."""
# A network gives the same image other last digits in another batch: what is that near a limit is not below it.
_ROUNDING = 1e-5

Source = Literal["validation", "folds"]
Sign = Literal["logit", "score"]


class DoubtLimits(NamedTuple):
    """The largest logit and the largest score below which there is doubt; None where a sign has no limit."""

    logit: float | None
    score: float | None


@dataclass(frozen=True)
class Doubt:
    """Whether an image looks like something that the model knows.

    Attributes:
        largest_logit: of the answer.
        least_logit: below which there is doubt.
        false_alarms: the share of known images for which there is, too, at most.
        images: that the limits are from.
        largest_score: of any prototype; None in records of earlier versions.
        least_score: below which there is doubt, too; None where only the logit has a limit.
        source: which images the limits are from; None in records of earlier versions, which do not say.
    """

    largest_logit: float
    least_logit: float
    false_alarms: float
    images: int
    largest_score: float | None = field(default=None, metadata=ADDED_LATER)
    least_score: float | None = field(default=None, metadata=ADDED_LATER)
    source: Source | None = field(default=None, metadata=ADDED_LATER)

    @property
    def raised(self) -> bool:
        """Whether the image looks like nothing that the model knows."""
        return bool(self.rare)

    @property
    def rare(self) -> tuple[Sign, ...]:
        """The signs that are below their limits.

        >>> Doubt(12.0, 10.0, 0.05, 360, 0.4, 0.6).rare
        ('score',)
        """
        return (
            *(("logit",) if self.largest_logit < self.least_logit else ()),
            *(("score",) if is_below(self.largest_score, self.least_score) else ()),
        )


def is_below(value: float | None, limit: float | None) -> bool:
    """Whether there is a limit, and a value below it."""
    return value is not None and limit is not None and value < limit


def doubt_limits(logits: Sequence[float], scores: Sequence[float], rate: float) -> DoubtLimits:
    """The limits of both signs such that of images like these at most a share is below either.

    With too few images for two limits the logit has one alone; with fewer still there is none.

    Args:
        logits: the largest one of each image.
        scores: the largest one of each image.
        rate: of false alarms.

    >>> numbers = [float(number) for number in range(59)]
    >>> doubt_limits(numbers, [1.0] * 59, 0.05)  # a score that says nothing
    DoubtLimits(logit=0.99999, score=0.99999)
    >>> doubt_limits(numbers[:38], numbers[:38], 0.05), doubt_limits(numbers[:18], numbers[:18], 0.05)
    (DoubtLimits(logit=0.0, score=None), DoubtLimits(logit=None, score=None))
    """
    if len(logits) != len(scores):
        raise ValueError(f"each image has a logit and a score, got {len(logits)} and {len(scores)}")
    allowed = _allowed(len(logits), rate)
    if allowed < 2:
        return DoubtLimits(least_known(logits, rate), None)
    ordered = np.sort(logits), np.sort(scores)
    # How many images have a value no larger, itself included.
    by_logit, by_score = (
        np.searchsorted(row, values, "right") for row, values in zip(ordered, (logits, scores), strict=True)
    )
    # Images that are rare at a rank if the new one is rare by the first sign: all but the first `allowed - 1` must not.
    first_too_many = (
        np.sort(np.minimum(first + 1, second))[allowed - 1]
        for first, second in ((by_logit, by_score), (by_score, by_logit))
    )
    rank = int(min(first_too_many)) - 1
    return DoubtLimits(*(float(row[rank - 1] - _ROUNDING * abs(row[rank - 1])) for row in ordered))


def least_known(values: Sequence[float], rate: float) -> float | None:
    """The value below which at most a share of images like these fall; None where there are too few for that.

    >>> least_known([float(value) for value in range(19)], 0.05), least_known([1.0] * 18, 0.05)
    (0.0, None)
    """
    rank = _allowed(len(values), rate)
    return sorted(values)[rank - 1] if rank else None


def _allowed(images: int, rate: float) -> int:
    """How many of some images and a new one may be warned of."""
    # A product that is a whole number may lie below it by a rounding error.
    return floor(rate * (images + 1) + 1e-9)

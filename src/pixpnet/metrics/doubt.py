"""Does it know what it does not know? How well signs of doubt tell images of a run's own kind from others.

For each sign (larger = better known) two figures: **AUROC**, the share of pairs of a known and another image in which
the known one has the larger value, equal ones counting half; and the **false positive rate at 95 % recall**, the share
of other images that pass a limit which 95 % of the known ones pass. Intervals draw the images of both sides again.

The model warns by two limits that have one rank (`pixpnet.model.doubt`): by the rarer of the largest logit and the
largest score, ranked among the images that it was calibrated on. That sign is the last of those that are measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.metrics.bootstrap import Estimate
from pixpnet.model import PixPNet
from pixpnet.model.calibration import warned_of
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress
from pixpnet.records import ADDED_LATER
from pixpnet.training import Interval
from pixpnet.training.doubt_signals import DoubtSignals
from pixpnet.training.evaluation import wilson
from pixpnet.training.kept_scores import UNKNOWN, SplitScores

RECALL = 0.95
LARGEST_LOGIT, LARGEST_SCORE, DECIDING = "largest logit", "largest score", "length of the deciding list"
RARER = "largest logit or score, the rarer"
_DRAWS = 500
_LEVEL = 0.95
_Values = Float[np.ndarray, " _images"]


@dataclass(frozen=True)
class SignResult:
    """How well one sign of doubt tells known images from others.

    Attributes:
        sign: its name.
        auroc: share of pairs in the right order; None where one side has no value.
        false_positives: share of others that pass where 95 % of the known do; None where one side has no value.
        known: how many known images have a value.
        others: how many others have one.
        undefined: how many images of both sides have none.
        reason: why none has; empty where some have.
    """

    sign: str
    auroc: Estimate | None
    false_positives: Estimate | None
    known: int
    others: int
    undefined: int
    reason: str


@dataclass(frozen=True)
class DoubtResult:
    """How well a model tells images of its own kind from another kind.

    Attributes:
        against: what the others are.
        known_split: which images of its own kind.
        signs: one result for each sign.
        warned: share of the others that the model warns of; None where it has no limit for that.
        limit: below which largest logit it warns.
        known_logits: the largest logits of the known images.
        other_logits: of the others.
        score_limit: below which largest score it warns, too; None where only the logit has a limit, and in results of
            earlier versions.
        known_scores: the largest scores of the known images; empty in results of earlier versions.
        other_scores: of the others.
        model: the hash of the model file that was asked; empty in results of earlier versions.
        warned_interval: of the share that is warned of (Wilson, 95 %); None in results of earlier versions, too.
    """

    against: str
    known_split: str
    signs: tuple[SignResult, ...]
    warned: float | None
    limit: float | None
    known_logits: tuple[float, ...]
    other_logits: tuple[float, ...]
    score_limit: float | None = field(default=None, metadata=ADDED_LATER)
    known_scores: tuple[float, ...] = field(default=(), metadata=ADDED_LATER)
    other_scores: tuple[float, ...] = field(default=(), metadata=ADDED_LATER)
    model: str = field(default="", metadata=ADDED_LATER)
    warned_interval: Interval | None = field(default=None, metadata=ADDED_LATER)


def scores_of(
    model: PixPNet, batches: Iterable[Any], device: torch.device | str = "cpu", progress: Progress | None = None
) -> tuple[SplitScores, str]:
    """What a model makes of images whose classes do not matter, and why lists that decide cannot be told, if so."""
    signals, logits = DoubtSignals(model), list[Tensor]()
    with evaluating(model), torch.no_grad():
        for done, images in enumerate(batches, start=1):
            output = model(images.to(device, model.dtype))
            signals.add(output)
            logits.append(output.logits.float().cpu())
            if progress is not None:
                progress("asking about other images", done, 0)
    together = torch.cat(logits or [torch.zeros(0, model.num_classes)])
    return SplitScores(together, torch.zeros(len(together), dtype=torch.int64), *signals.compute()), signals.refusal


def compare_doubt(
    model: PixPNet,
    known: SplitScores,
    known_split: str,
    others: SplitScores,
    against: str,
    refusal: str,
    seed: int = 0,
    calibrated_on: SplitScores | None = None,
) -> DoubtResult:
    """How well each sign of doubt tells known images from others.

    Args:
        model: whose scores they are.
        known: scores of images of its own kind that it did not learn from.
        known_split: what those are.
        others: scores of other images.
        against: what those are.
        refusal: why lists that decide cannot be told; empty where they can.
        seed: of the intervals' draws.
        calibrated_on: scores of the images that the model's limits are from, among which the rarer of two signs is
            told; the known ones where they were not kept.
    """
    ranked_among = known if calibrated_on is None else calibrated_on
    signs = (
        _result(LARGEST_LOGIT, _largest(known), _largest(others), "", seed),
        _result(LARGEST_SCORE, known.largest_scores.double().numpy(), others.largest_scores.double().numpy(), "", seed),
        _result(DECIDING, _short(known), _short(others), refusal, seed),
        _result(RARER, _rarer(known, ranked_among), _rarer(others, ranked_among), "", seed),
    )
    calibration = model.calibration
    raised = warned_of(calibration, others.logits, others.largest_scores)
    warned = None if raised is None or not len(others) else int(raised.sum())
    return DoubtResult(
        against=against,
        known_split=known_split,
        signs=signs,
        warned=None if warned is None else warned / len(others),
        limit=None if calibration is None else calibration.least_logit,
        known_logits=tuple(_largest(known).tolist()),
        other_logits=tuple(_largest(others).tolist()),
        score_limit=None if calibration is None else calibration.least_score,
        known_scores=tuple(known.largest_scores.double().tolist()),
        other_scores=tuple(others.largest_scores.double().tolist()),
        warned_interval=None if warned is None else wilson(warned, len(others)),
    )


def auroc(known: _Values, others: _Values) -> float:
    """The share of pairs in which the known one is larger; equal ones count half.

    >>> auroc(np.array([3.0, 1.0]), np.array([1.0, 0.0]))
    0.875
    """
    order = np.sort(others)
    below, not_above = (np.searchsorted(order, known, side=side) for side in ("left", "right"))
    return float((below + not_above).sum() / (2 * len(known) * len(others)))


def false_positive_rate(known: _Values, others: _Values, recall: float = RECALL) -> float:
    """The share of others at or above the largest limit that a share of the known reach.

    >>> false_positive_rate(np.arange(20.0), np.array([0.0, 1.0, 5.0, 9.0]))
    0.75
    """
    limit = np.sort(known)[len(known) - ceil(recall * len(known) - 1e-9)]
    return float((others >= limit).mean())


def _largest(scores: SplitScores) -> _Values:
    """The largest logit of each image."""
    return scores.logits.double().amax(dim=1).numpy()


def _rarer(scores: SplitScores, known: SplitScores) -> _Values:
    """Of the largest logit and the largest score, how rare the rarer is among some images: 0 below all of them.

    A sum of many weak matches may pass for a class, and a single match by chance for a part; one that fails as a whole
    or in every part has a low value here.
    """
    signs = [
        (_largest(scores), _largest(known)),
        (scores.largest_scores.double().numpy(), known.largest_scores.double().numpy()),
    ]
    if not len(known):
        return np.full(len(scores), np.nan)
    # Mid-ranks, so that one sign alone orders images as it does by its values.
    ranks = [
        (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(known))
        for values, ordered in ((values, np.sort(theirs)) for values, theirs in signs)
    ]
    return np.asarray(np.minimum(*ranks))


def _short(scores: SplitScores) -> _Values:
    """Short lists are signs of what is known; where there is none there is no number."""
    lengths = scores.deciding.double()
    return torch.where(scores.deciding == UNKNOWN, torch.nan, -lengths).numpy()


def _result(sign: str, known: _Values, others: _Values, reason: str, seed: int) -> SignResult:
    sides = [side[~np.isnan(side)] for side in (known, others)]
    undefined = len(known) + len(others) - sum(map(len, sides))
    if not all(map(len, sides)):
        if not len(known) or not len(others):
            reason = "there are no images"
        return SignResult(sign, None, None, len(sides[0]), len(sides[1]), undefined, reason or "no image has a value")
    random = np.random.default_rng(seed)
    draws = [[side[random.integers(len(side), size=len(side))] for side in sides] for _ in range(_DRAWS)]
    estimates = [
        _estimate(measure(*sides), [measure(*drawn) for drawn in draws], sides)
        for measure in (auroc, false_positive_rate)
    ]
    return SignResult(sign, estimates[0], estimates[1], len(sides[0]), len(sides[1]), undefined, "")


def _estimate(value: float, draws: Sequence[float], sides: Sequence[_Values]) -> Estimate:
    count = sum(map(len, sides))
    if min(map(len, sides)) < 2:
        return Estimate(value, None, None, count, count)  # a single image is drawn again as itself
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
    return Estimate(value, low, high, count, count)

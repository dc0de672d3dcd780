"""The accuracy that was lost when prototypes were replaced by patches, from a finished run's `metrics.json`."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.health.record import ReplacementCost
from pixpnet.training import Run, RunError
from pixpnet.training.judging import wilson


def accuracy_lost_at_replacement(run: Run) -> ReplacementCost:
    """What a run's replacement cost, on the images that its `metrics.json` speaks of.

    Raises:
        RunError: if the run is not finished or its figures are damaged.
    """
    figures = run.read_metrics()
    try:
        test = figures["test"]
        return ReplacementCost(
            validation=_lost(figures["validation_before"], figures["validation"]),
            test=None if test is None else _lost(figures["test_before"], test),
        )
    except (KeyError, TypeError) as error:
        raise RunError(f"{run.path / 'metrics.json'} is damaged: it lacks a judgement ({error!r})") from error


def lost(right_before: int, right_after: int, images: int) -> Estimate:
    """The difference of two accuracies on the same images, with Newcombe's interval of two independent shares (95 %).

    The two are not independent, and which images changed is not on record: so the interval is wider than it need be
    where the same images are right before and after.

    >>> found = lost(90, 80, 100)
    >>> f"{found.mean:.2f} {found.low:.3f} {found.high:.3f}"
    '0.10 0.000 0.199'
    """
    before, after = right_before / images, right_after / images
    around_before, around_after = wilson(right_before, images), wilson(right_after, images)
    low = before - after - sqrt((before - around_before.low) ** 2 + (around_after.high - after) ** 2)
    high = before - after + sqrt((around_before.high - before) ** 2 + (after - around_after.low) ** 2)
    return Estimate(before - after, low, high, count=images, clusters=images)


def _lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> Estimate:
    images = int(after["images"])
    return lost(round(before["accuracy"] * images), round(after["accuracy"] * images), images)

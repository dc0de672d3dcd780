"""The accuracy that was lost when prototypes were replaced by patches, from a finished run's `metrics.json`."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.health.record import ReplacementCost
from pixpnet.training import Interval, Run, RunError
from pixpnet.training.evaluation import wilson


def accuracy_lost_at_replacement(run: Run) -> ReplacementCost | None:
    """What a run's replacement cost, on the images that its `metrics.json` speaks of; None where there was none.

    The interval is that of two independent shares, which is wider than it need be: see `difference`.

    Raises:
        RunError: if the run is not finished or its figures are damaged.
    """
    figures = run.read_metrics()
    try:
        test = figures["test"]
        if figures["validation_before"] is None:
            return None
        return ReplacementCost(
            validation=_lost(figures["validation_before"], figures["validation"]),
            test=None if test is None else _lost(figures["test_before"], test),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise RunError(f"{run.path / 'metrics.json'} is damaged: it lacks an evaluation ({error!r})") from error


def difference(first: int, of_first: int, second: int, of_second: int) -> Interval:
    """Newcombe's interval (1998, method 10) of the difference of two independent shares, 95 %.

    >>> interval = difference(56, 70, 48, 80)
    >>> f"{interval.low:.4f} {interval.high:.4f}"
    '0.0524 0.3339'
    """
    one, other = first / of_first, second / of_second
    around_one, around_other = wilson(first, of_first), wilson(second, of_second)
    low = one - other - sqrt((one - around_one.low) ** 2 + (around_other.high - other) ** 2)
    high = one - other + sqrt((around_one.high - one) ** 2 + (other - around_other.low) ** 2)
    return Interval(low, high)


def _lost(before: Mapping[str, Any], after: Mapping[str, Any]) -> Estimate:
    # The two are of the same images and so not independent, but which images changed is not on record: the interval is
    # wider than it need be.
    images = int(after["images"])
    right_before, right_after = round(before["accuracy"] * images), round(after["accuracy"] * images)
    interval = difference(right_before, images, right_after, images)
    return Estimate((right_before - right_after) / images, interval.low, interval.high, count=images, clusters=images)

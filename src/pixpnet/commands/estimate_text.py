"""Estimates in words: a mean with its interval, a dash where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pixpnet.metrics.bootstrap import Estimate

UNKNOWN = "–"


def percent_with_interval(estimate: Estimate | None) -> str:
    """A share as a percentage with its interval."""
    return estimate_words(estimate, 100, 1)


def estimate_words(estimate: Estimate | None, factor: float, digits: int) -> str:
    """A mean, multiplied by a factor, with its interval."""
    if estimate is None:
        return UNKNOWN
    mean = f"{factor * estimate.mean:.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return mean
    if estimate.low == estimate.high:
        return f"{mean} (alike)"
    return f"{mean} ({factor * estimate.low:.{digits}f} to {factor * estimate.high:.{digits}f})"

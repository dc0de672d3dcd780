"""The Pareto front of accuracy against field size, what it advises, and how well two rankings agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isnan, log
from typing import NamedTuple


class Trade(NamedTuple):
    """What is traded: a small mean field for a high accuracy."""

    mean_field: float
    accuracy: float


def pareto_front(trades: Sequence[Trade]) -> tuple[bool, ...]:
    """For each, whether no other has a field at most as large and an accuracy at least as high, one of them better.

    Equals do not rule each other out: both are on the front, or neither.

    >>> pareto_front([Trade(0.1, 0.7), Trade(0.2, 0.7), Trade(0.2, 0.8), Trade(0.2, 0.8)])
    (True, False, True, True)
    """
    best = float("-inf")
    chosen: set[Trade] = set()
    for _, same_field in groupby(sorted(set(trades)), key=lambda trade: trade.mean_field):
        highest = max(same_field, key=lambda trade: trade.accuracy)
        if highest.accuracy > best:
            best = highest.accuracy
            chosen.add(highest)
    return tuple(trade in chosen for trade in trades)


def nearest_on_front(trades: Sequence[Trade], want: float) -> int | None:
    """The place of the trade on the front whose field is nearest to a wanted one, as a ratio; None if there is none.

    Of two that are equally near, the more accurate one.

    >>> nearest_on_front([Trade(0.05, 0.7), Trade(0.2, 0.8), Trade(0.19, 0.4)], want=0.15)
    1
    """
    places = [index for index, on_front in enumerate(pareto_front(trades)) if on_front]
    if not places:
        return None
    return min(places, key=lambda index: (_ratio(trades[index].mean_field, want), -trades[index].accuracy))


@dataclass(frozen=True)
class RankAgreement:
    """How well two methods rank the same cuts alike.

    Attributes:
        method: the one.
        other: the other.
        cuts: how many both have evaluated.
        tau: Kendall's tau-b, which makes allowance for ties: 1 same order, -1 reversed, 0 no relation; None where one
            of the methods tells no two cuts apart.
        p_value: how likely a tau at least as far from 0 is among unrelated rankings.
        ties: pairs of cuts that the first method does not tell apart.
        other_ties: pairs that the other does not.
    """

    method: str
    other: str
    cuts: int
    tau: float | None
    p_value: float | None
    ties: int
    other_ties: int


def agreement(
    method: str, accuracies: Mapping[str, float], other: str, others: Mapping[str, float]
) -> RankAgreement | None:
    """Kendall's tau over the cuts that both have evaluated; None where those are fewer than two.

    >>> agreement("probe", {"a": 0.1, "b": 0.2, "c": 0.3}, "finetune", {"a": 0.5, "b": 0.6, "c": 0.7}).tau
    1.0
    """
    from scipy.stats import kendalltau  # type: ignore[import-untyped]

    both = [key for key in accuracies if key in others]
    if len(both) < 2:
        return None
    first, second = [accuracies[key] for key in both], [others[key] for key in both]
    correlation = kendalltau(first, second)
    tau, p_value = float(correlation.statistic), float(correlation.pvalue)
    known = not isnan(tau)
    return RankAgreement(
        method=method,
        other=other,
        cuts=len(both),
        tau=tau if known else None,
        p_value=p_value if known else None,
        ties=_ties(first),
        other_ties=_ties(second),
    )


def _ratio(field: float, want: float) -> float:
    return abs(log(max(field, 1e-12) / max(want, 1e-12)))


def _ties(values: Sequence[float]) -> int:
    counts = [values.count(value) for value in set(values)]
    return sum(count * (count - 1) // 2 for count in counts)

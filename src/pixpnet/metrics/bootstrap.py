"""Means with bootstrap intervals, for values that come in clusters (several prototypes of one image)."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A mean and the range it would fall into again.

    Attributes:
        mean: over all values, each counting once.
        low, high: percentile interval; None where a single cluster says nothing about others.
        count: how many values.
        clusters: how many clusters they come from.
    """

    mean: float
    low: float | None
    high: float | None
    count: int
    clusters: int


@dataclass(frozen=True)
class DefinedMean:
    """A mean over the values that are defined.

    Attributes:
        estimate: None if no value is defined.
        undefined: how many values are not, and so are in no mean.
    """

    estimate: Estimate | None
    undefined: int


def class_clusters(labels: Sequence[int]) -> list[int]:
    """The clusters of prototypes with these labels: those of a class are one, one without a class (-1) is its own.

    >>> class_clusters([0, 0, -1, 1, -1])
    [0, 0, -3, 1, -5]
    """
    return [label if label >= 0 else -1 - index for index, label in enumerate(labels)]


def defined_mean(values: Sequence[float | None], clusters: Sequence[Hashable], seed: int) -> DefinedMean:
    """`bootstrap_mean` of the values that are not None, and a count of those that are.

    >>> defined_mean([1.0, None, 3.0], ["a", "a", "b"], seed=0).estimate.mean
    2.0
    """
    defined = [(value, cluster) for value, cluster in zip(values, clusters, strict=True) if value is not None]
    estimate = bootstrap_mean([value for value, _ in defined], [cluster for _, cluster in defined], seed)
    return DefinedMean(estimate, len(values) - len(defined))


def bootstrap_mean(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int, draws: int = 2000, level: float = 0.95
) -> Estimate | None:
    """The mean of values, with an interval from drawing whole clusters again, with replacement.

    Values of one cluster are alike, so drawing them one by one would promise too much.

    Args:
        values: what is averaged.
        clusters: the cluster of each value.
        seed: of the draws.
        draws: how often all clusters are drawn.
        level: share of the draws inside the interval.

    Returns:
        None if there is no value.

    Raises:
        ValueError: if there are not as many clusters as values, or a value is not finite.

    Example:
        >>> bootstrap_mean([1.0, 3.0, 5.0], ["a", "a", "b"], seed=0).mean
        3.0
        >>> bootstrap_mean([1.0, 3.0], ["a", "a"], seed=0)
        Estimate(mean=2.0, low=None, high=None, count=2, clusters=1)
    """
    if len(values) != len(clusters):
        raise ValueError(f"got {len(values)} values and {len(clusters)} clusters: give the cluster of each value")
    if not len(values):
        return None
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("a value is not finite: leave undefined values out, and say how many there were")
    places = {cluster: cluster_index for cluster_index, cluster in enumerate(dict.fromkeys(clusters))}
    cluster_index = np.array([places[cluster] for cluster in clusters])
    sums, counts = np.bincount(cluster_index, weights=numbers), np.bincount(cluster_index)
    low = high = None
    if len(places) > 1:
        drawn = np.random.default_rng(seed).integers(len(places), size=(draws, len(places)))
        means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Estimate(float(numbers.mean()), low, high, len(numbers), len(places))

"""Means with intervals from clusters that are drawn again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.metrics.bootstrap import bootstrap_mean

VALUES = st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 4)), min_size=1, max_size=30)


@given(VALUES)
def test_an_interval_lies_among_the_means_of_clusters(pairs: list[tuple[float, int]]) -> None:
    values, clusters = zip(*pairs, strict=True)
    result = bootstrap_mean(values, clusters, seed=0, draws=200)
    assert result is not None
    assert result.mean == pytest.approx(sum(values) / len(values))
    of_clusters = [np.mean([v for v, c in pairs if c == cluster]) for cluster in set(clusters)]
    if len(of_clusters) == 1:
        assert result.low is result.high is None
    else:
        assert result.low is not None
        assert result.high is not None
        assert min(of_clusters) - 1e-9 <= result.low <= result.high <= max(of_clusters) + 1e-9


def test_two_clusters_are_drawn_as_on_paper() -> None:
    # Of two clusters with means 0 and 1, both draws are 0 with chance 1/4, 1 with chance 1/4, else one of each.
    result = bootstrap_mean([0.0, 0.0, 1.0, 1.0], "aabb", seed=3, draws=4000, level=0.8)
    assert result is not None
    assert (result.mean, result.low, result.high) == (0.5, 0.0, 1.0)
    narrow = bootstrap_mean([0.0, 0.0, 1.0, 1.0], "aabb", seed=3, draws=4000, level=0.4)
    assert narrow is not None
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_repeating_values_within_clusters_does_not_make_the_interval_narrower() -> None:
    values, clusters = [0.1, 0.5, 0.9, 0.3], [0, 1, 2, 3]
    once = bootstrap_mean(values, clusters, seed=1)
    often = bootstrap_mean(values * 50, clusters * 50, seed=1)
    assert once is not None
    assert often is not None
    assert (once.low, once.high) == pytest.approx((often.low, often.high))


def test_the_seed_decides_the_draws() -> None:
    values, clusters = list(np.random.default_rng(0).normal(size=40)), list(range(40))
    assert bootstrap_mean(values, clusters, seed=1) == bootstrap_mean(values, clusters, seed=1)
    assert bootstrap_mean(values, clusters, seed=1) != bootstrap_mean(values, clusters, seed=2)


def test_no_value_has_no_mean_and_what_is_not_finite_is_refused() -> None:
    assert bootstrap_mean([], [], seed=0) is None
    with pytest.raises(ValueError, match="not finite"):
        bootstrap_mean([1.0, float("nan")], [0, 1], seed=0)
    with pytest.raises(ValueError, match="2 values and 1 clusters"):
        bootstrap_mean([1.0, 2.0], [0], seed=0)

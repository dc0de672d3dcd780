"""The median of many curves, and a band around it from drawing whole samples again."""

from collections.abc import Hashable, Sequence

import numpy as np
from jaxtyping import Float

from pixpnet.metrics.ordering import Curve
from pixpnet.metrics.suite.record import Band

# Dense where curves rise, like the points of the stepped test.
GRID: tuple[float, ...] = tuple((step / 100) ** 2 for step in range(101))


def on_grid(curve: Curve) -> tuple[float, ...] | None:
    """A curve at the fractions of `GRID`, from 0 at its start to 1 at its end; None if it does not rise.

    >>> import torch
    >>> points = torch.tensor([[0.0, 0.5, 1.0], [2.0, 3.0, 3.0]], dtype=torch.float64)
    >>> found = on_grid(Curve(*points))
    >>> GRID[50], found[50], found[100]
    (0.25, 0.5, 1.0)
    """
    if curve.rise is None:
        return None
    relative = (curve.similarities - curve.similarities[0]) / curve.rise
    return tuple(np.interp(GRID, curve.fractions.numpy(), relative.numpy()).tolist())


def median_band(
    curves: Sequence[Sequence[float]], clusters: Sequence[Hashable], seed: int, draws: int = 500, level: float = 0.95
) -> Band | None:
    """The median of curves on `GRID`, every curve counting once, and its interval at each point.

    Args:
        curves: what `on_grid` gave.
        clusters: the sample of each.
        seed: of the draws.
        draws: how often all samples are drawn.
        level: share of the draws inside the band.

    Returns:
        None if there is no curve.

    >>> band = median_band([[0.0] * 101, [1.0] * 101], ["a", "b"], seed=0)
    >>> band.median[7], band.low[7], band.high[7]
    (0.5, 0.0, 1.0)
    """
    if not curves:
        return None
    values: Float[np.ndarray, "curves points"] = np.asarray(curves, dtype=np.float64)
    members: dict[Hashable, list[int]] = {}
    for number, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(number)
    groups = list(members.values())
    low = high = None
    if len(groups) > 1:
        drawn = np.random.default_rng(seed).integers(len(groups), size=(draws, len(groups)))
        medians = [np.median(values[[number for group in draw for number in groups[group]]], axis=0) for draw in drawn]
        edges = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2], axis=0)
        low, high = (tuple(edge.tolist()) for edge in edges)
    return Band(GRID, tuple(np.median(values, axis=0).tolist()), low, high)

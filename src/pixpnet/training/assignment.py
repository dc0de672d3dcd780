"""Which of its nearest patches each prototype takes, where no two of a group may share one: plain arrays."""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, Int64
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

_NOBODY = -1
_Numbers = Float[np.ndarray, "..."]


def smallest_total(distances: _Numbers, items: Int64[np.ndarray, "protos kept"]) -> Int64[np.ndarray, " protos"]:
    """The choice with the smallest sum of distances in which nobody shares.

    >>> smallest_total(np.array([[0.0, 0.5], [0.1, 9.0]]), np.array([[7, 8], [7, 8]])).tolist()
    [1, 0]
    """
    numbers, columns = np.unique(items, return_inverse=True)
    columns = columns.reshape(items.shape)
    real = np.isfinite(distances)
    # A measure may be negative; each prototype takes one patch, so a shift of all changes no choice.
    shifted = distances - distances[real].min(initial=0.0)
    far = shifted[real].max(initial=0.0) + 1
    # More than any sum of real ones, so it is taken only where there is no other way, and there always is.
    costs = np.full((len(items), len(numbers)), far * (len(items) + 1))
    rows = np.broadcast_to(np.arange(len(items))[:, None], items.shape)
    costs[rows[real], columns[real]] = shifted[real]
    taken = linear_sum_assignment(costs)[1]
    return np.array([int(np.flatnonzero(line == column)[0]) for line, column in zip(columns, taken, strict=True)])


def nearest_first(distances: _Numbers, items: Int64[np.ndarray, "protos kept"]) -> Int64[np.ndarray, " protos"]:
    """The nearest pair of all goes first, then the next; what is taken is taken (the paper).

    >>> nearest_first(np.array([[0.0, 0.5], [0.1, 9.0]]), np.array([[7, 8], [7, 8]])).tolist()
    [0, 1]
    """
    chosen = np.full(len(items), _NOBODY)
    taken: set[int] = set()
    for flat in np.argsort(distances, axis=None, kind="stable"):
        proto, patch = np.unravel_index(flat, distances.shape)
        if chosen[proto] == _NOBODY and int(items[proto, patch]) not in taken:
            chosen[proto] = patch
            taken.add(int(items[proto, patch]))
    return chosen


ASSIGNMENTS: Mapping[str, Callable[[_Numbers, Int64[np.ndarray, "protos kept"]], Int64[np.ndarray, " protos"]]] = {
    "smallest_total": smallest_total,
    "nearest_first": nearest_first,
}

"""Which of its nearest patches each prototype takes, where no two of a group may share one: plain arrays.

An infinite distance means that there is no such patch, or that it is forbidden: nobody takes it. That everybody can
have one of their own is for the caller to know (`enough_for_all`).
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import maximum_flow  # type: ignore[import-untyped]
from torch import Tensor

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
    # More than any sum of real ones, so it is taken only where there is no other way, and there always is one.
    costs = np.full((len(items), len(numbers)), far * (len(items) + 1))
    rows = np.broadcast_to(np.arange(len(items))[:, None], items.shape)
    costs[rows[real], columns[real]] = shifted[real]
    taken = linear_sum_assignment(costs)[1]
    return np.array([int(np.flatnonzero(line == column)[0]) for line, column in zip(columns, taken, strict=True)])


def nearest_first(distances: _Numbers, items: Int64[np.ndarray, "protos kept"]) -> Int64[np.ndarray, " protos"]:
    """The nearest pair of all goes first, then the next; what is taken is taken (the paper).

    Where prototypes may take from different classes, that can leave one without any. Then `smallest_total` chooses.

    >>> nearest_first(np.array([[0.0, 0.5], [0.1, 9.0]]), np.array([[7, 8], [7, 8]])).tolist()
    [0, 1]
    """
    chosen = np.full(len(items), _NOBODY)
    taken: set[int] = set()
    for flat in np.argsort(distances, axis=None, kind="stable"):
        proto, patch = np.unravel_index(flat, distances.shape)
        free = chosen[proto] == _NOBODY and int(items[proto, patch]) not in taken
        if free and np.isfinite(distances[proto, patch]):
            chosen[proto] = patch
            taken.add(int(items[proto, patch]))
    return smallest_total(distances, items) if (chosen == _NOBODY).any() else chosen


def enough_for_all(sources: Bool[Tensor, "classes protos"], available: Int64[Tensor, " classes"]) -> bool:
    """Whether each prototype can take something of its own from a class that it may take from.

    Args:
        sources: which classes a prototype may take from.
        available: how many things each class has.

    >>> import torch
    >>> sources = torch.tensor([[True, True, True], [False, False, True]])
    >>> enough_for_all(sources, torch.tensor([2, 1])), enough_for_all(sources, torch.tensor([1, 5]))
    (True, False)
    """
    classes, count = sources.shape
    if int(available[sources.any(dim=1)].sum()) < count:
        return False
    kinds, sizes = sources.unique(dim=1, return_counts=True)
    if kinds.shape[1] == 1:
        return True
    # Prototypes of one kind > classes that they may take from > the end: all arrive, or there are not enough.
    of_class, of_kind = (index.numpy() for index in kinds.nonzero(as_tuple=True))
    start, end, amounts = 0, 1 + len(sizes) + classes, available.clamp(max=count).numpy()
    rows = np.concatenate([np.full(len(sizes), start), 1 + of_kind, 1 + len(sizes) + np.arange(classes)])
    cols = np.concatenate([1 + np.arange(len(sizes)), 1 + len(sizes) + of_class, np.full(classes, end)])
    capacities = np.concatenate([sizes.numpy(), np.full(len(of_kind), count), amounts]).astype(np.int32)
    graph = csr_array((capacities, (rows, cols)), shape=(end + 1, end + 1))
    return int(maximum_flow(graph, start, end).flow_value) == count


ASSIGNMENTS: Mapping[str, Callable[[_Numbers, Int64[np.ndarray, "protos kept"]], Int64[np.ndarray, " protos"]]] = {
    "smallest_total": smallest_total,
    "nearest_first": nearest_first,
}

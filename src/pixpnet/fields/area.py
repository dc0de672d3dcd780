"""How many pixels the fields hold, and the smallest boxes around them: exact, for every element at once."""

from itertools import combinations, product
from math import prod
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Int

from pixpnet.fields import bits
from pixpnet.fields.sources import Sources
from pixpnet.fields.terms import Term


def mean_area(sources: Sources) -> float:
    """The mean number of pixels that an element reads."""
    if sources not in _means:
        _means[sources] = sum(
            _mean_of_product([group[0].mask, *map(bits.sizes, group[0].sets)])
            if len(group) == 1
            else float(_area_of_union(group, sources.space).mean())
            for group in _overlapping(sources.terms)
        )
    return _means[sources]


# A convolution, its normalisation and its activation share their sources.
_means: WeakKeyDictionary[Sources, float] = WeakKeyDictionary()


def areas(sources: Sources) -> Int[np.ndarray, "..."]:
    """The number of pixels that each element reads, as an array over the atoms (broadcastable)."""
    total = np.zeros([1] * sum(map(len, sources.atoms)), np.int64)
    for group in _overlapping(sources.terms):
        if len(group) == 1:
            total = total + prod(map(bits.sizes, group[0].sets), start=group[0].mask.astype(np.int64))
        else:
            total = total + _area_of_union(group, sources.space)
    return total


def hulls(sources: Sources) -> list[Int[np.ndarray, "*atoms 2"]]:
    """For each axis of the input the interval around each element's field; ``0, 0`` where it is empty."""
    ndim = sum(map(len, sources.atoms))
    shadows = [np.zeros([1] * ndim + [bits.words(length)], np.uint64) for length in sources.space]
    for term in sources.terms:
        # Where one set of a product is empty or the mask is false, the others cast no shadow.
        flags = [term.mask, *(sets.any(-1) for sets in term.sets)]
        present = [flag for flag in flags if not flag.all()]
        for k, sets in enumerate(term.sets):
            for flag in present:
                sets = np.where(flag[..., None], sets, np.uint64(0))
            shadows[k] = shadows[k] | sets
    return [bits.spans(shadow, length) for shadow, length in zip(shadows, sources.space, strict=True)]


def _mean_of_product(factors: list[np.ndarray]) -> float:
    """The mean of a broadcast product; factors that share no axis are averaged apart, which keeps it small."""
    mean = 1.0
    while factors:
        joined, axes, rest = factors[0], _varying(factors[0]), factors[1:]
        while linked := [k for k, factor in enumerate(rest) if _varying(factor) & axes]:
            joined = joined * rest.pop(linked[0])
            axes = _varying(joined)
        mean *= float(joined.mean())
        factors = rest
    return mean


def _varying(array: np.ndarray) -> set[int]:
    return {axis for axis, size in enumerate(array.shape) if size > 1}


def _overlapping(terms: tuple[Term, ...]) -> list[list[Term]]:
    """Groups the terms so that terms of different groups never share a pixel of an element."""
    if len(terms) > 1 and sum(term.mask.astype(np.int64) for term in terms).max() < 2:
        return [[term] for term in terms]  # the usual case after concatenation: no element has two terms
    group_of = list(range(len(terms)))
    for i, j in combinations(range(len(terms)), 2):
        if group_of[i] != group_of[j] and _may_overlap(terms[i], terms[j]):
            group_of = [group_of[i] if g == group_of[j] else g for g in group_of]
    return [[t for t, g in zip(terms, group_of, strict=True) if g == label] for label in sorted(set(group_of))]


def _may_overlap(left: Term, right: Term) -> bool:
    return bool((left.mask & right.mask).any()) and all(
        (a & b).any() for a, b in zip(left.sets, right.sets, strict=True)
    )


def _area_of_union(group: list[Term], space: tuple[int, ...]) -> Int[np.ndarray, "..."]:
    """Sweeps over the input lines: on each, the union of the sets of the terms that reach that line."""
    reached = [[bits.unpack(sets, n) for sets, n in zip(t.sets, space[:-1], strict=False)] for t in group]
    total = np.zeros(np.broadcast_shapes(*(a.shape[: t.mask.ndim] for t in group for a in t.sets)), np.int64)
    for line in product(*(range(n) for n in space[:-1])):
        united = np.zeros([1] * (group[0].mask.ndim + 1), np.uint64)
        for term, reach in zip(group, reached, strict=True):
            present = term.mask
            for k, position in enumerate(line):
                present = present & reach[k][..., position]
            if present.any():
                united = united | np.where(present[..., None], term.sets[-1], np.uint64(0))
        total = total + bits.sizes(united)
    return total

"""How many pixels the fields hold, and the smallest boxes around them: exact, for every element at once."""

from itertools import combinations, product
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from pixpnet.fields import bits
from pixpnet.fields.sources import Sources
from pixpnet.fields.terms import SourceTerm
from pixpnet.shapes import Bool, Int


def mean_area(sources: Sources) -> float:
    """The mean number of pixels that an element reads."""
    if sources not in _means:
        _means[sources] = _mean(sources.terms, sources.space)
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
            total = total + _union_areas(group, sources.space)
    return np.asarray(total)


def hulls(sources: Sources) -> list[Int[np.ndarray, "*atoms 2"]]:
    """For each axis of the input the interval around each element's field; ``0, 0`` where it is empty."""
    ndim = sum(map(len, sources.atoms))
    shadows = [np.zeros([1] * ndim + [bits.words(length)], np.uint64) for length in sources.space]
    for term in sources.terms:
        # Where one set of a product is empty or the mask is false, the others cast no shadow.
        flags = [term.mask, *(np.asarray(sets.any(-1)) for sets in term.sets)]
        present = [flag for flag in flags if not flag.all()]
        for k, sets in enumerate(term.sets):
            for flag in present:
                sets = np.where(flag[..., None], sets, np.uint64(0))
            shadows[k] = shadows[k] | sets
    return [bits.spans(shadow, length) for shadow, length in zip(shadows, sources.space, strict=True)]


def _mean(terms: tuple[SourceTerm, ...], space: tuple[int, ...]) -> float:
    groups = _overlapping(terms)
    if len(groups) < len(terms) and (axis := _axis_of_masks_only(terms)) is not None:
        return sum((weight * _mean(chosen, space) for weight, chosen in _classes(terms, axis)), start=0.0)
    mean = 0.0
    for group in groups:
        if len(group) == 1:
            mean += _mean_of_product([group[0].mask, *map(bits.sizes, group[0].sets)])
        else:
            mean += float(_union_areas(group, space).mean())
    return mean


def _axis_of_masks_only(terms: tuple[SourceTerm, ...]) -> int | None:
    """An axis along which terms come and go but no set changes: the channels after a concatenation."""
    for axis in range(terms[0].mask.ndim):
        if any(t.mask.shape[axis] > 1 for t in terms) and all(s.shape[axis] == 1 for t in terms for s in t.sets):
            return axis
    return None


def _classes(terms: tuple[SourceTerm, ...], axis: int) -> list[tuple[float, tuple[SourceTerm, ...]]]:
    """The distinct choices of terms along ``axis``, each with the share of the positions that have it."""
    size = max(term.mask.shape[axis] for term in terms)
    patterns = [
        np.broadcast_to(np.moveaxis(t.mask, axis, 0), (size, *np.delete(t.mask.shape, axis))).reshape(size, -1)
        for t in terms
    ]
    _, firsts, counts = np.unique(np.concatenate(patterns, 1), axis=0, return_index=True, return_counts=True)
    classes = []
    for first, count in zip(firsts, counts, strict=True):
        chosen = (SourceTerm(t.sets, t.mask.take([min(first, t.mask.shape[axis] - 1)], axis)) for t in terms)
        classes.append((count / size, tuple(term for term in chosen if term.mask.any())))
    return classes


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


def _overlapping(terms: tuple[SourceTerm, ...]) -> list[list[SourceTerm]]:
    """Groups the terms so that terms of different groups never share a pixel of an element."""
    if len(terms) > 1 and np.max(sum(term.mask.astype(np.int64) for term in terms)) < 2:
        return [[term] for term in terms]  # the usual case after concatenation: no element has two terms
    group_of = list(range(len(terms)))
    for i, j in combinations(range(len(terms)), 2):
        if group_of[i] != group_of[j] and _may_overlap(terms[i], terms[j]):
            group_of = [group_of[i] if g == group_of[j] else g for g in group_of]
    return [[t for t, g in zip(terms, group_of, strict=True) if g == label] for label in sorted(set(group_of))]


def _may_overlap(left: SourceTerm, right: SourceTerm) -> bool:
    return bool((left.mask & right.mask).any()) and all(
        (a & b).any() for a, b in zip(left.sets, right.sets, strict=True)
    )


# Up to here inclusion and exclusion, with at most 2 ** 6 products, is quicker than going through all lines.
_FEW = 6


def _union_areas(group: list[SourceTerm], space: tuple[int, ...]) -> Int[np.ndarray, "..."]:
    if len(group) <= _FEW:
        return _include_exclude(group, None)
    return _sweep(group, space)


def _include_exclude(group: list[SourceTerm], common: SourceTerm | None) -> Int[np.ndarray, "..."]:
    """Inclusion and exclusion: the intersection of products is the product of the intersections.

    With ``common``, the areas of the parts of the union that lie in it.
    """
    total = np.zeros([1] * group[0].mask.ndim, np.int64)
    for k, term in enumerate(group):
        if common is not None:
            sets = tuple(a & b for a, b in zip(term.sets, common.sets, strict=True))
            term = SourceTerm(sets, term.mask & common.mask)
        if term.is_empty():
            continue
        total = total + prod(map(bits.sizes, term.sets), start=term.mask.astype(np.int64))
        if k + 1 < len(group):
            # What later terms add inside this one has been counted here already.
            total = total - _include_exclude(group[k + 1 :], term)
    return np.asarray(total)


def _sweep(group: list[SourceTerm], space: tuple[int, ...]) -> Int[np.ndarray, "..."]:
    """Goes through the input lines: on each, the union of the sets of the terms that reach that line."""
    reached = [[bits.unpack(sets, n) for sets, n in zip(t.sets, space[:-1], strict=False)] for t in group]
    lines = [_distinct([reach[k] for reach in reached]) for k in range(len(space) - 1)]
    total = np.zeros([1] * group[0].mask.ndim, np.int64)
    for line in product(*lines):
        united = np.zeros([1] * (group[0].mask.ndim + 1), np.uint64)
        for term, reach in zip(group, reached, strict=True):
            present = term.mask
            for k, (position, _) in enumerate(line):
                present = present & reach[k][..., position]
            if present.any():
                united = united | np.where(present[..., None], term.sets[-1], np.uint64(0))
        total = total + bits.sizes(united) * prod(count for _, count in line)
    return np.asarray(total)


def _distinct(reached: list[Bool[np.ndarray, "*index length"]]) -> list[tuple[int, int]]:
    """One position for each set of input lines that no element tells apart, and how many lines are in it."""
    columns = np.concatenate([members.reshape(-1, members.shape[-1]) for members in reached])
    _, firsts, counts = np.unique(columns, axis=1, return_index=True, return_counts=True)
    return list(zip(firsts.tolist(), counts.tolist(), strict=True))

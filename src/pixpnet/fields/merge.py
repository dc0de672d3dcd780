"""Merging terms without changing the field they stand for (``merge`` of the paper's Alg. 1, App. C)."""

from collections.abc import Iterable

import numpy as np

from pixpnet.fields.terms import SourceTerm


def merge(terms: Iterable[SourceTerm]) -> tuple[SourceTerm, ...]:
    """Drops empty and covered terms and unites those that differ in one part only; exact."""
    merged = unite(term for term in terms if not term.is_empty())
    while len(merged) > 1 and len(smaller := unite(_drop_covered(merged))) < len(merged):
        merged = smaller
    return tuple(merged)


def unite(terms: Iterable[SourceTerm]) -> list[SourceTerm]:
    """Unites terms that agree in all parts but one: (Y x X) + (Y x X') = Y x (X + X')."""
    terms = list(terms)
    if len(terms) < 2:
        return terms
    parts = len(terms[0].sets) + 1
    labels = _Labels()
    for free in range(parts):
        groups: dict[tuple[int, ...], list[SourceTerm]] = {}
        for term in terms:
            others = [part for k, part in enumerate((*term.sets, term.mask)) if k != free]
            groups.setdefault(tuple(labels.of(part) for part in others), []).append(term)
        if len(groups) < len(terms):
            terms = [_unite_part(group, free) for group in groups.values()]
    return terms


def _unite_part(group: list[SourceTerm], part: int) -> SourceTerm:
    if len(group) == 1:
        return group[0]
    united = (*group[0].sets, group[0].mask)[part]
    for term in group[1:]:
        united = united | (*term.sets, term.mask)[part]
    if part == len(group[0].sets):
        return SourceTerm(group[0].sets, united)
    return SourceTerm((*group[0].sets[:part], united, *group[0].sets[part + 1 :]), group[0].mask)


class _Labels:
    """Gives equal arrays equal numbers; each array object is compared by content only once."""

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[int, np.ndarray]] = {}
        self._by_content: dict[tuple[tuple[int, ...], bytes], int] = {}

    def of(self, array: np.ndarray) -> int:
        known = self._by_identity.get(id(array))
        if known is None:
            label = self._by_content.setdefault((array.shape, array.tobytes()), len(self._by_content))
            known = self._by_identity[id(array)] = (label, array)
        return known[0]


def _drop_covered(terms: list[SourceTerm]) -> list[SourceTerm]:
    """Drops each term that another holds entirely, the largest being the likeliest to hold others."""
    uncovered: list[SourceTerm] = []
    for term in sorted(terms, key=_extent, reverse=True):
        if not any(other.covers(term) for other in uncovered):
            uncovered.append(term)
    return uncovered


def _extent(term: SourceTerm) -> float:
    share = float(term.mask.mean())
    for sets in term.sets:
        share *= float(np.bitwise_count(sets).mean())
    return share

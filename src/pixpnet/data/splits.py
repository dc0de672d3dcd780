"""Splits that depend on the images' names and a seed, and on nothing else.

Within each class the images with the smallest hash of (seed, stable id) are taken. So a split is the same on
every machine and in every order, stratified, and adding images moves only those at the boundary.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from pixpnet.data.catalogue import Entry


class Parted(NamedTuple):
    """Two sides of a split, each in the order of the stable ids."""

    kept: tuple[Entry, ...]
    taken: tuple[Entry, ...]


def take(entries: Iterable[Entry], fraction: float, seed: int, purpose: str) -> Parted:
    """Takes a stratified part of the entries.

    Of a class with n images, `fraction * n` are taken, rounded, but at least one and never the last one, so
    that a class with a single image stays where it can be learnt.

    Args:
        entries: in any order.
        fraction: 0-1; 0 takes nothing.
        seed: another seed, another choice.
        purpose: a word that keeps choices for different purposes independent.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"a split takes a fraction from 0 to less than 1, got {fraction}")
    kept: list[Entry] = []
    taken: list[Entry] = []
    for members in _by_class(entries, seed, purpose):
        count = min(max(1, int(fraction * len(members) + 0.5)), len(members) - 1) if fraction > 0 else 0
        taken += members[:count]
        kept += members[count:]
    return Parted(_sorted(kept), _sorted(taken))


def folds(entries: Iterable[Entry], count: int, seed: int) -> tuple[Parted, ...]:
    """Cross-validation: each entry is taken exactly once, and each fold is stratified.

    Args:
        entries: in any order, such as a data set's `train`.
        count: number of folds.
        seed: another seed, other folds.
    """
    if count < 2:
        raise ValueError(f"cross-validation needs at least 2 folds, got {count}")
    members_of = _by_class(entries, seed, "folds")
    parted = []
    for fold in range(count):
        kept: list[Entry] = []
        taken: list[Entry] = []
        for number, members in enumerate(members_of):
            # Small classes start at different folds, or the first fold would get all the remainders.
            for rank, entry in enumerate(members):
                mine = (rank * count // len(members) + number) % count == fold
                (taken if mine else kept).append(entry)
        parted.append(Parted(_sorted(kept), _sorted(taken)))
    return tuple(parted)


def stable_id(path: str) -> str:
    r"""A relative path as a name that is the same on every machine: forward slashes, composed Unicode.

    >>> stable_id("jay\\1.jpg")
    'jay/1.jpg'
    """
    return unicodedata.normalize("NFC", path.replace("\\", "/"))


def _by_class(entries: Iterable[Entry], seed: int, purpose: str) -> list[list[Entry]]:
    members: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        members[entry.label].append(entry)
    return [sorted(members[label], key=lambda entry: _rank(entry.id, seed, purpose)) for label in sorted(members)]


def _rank(id_: str, seed: int, purpose: str) -> tuple[bytes, str]:
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{id_}".encode(), digest_size=16).digest()
    return digest, id_


def _sorted(entries: list[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.id))

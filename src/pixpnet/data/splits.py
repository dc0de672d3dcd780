"""Splits that depend on the images and a seed, and on nothing else: the same on every machine and in every order.

`pixels` decides about each picture by itself: it is held out if a hash of (purpose, seed, pixels) lies below the
fraction. So files that are added, removed or renamed move no other image, and all copies of a picture are on one
side, whatever their names and classes. The share is right on average, not exactly. Only a class that would be all on
one side moves a picture against its hash; see `take`.

`quota` is what earlier versions did, and what drawn birds still do, which have no files that could come and go:
within each class the images with the smallest hash of (purpose, seed, stable id) are held out, as many as make up the
fraction. There, every file that comes or goes can move the images at the boundary.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from pixpnet.data.catalog import Entry

SplitRule: TypeAlias = Literal["pixels", "quota"]

_DIGEST_BYTES = 16


class Parted(NamedTuple):
    """Two sides of a split, each in the order of the stable ids."""

    remaining: tuple[Entry, ...]
    taken: tuple[Entry, ...]


def take(entries: Iterable[Entry], fraction: float, seed: int, purpose: str, rule: SplitRule) -> Parted:
    """Takes a part of the entries out of each class.

    By `quota`, of a class with n images `fraction * n` are taken, rounded, but at least one and never the last one, so
    that a class with a single image stays where it can be learnt.

    By `pixels`, every picture with a hash below the fraction is taken. Two kinds of pictures are moved against that,
    and no others: where all pictures of a class would be taken, the one with the largest hash is kept; where none of
    two or more would be taken, the one with the smallest hash is. These can change when images of their class come or
    go. A picture that is also in another class goes with its copies, and is only taken against its hash if that leaves
    every class a picture to learn from.

    Args:
        entries: in any order; for `pixels` with their digests, as in a data set that was opened.
        fraction: 0-1; 0 takes nothing.
        seed: another seed, another choice.
        purpose: a word that keeps choices for different purposes independent.
        rule: how to decide.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"a split takes a fraction from 0 to less than 1, got {fraction}")
    entries = tuple(entries)
    if fraction == 0:
        taken: Collection[str] = ()
    elif rule == "quota":
        taken = _by_quota(entries, fraction, seed, purpose)
    else:
        pictures = _by_pixels(entries, fraction, seed, purpose)
        taken = {entry.id for entry in entries if entry.digest in pictures}
    return _parted(entries, taken)


def folds(entries: Iterable[Entry], count: int, seed: int) -> tuple[Parted, ...]:
    """Cross-validation: each entry is taken exactly once, each fold is stratified, and copies are in one fold.

    Folds are made anew each time, and even shares matter more there than that no image moves: files that come or go
    may move others.

    Args:
        entries: in any order, such as a data set's `train`.
        count: number of folds.
        seed: another seed, other folds.
    """
    if count < 2:
        raise ValueError(f"cross-validation needs at least 2 folds, got {count}")
    entries = tuple(entries)
    fold_of: dict[str, int] = {}
    for number, pictures in enumerate(_pictures_by_class(entries, seed)):
        # Small classes start at different folds, or the first fold would get all the remainders.
        for rank, picture in enumerate(pictures):
            fold_of.setdefault(picture, (rank * count // len(pictures) + number) % count)
    return tuple(
        _parted(entries, {entry.id for entry in entries if fold_of[_picture(entry)] == fold}) for fold in range(count)
    )


def stable_id(path: str) -> str:
    r"""A relative path as a name that is the same on every machine: forward slashes, composed Unicode.

    >>> stable_id("jay\\1.jpg")
    'jay/1.jpg'
    """
    return unicodedata.normalize("NFC", path.replace("\\", "/"))


def _by_quota(entries: Iterable[Entry], fraction: float, seed: int, purpose: str) -> set[str]:
    members: dict[int, list[str]] = defaultdict(list)
    for entry in entries:
        members[entry.label].append(entry.id)
    taken: set[str] = set()
    for ids in members.values():
        count = min(max(1, int(fraction * len(ids) + 0.5)), len(ids) - 1)
        taken |= set(sorted(ids, key=lambda id_: (_hash(purpose, seed, id_), id_))[:count])
    return taken


def _by_pixels(entries: Iterable[Entry], fraction: float, seed: int, purpose: str) -> set[str]:
    """Digests of the pictures that are taken."""
    classes: dict[int, set[str]] = defaultdict(set)
    for entry in entries:
        if entry.digest is None:
            raise ValueError(f"{entry.id} has no digest to split by: open the data set, or split by rule='quota'")
        classes[entry.label].add(entry.digest)
    hashes = {digest: _hash(purpose, seed, digest) for pictures in classes.values() for digest in pictures}
    limit = int(fraction * 2 ** (8 * _DIGEST_BYTES)).to_bytes(_DIGEST_BYTES, "big")
    taken = {digest for digest, value in hashes.items() if value < limit}
    taken -= {max(pictures, key=hashes.__getitem__) for pictures in classes.values() if pictures <= taken}
    _take_one_of_each(taken, classes, hashes)
    return taken


def _take_one_of_each(taken: set[str], classes: Mapping[int, set[str]], hashes: Mapping[str, bytes]) -> None:
    """Adds a picture of each class that has none, unless that would leave some class without one to learn from."""
    # In the order of the hashes and not of the labels, which change when a class is added.
    ranked = [sorted(pictures, key=hashes.__getitem__) for pictures in classes.values()]
    for pictures in sorted(ranked, key=lambda pictures: hashes[pictures[0]]):
        if taken.isdisjoint(pictures):
            for digest in pictures:
                sharing = [other for other in classes.values() if digest in other]
                if all(len(other - taken) > 1 for other in sharing):
                    taken.add(digest)
                    break


def _pictures_by_class(entries: Iterable[Entry], seed: int) -> list[list[str]]:
    members: dict[int, set[str]] = defaultdict(set)
    for entry in entries:
        members[entry.label].add(_picture(entry))
    return [
        sorted(members[label], key=lambda picture: (_hash("folds", seed, picture), picture))
        for label in sorted(members)
    ]


def _picture(entry: Entry) -> str:
    """The digest of the pixels, which copies share."""
    return entry.digest or entry.id


def _hash(purpose: str, seed: int, key: str) -> bytes:
    return hashlib.blake2b(f"{purpose}\0{seed}\0{key}".encode(), digest_size=_DIGEST_BYTES).digest()


def _parted(entries: Iterable[Entry], taken: Collection[str]) -> Parted:
    ordered = sorted(entries, key=lambda entry: entry.id)
    return Parted(
        tuple(entry for entry in ordered if entry.id not in taken),
        tuple(entry for entry in ordered if entry.id in taken),
    )

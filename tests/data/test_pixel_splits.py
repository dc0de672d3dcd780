"""The rule `pixels`: what may come and go without moving anything, and what stays together."""

import hashlib
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.data import Entry, folds, take
from pixpnet.data.splits import Parted

fractions = st.sampled_from([0.05, 0.1, 0.2, 0.5, 0.8])
seeds = st.integers(0, 50)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Entry, ...]:
    """Up to four classes; pictures may be there several times, in one class or in several."""
    pictures = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), min_size=1, max_size=60))
    return tuple(
        Entry(f"{label}/{number}.jpg", label, "train", digest=f"pixels {picture}")
        for number, (label, picture) in enumerate(pictures)
    )


def parted(pool: tuple[Entry, ...], fraction: float, seed: int) -> Parted:
    return take(pool, fraction, seed, "validation", "pixels")


def share(digest: str, seed: int) -> float:
    """Where a picture stands between 0 and 1, by a hash that is computed here."""
    value = hashlib.blake2b(f"validation\0{seed}\0{digest}".encode(), digest_size=16).hexdigest()
    return int(value, 16) / 2**128


def pictures_of(pool: tuple[Entry, ...]) -> dict[int, set[str]]:
    pictures: dict[int, set[str]] = defaultdict(set)
    for entry in pool:
        pictures[entry.label].add(entry.digest or "")
    return pictures


def undecided_classes(pool: tuple[Entry, ...], fraction: float, seed: int) -> set[int]:
    """Those whose pictures all have their hash on one side."""
    sides = {label: {share(one, seed) < fraction for one in own} for label, own in pictures_of(pool).items()}
    return {label for label, side in sides.items() if len(side) == 1}


@given(pools(), fractions, seeds)
def test_every_picture_is_where_its_own_hash_puts_it_but_for_one_of_a_class_that_is_all_on_one_side(
    pool: tuple[Entry, ...], fraction: float, seed: int
) -> None:
    """So whatever else comes or goes moves no picture, but perhaps that one."""
    remaining, taken = parted(pool, fraction, seed)
    against = {entry.digest for entry in taken if share(entry.digest or "", seed) >= fraction}
    against |= {entry.digest for entry in remaining if share(entry.digest or "", seed) < fraction}
    pictures, undecided = pictures_of(pool), undecided_classes(pool, fraction, seed)
    # A picture in two classes that is forced for one of them may leave the other on one side.
    sharing = {label for label in pictures if any(pictures[label] & pictures[other] for other in undecided)}
    assert against <= set().union(*(pictures[label] for label in undecided | sharing))
    for label in undecided:
        if not any(pictures[label] & pictures[other] for other in pictures if other != label):
            assert len(against & pictures[label]) == (
                len(pictures[label]) > 1 or share(min(pictures[label]), seed) < fraction
            )


@given(st.lists(st.integers(30, 60), min_size=1, max_size=3), seeds, st.data())
def test_in_classes_that_have_both_sides_nothing_moves_at_all(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    pool = tuple(
        Entry(f"{label}/{number}.jpg", label, "train", digest=f"{label} {number}")
        for label, count in enumerate(counts)
        for number in range(count)
    )
    gone = data.draw(st.sets(st.sampled_from([entry.id for entry in pool]), max_size=10))
    left = tuple(entry for entry in pool if entry.id not in gone)
    if undecided_classes(pool, 0.2, seed) | undecided_classes(left, 0.2, seed):
        return
    before, after = parted(pool, 0.2, seed), parted(left, 0.2, seed)
    assert after.taken == tuple(entry for entry in before.taken if entry.id not in gone)
    assert after.remaining == tuple(entry for entry in before.remaining if entry.id not in gone)


@given(pools(), fractions, seeds)
def test_renamed_files_stay_where_they_are(pool: tuple[Entry, ...], fraction: float, seed: int) -> None:
    renamed = tuple(replace(entry, id=f"renamed/{entry.id[::-1]}") for entry in pool)
    before = {entry.digest for entry in parted(pool, fraction, seed).taken}
    assert {entry.digest for entry in parted(renamed, fraction, seed).taken} == before


@given(pools(), fractions, seeds)
def test_copies_are_on_one_side_whatever_their_names_and_classes(
    pool: tuple[Entry, ...], fraction: float, seed: int
) -> None:
    remaining, taken = parted(pool, fraction, seed)
    assert not {entry.digest for entry in remaining} & {entry.digest for entry in taken}
    assert sorted(entry.id for entry in (*remaining, *taken)) == sorted(entry.id for entry in pool)


@given(pools(), st.integers(2, 5), seeds)
def test_copies_are_in_one_fold(pool: tuple[Entry, ...], count: int, seed: int) -> None:
    for remaining, taken in folds(pool, count, seed):
        assert not {entry.digest for entry in remaining} & {entry.digest for entry in taken}


@given(pools(), fractions, seeds)
def test_every_class_keeps_an_image_to_learn_from_and_gives_one_if_it_has_two_pictures_of_its_own(
    pool: tuple[Entry, ...], fraction: float, seed: int
) -> None:
    remaining, taken = parted(pool, fraction, seed)
    pictures = pictures_of(pool)
    for label, own in pictures.items():
        assert any(entry.label == label for entry in remaining)
        others: set[str] = set().union(*(theirs for other, theirs in pictures.items() if other != label))
        if len(own) >= 2 and not own & others:
            assert any(entry.label == label for entry in taken)


@pytest.mark.parametrize(("fraction", "seed"), list(product((0.1, 0.2, 0.5), (0, 1, 2))))
def test_the_share_is_right_on_average(fraction: float, seed: int) -> None:
    """Of 4000 pictures in one class: five standard deviations of a binomial either way."""
    pool = tuple(Entry(f"{number}.jpg", 0, "train", digest=f"{number:032x}") for number in range(4000))
    taken = len(parted(pool, fraction, seed).taken) / 4000
    assert abs(taken - fraction) < 5 * (fraction * (1 - fraction) / 4000) ** 0.5


def test_images_that_nobody_looked_at_cannot_be_split_by_their_pixels() -> None:
    with pytest.raises(ValueError, match="no digest to split by"):
        take([Entry("jay/1.jpg", 0, "train")], 0.1, 0, "validation", "pixels")

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.data import Entry, folds, take
from pixpnet.data.splits import SplitRule

classes = st.lists(st.integers(1, 40), min_size=1, max_size=5)
RULES: tuple[SplitRule, ...] = ("pixels", "quota")


def entries(counts: list[int]) -> list[Entry]:
    return [
        Entry(f"{label}/{number}.jpg", label, "train", digest=f"pixels {label} {number}")
        for label, count in enumerate(counts)
        for number in range(count)
    ]


def ids(some: tuple[Entry, ...]) -> set[str]:
    return {entry.id for entry in some}


@given(classes, st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_order_of_the_images_does_not_matter(counts: list[int], seed: int, shuffler: random.Random) -> None:
    ordered = entries(counts)
    shuffled = list(ordered)
    shuffler.shuffle(shuffled)
    for rule in RULES:
        assert take(ordered, 0.1, seed, "validation", rule) == take(shuffled, 0.1, seed, "validation", rule)
    assert folds(ordered, 3, seed) == folds(shuffled, 3, seed)


@given(classes, st.floats(0.05, 0.6), st.integers(0, 5))
def test_by_quota_each_class_gives_its_share_but_at_least_one_and_never_all(
    counts: list[int], fraction: float, seed: int
) -> None:
    remaining, taken = take(entries(counts), fraction, seed, "validation", "quota")
    assert not ids(remaining) & ids(taken)
    assert len(remaining) + len(taken) == sum(counts)
    for label, count in enumerate(counts):
        number = sum(entry.label == label for entry in taken)
        if count == 1:
            assert number == 0
        else:
            assert 1 <= number < count
            assert abs(number - fraction * count) <= max(0.5, 1 - fraction * count) + 1e-9


@given(st.integers(2, 40), st.integers(0, 20), st.integers(0, 5))
def test_by_quota_adding_images_moves_only_those_at_the_boundary(count: int, added: int, seed: int) -> None:
    """Old images may leave the taken part only if new ones took their place, and join it only if it grew."""
    before = ids(take(entries([count]), 0.1, seed, "validation", "quota").taken)
    after = ids(take(entries([count + added]), 0.1, seed, "validation", "quota").taken)
    old = {entry.id for entry in entries([count])}
    left, joined = before - after, (after - before) & old
    assert not (left and joined)
    assert len(left) <= len(after - old)
    assert len(joined) <= len(after) - len(before)


@pytest.mark.parametrize("rule", RULES)
def test_the_split_does_not_depend_on_randomness_that_was_consumed(rule: SplitRule) -> None:
    """Mistake 4 of earlier software."""
    first = take(entries([30, 30]), 0.1, 0, "validation", rule)
    random.random()
    np.random.default_rng().random(10)
    torch.rand(10)
    assert take(entries([30, 30]), 0.1, 0, "validation", rule) == first


def test_by_quota_the_split_is_the_same_on_every_machine() -> None:
    """By GNU `b2sum -l 128` of purpose, seed and id with zero bytes between: 7, 6, 8 come first."""
    taken = take(entries([10]), 0.3, 7, "validation", "quota").taken
    assert [entry.id for entry in taken] == ["0/6.jpg", "0/7.jpg", "0/8.jpg"]


@pytest.mark.parametrize("rule", RULES)
def test_seeds_and_purposes_choose_independently(rule: SplitRule) -> None:
    pool = entries([100])
    chosen = [take(pool, 0.3, seed, purpose, rule).taken for seed in (0, 1) for purpose in ("validation", "test")]
    assert len({frozenset(ids(one)) for one in chosen}) == 4


@given(classes, st.integers(2, 6), st.integers(0, 5))
def test_folds_take_every_image_once_and_are_stratified(counts: list[int], number: int, seed: int) -> None:
    parted = folds(entries(counts), number, seed)
    taken = [entry.id for fold in parted for entry in fold.taken]
    assert sorted(taken) == sorted(entry.id for entry in entries(counts))
    for fold in parted:
        assert len(fold.remaining) + len(fold.taken) == sum(counts)
        for label, count in enumerate(counts):
            assert abs(sum(entry.label == label for entry in fold.taken) - count / number) < 1


@pytest.mark.parametrize("fraction", [-0.1, 1.0])
def test_an_impossible_fraction_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction"):
        take(entries([10]), fraction, 0, "validation", "pixels")


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_taken_when_nothing_is_asked_for(rule: SplitRule) -> None:
    assert take(entries([5, 5]), 0.0, 0, "validation", rule).taken == ()

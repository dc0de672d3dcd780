"""Consistency by hand, and the mistakes of earlier software that it must not make."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.box import Box
from pixpnet.metrics.consistency import BestPart, Consistency, best_parts, consistency

LEFT, RIGHT, NOWHERE = (Box(0, 0, 8, 4),), (Box(0, 4, 8, 8),), ()
# Beak on the left, tail on the right.
POINTS = torch.tensor([[1.0, 1.0], [6.0, 1.0]])


def seen(beak: bool, tail: bool) -> torch.Tensor:
    return torch.tensor([beak, tail])


def of(updates: Sequence[tuple[int, tuple[Box, ...], torch.Tensor]], prototypes: int = 1) -> Consistency:
    metric = Consistency(prototypes, point_parts=(0, 1))
    for prototype, region, visible in updates:
        metric.update([prototype], [region], POINTS, visible)
    return metric


def test_a_part_is_counted_over_the_images_that_show_it() -> None:
    # Beak: in the region in 2 of 3 images. Tail: shown once, and hit then.
    score = of([(0, LEFT, seen(True, False)), (0, LEFT, seen(True, False)), (0, RIGHT, seen(True, True))]).compute()
    assert score.best == (BestPart(part=1, frequency=1.0, images=1),)
    assert score.share == 1.0


def test_four_images_of_five_reach_a_threshold_of_eight_tenths() -> None:
    four_of_five = [(0, LEFT if n else RIGHT, seen(True, True)) for n in range(5)]
    score = of(four_of_five).compute()
    assert score.best == (BestPart(0, 4 / 5, 5),)
    assert (score.share, score.soft) == (1.0, 0.8)


def test_three_images_of_four_do_not_and_the_soft_score_says_how_many_they_were() -> None:
    score = of([(0, LEFT if n else RIGHT, seen(True, True)) for n in range(4)]).compute()
    assert (score.share, score.soft) == (0.0, 0.75)


def test_a_part_that_is_never_visible_makes_no_prototype_inconsistent() -> None:
    # FACTS 7.3: 0 / 0 is NaN, the maximum with a NaN is NaN, and NaN >= 0.8 is false.
    metric = of([(0, LEFT, seen(True, False))] * 3)
    old = (metric.hits / metric.seen).max(dim=1).values
    assert torch.isnan(old).all()
    assert not (old >= 0.8).any()
    assert metric.compute().share == 1.0


def test_prototypes_without_images_or_visible_parts_are_counted_and_in_no_mean() -> None:
    # Prototype 0 finds the beak, 1 has an image without a visible part, 2 has no image.
    score = of([(0, LEFT, seen(True, True)), (1, LEFT, seen(False, False))], prototypes=3).compute()
    assert (score.share, score.soft, score.undefined) == (1.0, 1.0, 2)
    assert score.best[1:] == (None, None)


def test_a_prototype_that_hits_nothing_is_defined_and_inconsistent() -> None:
    score = of([(0, NOWHERE, seen(True, False))]).compute()
    assert (score.share, score.soft, score.undefined) == (0.0, 0.0, 0)


def test_where_nothing_is_defined_there_is_no_score() -> None:
    score = of([(0, LEFT, seen(False, False))]).compute()
    assert (score.share, score.soft, score.undefined) == (None, None, 1)


def test_prototypes_of_one_image_are_counted_each_for_itself() -> None:
    metric = Consistency(3, point_parts=(0, 1))
    metric.update([2, 0], [LEFT, RIGHT], POINTS, seen(True, True))
    assert metric.compute().best == (BestPart(1, 1.0, 1), None, BestPart(0, 1.0, 1))


counts = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=6, max_size=6)


@given(counts, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_never_finds_more(pairs: list[tuple[int, int]], one: float, other: float) -> None:
    hits, shown = (
        torch.tensor(column).reshape(3, 2) for column in zip(*[(min(p), max(p)) for p in pairs], strict=True)
    )
    best = best_parts(hits, shown)
    low, high = (consistency(best, threshold) for threshold in sorted((one, other)))
    assert low.undefined == high.undefined == sum(int(row.sum()) == 0 for row in shown)
    if low.share is not None and high.share is not None and low.soft is not None:
        assert 0 <= high.share <= low.share <= 1
        assert 0 <= low.soft <= 1


@given(st.permutations(range(6)), st.integers(0, 6))
def test_neither_order_nor_sharing_out_changes_anything(order: list[int], cut: int) -> None:
    material = [(n % 2, (LEFT, RIGHT, NOWHERE)[n % 3], seen(n % 4 != 0, n != 5)) for n in range(6)]
    whole = of(material, prototypes=2)
    parts = [of([material[n] for n in share], prototypes=2) for share in (order[:cut], order[cut:])]
    # What torchmetrics does with the states of several processes.
    assert all((parts[0].hits + parts[1].hits).equal(expected) for expected in [whole.hits])
    assert (parts[0].seen + parts[1].seen).equal(whole.seen)


def test_the_metric_can_be_used_again() -> None:
    metric = of([(0, NOWHERE, seen(True, True))])
    assert metric.compute().share == 0.0
    metric.reset()
    metric.update([0], [LEFT], POINTS, seen(True, True))
    assert metric.compute().share == pytest.approx(1.0)

"""The curve, its area and its point of recovery, against values from paper."""

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.metrics.ordering import Curve, Curves, Spacing, area_under_similarity, pixel_order, pixels_to_recovery
from pixpnet.metrics.ordering.spacing import stepped_curve
from tests.metrics.toys import CORNER, ELSEWHERE, block_sums, ones_in_a_corner


def curve(*similarities: float) -> Curve:
    return Curve(
        torch.linspace(0, 1, len(similarities), dtype=torch.float64), torch.tensor(similarities, dtype=torch.float64)
    )


@pytest.mark.parametrize("method", ["exact", "stepped"])
def test_area_and_recovery_of_a_network_on_paper(method: str) -> None:
    # The corner's sum goes 0 1 2 3 4, so d is 16 9 4 1 0 and 1 / (d + 1) + 1 is 18/17 11/10 6/5 3/2 2, then stays.
    model, start = block_sums(), torch.zeros(3, 4, 4)
    order = torch.tensor([*CORNER, *ELSEWHERE])
    result = Curves(model, method, Spacing(points=200, times=0)).curve(start, ones_in_a_corner(), order, 0)
    expected = [log(18 / 17), log(1.1), log(1.2), log(1.5), *[log(2)] * 13]
    assert result.similarities.tolist() == pytest.approx(expected)
    rise = log(2) - log(18 / 17)
    before = sum(log(value) - log(18 / 17) for value in (1.1, 1.2, 1.5)) / rise
    assert area_under_similarity(result) == pytest.approx((before + 12.5) / 16)
    assert pixels_to_recovery(result) == 4 / 16


def test_the_worst_order_recovers_at_the_last_pixel() -> None:
    model, start = block_sums(), torch.zeros(3, 4, 4)
    result = Curves(model, "exact", Spacing()).curve(start, ones_in_a_corner(), torch.tensor([*ELSEWHERE, *CORNER]), 0)
    assert pixels_to_recovery(result) == 1
    # Twelve points at the beginning and 0.5, then the same rise: what is left of the best area.
    rise = log(2) - log(18 / 17)
    before = sum(log(value) - log(18 / 17) for value in (1.1, 1.2, 1.5)) / rise
    assert area_under_similarity(result) == pytest.approx((before + 0.5) / 16)


ON_PAPER = Curves(block_sums(), "exact", Spacing())


@settings(max_examples=40)
@given(st.permutations(range(16)))
def test_no_order_has_a_larger_area_than_the_perfect_one(order: list[int]) -> None:
    start, image = torch.zeros(3, 4, 4), ones_in_a_corner()
    perfect = area_under_similarity(ON_PAPER.curve(start, image, torch.tensor([*CORNER, *ELSEWHERE]), 0))
    other = area_under_similarity(ON_PAPER.curve(start, image, torch.tensor(order), 0))
    assert perfect is not None
    assert other is not None
    assert other <= perfect + 1e-12


def test_a_rounding_error_at_the_end_does_not_decide_recovery() -> None:
    almost = 3.0 * (1 - 1e-7)
    assert pixels_to_recovery(curve(1.0, almost, almost, almost, 3.0)) == 0.25
    assert pixels_to_recovery(curve(1.0, 2.99, 2.99, 2.99, 3.0)) == 1.0
    assert pixels_to_recovery(curve(1.0, 2.99, 2.99, 2.99, 3.0), tolerance=0.01) == 0.25


@pytest.mark.parametrize("last", [1.0, 0.5, 1.0 + 1e-7])
def test_without_a_rise_both_numbers_are_undefined(last: float) -> None:
    flat = curve(1.0, 5.0, last)
    assert area_under_similarity(flat) is None
    assert pixels_to_recovery(flat) is None


def test_an_image_in_part_may_be_more_similar_than_the_whole() -> None:
    assert area_under_similarity(curve(0.0, 3.0, 1.0)) == pytest.approx(1.75)
    assert pixels_to_recovery(curve(0.0, 3.0, 1.0)) == 0.5


def test_a_curve_starts_with_nothing_and_ends_with_everything() -> None:
    with pytest.raises(ValueError, match="first at fraction 0"):
        Curve(torch.tensor([0.1, 1.0]).double(), torch.zeros(2).double())
    with pytest.raises(ValueError, match="rise from point to point"):
        Curve(torch.tensor([0.0, 0.5, 0.5, 1.0]).double(), torch.zeros(4).double())


HEATS = st.lists(st.integers(-4, 4), min_size=12, max_size=12)


@given(HEATS, st.integers(0, 5), st.sampled_from([lambda x: 2 * x + 1, lambda x: x**3, torch.exp, torch.arctan]))
def test_only_the_order_of_a_map_counts(heats: list[int], seed: int, monotone: object) -> None:
    heatmap = torch.tensor(heats).float().reshape(3, 4)
    assert callable(monotone)
    one, other = (pixel_order(item, torch.Generator().manual_seed(seed)) for item in (heatmap, monotone(heatmap)))
    assert one.tolist() == other.tolist()


@given(HEATS, st.integers(0, 5))
def test_an_order_holds_every_pixel_once_and_falls(heats: list[int], seed: int) -> None:
    order = pixel_order(torch.tensor(heats).float().reshape(3, 4), torch.Generator().manual_seed(seed))
    assert sorted(order.tolist()) == list(range(12))
    assert (torch.tensor(heats)[order].diff() <= 0).all()


def test_ties_favor_no_place() -> None:
    flat = torch.zeros(4, 4)
    firsts = [int(pixel_order(flat, torch.Generator().manual_seed(seed))[0]) for seed in range(300)]
    assert len(set(firsts)) == 16


def test_a_map_with_what_is_not_a_number_has_no_order() -> None:
    with pytest.raises(ValueError, match="not numbers"):
        pixel_order(torch.tensor([[0.0, float("nan")]]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(500, 4000))
def test_on_a_curve_that_never_falls_few_points_are_within_what_is_stated(rises: list[float], pixels: int) -> None:
    # A rising curve between two points lies in the rectangle over them, and the trapezoid halves it: summed up, at most
    # half the largest gap, 1 - (62 / 63)^2 = 0.0315. Recovery: that gap divided by 9 twice, to whole pixels.
    steps = torch.arange(pixels + 1).double() / pixels
    jumps = torch.tensor(rises, dtype=torch.float64)[:, None]
    exact = Curve(steps, (steps >= jumps.clamp_min(1 / pixels)).double().mean(dim=0))
    result = stepped_curve(lambda at: exact.similarities[at], pixels, Spacing())
    areas, recoveries = (
        [read(item) for item in (exact, result)] for read in (area_under_similarity, pixels_to_recovery)
    )
    assert areas[0] == pytest.approx(areas[1], abs=0.0158 + 1 / pixels)
    assert recoveries[0] == pytest.approx(recoveries[1], abs=0.0004 + 2 / pixels)


@given(st.integers(1, 999), st.integers(2, 40))
def test_finer_points_find_recovery_to_the_pixel_on_a_rising_curve(recovery: int, points: int) -> None:
    def similarities(steps: Tensor) -> Tensor:
        return (steps.double() / recovery).clamp_max(1)

    result = stepped_curve(similarities, 1000, Spacing(points=points, finer=12, times=3))
    at = pixels_to_recovery(result)
    assert at is not None
    assert at * 1000 == pytest.approx(recovery, abs=1)

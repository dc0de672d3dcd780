"""The front, the advice, and the agreement of rankings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonargparse import Namespace

from pixpnet.commands.goldilocks import wanted_by
from pixpnet.commands.goldilocks_text import told_apart
from pixpnet.goldilocks import Trade, agreement, pareto_front
from pixpnet.goldilocks.front import nearest_on_front
from pixpnet.goldilocks.result import evaluated_cuts, recommendation
from pixpnet.goldilocks.study import FinishedTrial
from tests.goldilocks.material import candidate

# Few values, so that ties are common.
TRADES = st.lists(st.builds(Trade, st.integers(1, 6).map(lambda n: n / 8), st.integers(0, 6).map(lambda n: n / 8)))


def beats(one: Trade, other: Trade) -> bool:
    no_worse = one.mean_field <= other.mean_field and one.accuracy >= other.accuracy
    return no_worse and (one.mean_field < other.mean_field or one.accuracy > other.accuracy)


@given(TRADES)
def test_the_front_is_what_nothing_beats(trades: list[Trade]) -> None:
    expected = tuple(not any(beats(other, trade) for other in trades) for trade in trades)
    assert pareto_front(trades) == expected


@given(TRADES, st.integers(1, 8))
def test_the_recommended_trade_is_on_the_front_and_none_there_is_nearer(trades: list[Trade], eighths: int) -> None:
    want = eighths / 8
    position = nearest_on_front(trades, want)
    front = [trade for trade, on_front in zip(trades, pareto_front(trades), strict=True) if on_front]
    if position is None:
        assert not trades
        return
    assert trades[position] in front

    def ratio(trade: Trade) -> float:
        return max(trade.mean_field / want, want / trade.mean_field)

    assert ratio(trades[position]) <= min(map(ratio, front)) * (1 + 1e-12)


def pairs(*accuracies: float | None) -> list[tuple[object, FinishedTrial]]:
    return [
        (candidate(10 * index), FinishedTrial("", accuracy, 20, 1.0, None if accuracy is not None else "it broke"))
        for index, accuracy in enumerate(accuracies, start=1)
    ]


def test_the_advice_names_the_cut_and_what_its_neighbors_offer() -> None:
    evaluated = evaluated_cuts(pairs(0.5, 0.7, 0.65, 0.9, None), {"small-21": None})
    assert [cut.on_front for cut in evaluated] == [True, True, False, True, False]
    best, output = recommendation(evaluated, want=0.25)
    assert best is not None and best.at == "layer20"
    assert "cut small-21 @ layer20: a cell sees 20 % on average, and validation accuracy is 70 % (20 images)" in output
    assert "small-21 @ layer40 gains 20.0 points with 40 %" in output
    assert "small-21 @ layer10 costs 20.0 points with 10 %" in output
    assert output.count(".\n") == 0 and output.endswith(".")
    # Wilson's interval for 14 of 20, from its formula: (0.796 +- 0.211) / 1.192.
    assert evaluated[1].interval is not None
    assert (round(evaluated[1].interval.low, 3), round(evaluated[1].interval.high, 3)) == (0.481, 0.855)


def test_without_a_judged_cut_there_is_no_advice() -> None:
    best, output = recommendation(evaluated_cuts(pairs(None), {"small-21": None}), want=0.25)
    assert best is None
    assert "nothing to recommend" in output


def test_kendalls_tau_counts_pairs_in_the_same_order() -> None:
    # Of the 6 pairs of 4 cuts, 5 are in the same order and 1 (c, d) is reversed: (5 - 1) / 6.
    first = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "only here": 0.0}
    result = agreement("probe", first, "finetune", {"a": 0.5, "b": 0.6, "d": 0.7, "c": 0.8})
    assert result is not None
    assert result.tau == pytest.approx(4 / 6)
    assert (result.cuts, result.ties, result.other_ties) == (4, 0, 0)


def test_ties_are_counted_and_allowed_for() -> None:
    # tau-b: 5 pairs in the same order, none reversed, 1 tied in one ranking: 5 / sqrt(6 * 5).
    first = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    result = agreement("probe", first, "finetune", {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.3})
    assert result is not None
    assert result.tau == pytest.approx(5 / 30**0.5)
    assert (result.ties, result.other_ties) == (0, 1)


def test_a_ranking_that_tells_nothing_apart_agrees_with_none() -> None:
    result = agreement("probe", {"a": 0.5, "b": 0.5}, "finetune", {"a": 0.1, "b": 0.2})
    assert result is not None
    assert result.tau is None and result.p_value is None
    assert agreement("probe", {"a": 0.5}, "finetune", {"a": 0.1}) is None


def test_cuts_that_so_few_images_cannot_tell_apart_are_said() -> None:
    # 20 images. Wilson by hand: 18 right are 0.699 to 0.972, 14 right 0.481 to 0.855, 4 right 0.081 to 0.416.
    (output,) = told_apart(evaluated_cuts(pairs(0.2, 0.7, 0.9, None), {"small-21": None}))
    assert "20 validation images: an accuracy is known to about ±14 points" in output
    assert "cannot tell the most accurate cut, small-21 @ layer30, from 1 of the other 2 (intervals overlap)" in output
    assert "small-21 @ layer20." in output
    assert "layer10" not in output
    (output,) = told_apart(evaluated_cuts(pairs(0.2, 0.9), {"small-21": None}))
    assert output.endswith("They tell the most accurate cut, small-21 @ layer20, from all others.")
    assert told_apart(evaluated_cuts(pairs(0.2, None), {"small-21": None})) == []


def test_who_wants_a_field_of_that_size_is_said() -> None:
    asked = Namespace(want=0.1, target_field=0.2, zone=[0.05, 0.6])
    assert wanted_by(asked) == "--want"
    assert wanted_by(Namespace(want=None, target_field=0.2, zone=[0.05, 0.6])) == "--target-field"
    assert "middle (as a ratio) of the zone 5 % to 60 %" in wanted_by(
        Namespace(want=None, target_field=None, zone=[0.05, 0.6])
    )

"""A decision that chooses which prototypes speak: its sum against NumPy, its price by its law."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pixpnet.members.pixpnet import Architecture
from pixpnet.parts import ClassSum, OneClassEach, SelectedSum

# Two classes of four prototypes; the first two of each look at small regions, the others at large ones.
LABELS = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])
SHARES = torch.tensor([0.05] * 4 + [0.3] * 4)
OWNERSHIP = OneClassEach(LABELS, 2)
scores_of_images = hnp.arrays(np.float64, (3, 8), elements=st.floats(-2, 14, width=32))


def decision(terms: int, price: float) -> SelectedSum:
    made = SelectedSum(OWNERSHIP, terms, price)
    made.set_field_shares(SHARES)
    return made


@given(scores_of_images, st.integers(1, 4), st.floats(0, 40))
def test_a_logit_is_the_sum_of_the_scores_that_are_best_after_their_price(
    scores: np.ndarray[Any, Any], terms: int, price: float
) -> None:
    chosen = decision(terms, price)
    prices = chosen.prices.double().numpy()
    logits = chosen.logits(torch.from_numpy(scores))
    for image, row in enumerate(scores):
        for label in (0, 1):
            own = np.flatnonzero(LABELS.numpy() == label)
            best = own[np.argsort(-(row[own] - prices[own]), kind="stable")[:terms]]
            assert logits[image, label].item() == pytest.approx(row[best].sum(), abs=1e-9)
            reasons = chosen.reasons(torch.from_numpy(row), [label])
            assert set(reasons.weights[0].nonzero().flatten().tolist()) == set(best.tolist())
            assert reasons.logits(torch.from_numpy(row)).item() == pytest.approx(logits[image, label].item(), abs=1e-9)


@given(scores_of_images, st.integers(1, 4), st.floats(0, 40), st.floats(0, 40))
def test_a_larger_price_never_makes_the_regions_of_a_class_larger(
    scores: np.ndarray[Any, Any], terms: int, price: float, other: float
) -> None:
    low, high = sorted((price, other))
    areas = []
    for cost in (low, high):
        speaking = decision(terms, cost).speaking(torch.from_numpy(scores))
        assert [int(speaking[:, label == LABELS].sum()) for label in (0, 1)] == [3 * terms, 3 * terms]
        areas.append(torch.stack([(speaking * SHARES)[:, label == LABELS].sum(dim=1) for label in (0, 1)]))
    assert (areas[1] <= areas[0] + 1e-6).all()


@given(hnp.arrays(np.float32, (3, 8), elements=st.floats(-2, 14, width=32)))
def test_where_all_speak_nothing_is_chosen_and_the_sum_is_that_of_the_class(scores: np.ndarray[Any, Any]) -> None:
    given_scores = torch.from_numpy(scores)
    torch.testing.assert_close(decision(4, 0.0).logits(given_scores), ClassSum(OWNERSHIP).logits(given_scores))
    assert decision(4, 7.0).speaking(given_scores).all()


def test_a_price_so_high_that_nothing_is_worth_it_leaves_the_small_regions() -> None:
    speaking = decision(2, 1000.0).speaking(torch.rand(5, 8) * 14)
    assert torch.equal(speaking, (SHARES < 0.1).expand(5, 8))


@given(scores_of_images, st.integers(1, 3), st.floats(0, 20))
def test_a_prototype_decides_where_the_answer_without_it_is_another_one(
    scores: np.ndarray[Any, Any], terms: int, price: float
) -> None:
    chosen = decision(terms, price)
    prices = chosen.prices.double().numpy()
    decides = chosen.decides(torch.from_numpy(scores))

    def answer(row: np.ndarray[Any, Any], gone: int | None) -> int:
        sums = []
        for label in (0, 1):
            own = [int(p) for p in np.flatnonzero(LABELS.numpy() == label) if p != gone]
            best = sorted(own, key=lambda p: -(row[p] - prices[p]))[:terms]
            sums.append(torch.from_numpy(row[best]).sum().item())
        return int(np.argmax(sums))

    for image, row in enumerate(scores):
        for prototype in range(8):
            assert bool(decides[image, prototype]) == (answer(row, prototype) != answer(row, None))


@given(scores_of_images, scores_of_images, st.integers(1, 4), st.floats(0, 20), st.integers(0, 2**31))
def test_no_scores_within_bounds_lead_by_less_than_is_certified(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], terms: int, price: float, seed: int
) -> None:
    chosen = decision(terms, price)
    low, high = torch.from_numpy(np.minimum(one, other)), torch.from_numpy(np.maximum(one, other))
    # Some scores are known.
    known = torch.rand(low.shape, generator=torch.Generator().manual_seed(seed)) < 0.4
    high = torch.where(known, low, high)
    for label in (0, 1):
        least = chosen.least_leads(label, low, high)
        assert (least[:, label] == 0).all()
        for share in torch.rand(40, *low.shape, generator=torch.Generator().manual_seed(seed)):
            # At the ends and in between.
            scores = low + (high - low) * share.mul(3).sub(1).clamp(0, 1)
            logits = chosen.logits(scores)
            assert (logits[:, label, None] - logits >= least - 1e-9).all()


@given(hnp.arrays(np.float64, (3, 8), elements=st.floats(0, 14), unique=True), st.integers(1, 4), st.floats(0, 20))
def test_where_all_scores_are_known_the_certified_leads_are_the_leads(
    scores: np.ndarray[Any, Any], terms: int, price: float
) -> None:
    chosen, known = decision(terms, price), torch.from_numpy(scores)
    priced = (known - chosen.prices.double())[:, chosen.own]
    assume(all(len(set(row.tolist())) == 4 for row in priced.flatten(0, 1)))
    logits = chosen.logits(known)
    torch.testing.assert_close(chosen.least_leads(1, known, known), logits[:, [1]] - logits)


def test_gradients_reach_the_scores_that_speak_and_no_others() -> None:
    scores = torch.tensor([[5.0, 4.0, 0.0, 0.0, 6.0, 1.0, 0.0, 0.0]], requires_grad=True)
    decision(2, 10.0).logits(scores)[0, 0].backward()
    # Prices of 0.5 and 3.0: the small regions have 4.5 and 3.5, the large ones 3.0 and -2.0.
    assert scores.grad is not None
    assert scores.grad[0, [0, 1, 4, 5]].tolist() == [1, 1, 0, 0]


def test_it_says_how_it_chooses_and_how_much_there_is_to_read() -> None:
    assert decision(3, 0.0).size() == (3, 3)
    assert decision(3, 0.0).choice_note == "of the 4 prototypes of a class the 3 speak whose scores are largest"
    assert "after a price of 2.5 times the share of the image" in decision(3, 2.5).form
    assert not decision(3, 0.0).asks_for_fields


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"terms_per_class": 11}, "of 10 prototypes of a class 11 cannot speak"),
        ({"terms_per_class": 0}, "of 10 prototypes of a class 0 cannot speak"),
        ({"terms_per_class": 5, "head": "linear"}, "the head linear weighs all prototypes"),
        ({"field_price": 1.0}, "here all of them do: choose fewer"),
        ({"field_price": 1.0, "terms_per_class": 10}, "here all of them do: choose fewer"),
        ({"field_price": -1.0, "terms_per_class": 5}, "field_price is not negative"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Architecture(**values)

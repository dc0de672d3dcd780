"""Prototypes that never decide anything, against networks that really lack them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.data import collate
from pixpnet.metrics.health.deciding import deciding
from pixpnet.parts import Linear, OneClassEach
from tests.explanation.toys import real
from tests.metrics.part_toys import BLACK, BLUE, RED, WHITE, YELLOW, finder, picture

OWN = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])


def changed(scores: Tensor, weights: Tensor) -> Tensor:
    """What a decision with these weights says."""
    classes, prototypes = weights.shape
    head = Linear(OneClassEach(torch.zeros(prototypes, dtype=torch.int64), classes), 1.0, 0.0, learns=True)
    head.weight.data = weights
    return head.decides(scores).long()


def test_by_hand() -> None:
    # Class 0 has 3 + 1 = 4, class 1 has 2.5 + 0.5 = 3. Without the 3: 1 against 3. Without the 1: 3 against 3, and the
    # first class wins. Taking from class 1 changes nothing.
    scores = torch.tensor([[3.0, 1.0, 2.5, 0.5]])
    assert changed(scores, OWN).tolist() == [[1, 0, 0, 0]]


def test_a_negative_weight_decides_by_being_there() -> None:
    # 4 - 3 = 1 against 2: class 1. Without the second prototype class 0 has 4.
    weights = torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    assert changed(torch.tensor([[4.0, 3.0, 2.0]]), weights).tolist() == [[0, 1, 1]]


@given(
    st.lists(st.integers(0, 20), min_size=8, max_size=8),
    st.lists(st.integers(-3, 3), min_size=12, max_size=12),
)
def test_it_is_the_prediction_of_the_network_whose_weights_are_0_there(scores: list[int], weights: list[int]) -> None:
    # Whole numbers: sums are exact, ties included.
    given_scores = torch.tensor(scores, dtype=torch.float64).reshape(2, 4)
    head = torch.tensor(weights, dtype=torch.float64).reshape(3, 4)
    before = (given_scores @ head.T).argmax(dim=1)
    for prototype in range(4):
        without = head.clone()
        without[:, prototype] = 0
        expected = (given_scores @ without.T).argmax(dim=1) != before
        assert changed(given_scores, head)[:, prototype].bool().equal(expected)


def test_prototypes_that_decide_nothing_are_counted_over_a_split() -> None:
    # Everything red and yellow: class 0 wins by the same margin in both pictures, and losing one prototype of class 0
    # gives the picture to class 1, whose prototypes never matter.
    warm = [picture(((RED, YELLOW), (BLACK, BLACK)), [], 0, f"warm {n}") for n in range(2)]
    result = deciding(finder(), [collate(warm)], "val")
    assert result.decided == (2, 2, 0, 0)
    assert result.never is not None
    assert result.never.mean == 0.5
    cold = picture(((BLUE, WHITE), (BLACK, BLACK)), [], 1, "cold")
    both = deciding(finder(), [collate(warm), collate([cold])], "val")
    assert both.decided == (2, 2, 1, 1)
    assert both.never is not None
    assert (both.never.mean, both.images) == (0.0, 3)


def test_without_images_nothing_is_known() -> None:
    assert deciding(finder(), [], "val").never is None


@pytest.mark.parametrize("head", ["class_sum", "linear", "own_class", "frozen"])
def test_every_head_is_a_sum_of_weights_and_scores(head: str) -> None:
    model = real(head)
    output = model(torch.randn(2, 3, 48, 48, generator=torch.Generator().manual_seed(0)))
    for scores, logits in zip(output.matches.scores, output.logits, strict=True):
        reasons = model.head.reasons(scores, range(3))
        assert torch.allclose(reasons.logits(scores).float(), logits, atol=1e-5)
        assert (reasons.magnitude(scores) >= reasons.logits(scores).abs() - 1e-9).all()


def test_a_model_is_left_in_the_mode_it_was_in() -> None:
    model = finder().train()
    deciding(model, [collate([picture(((RED, YELLOW), (BLACK, BLACK)), [])])], "val")
    assert model.training

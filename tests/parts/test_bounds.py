"""Bounds on answers: corners of small cases are tried one by one, and an adversary tries random values in between."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.parts import (
    L2,
    BinaryTree,
    ClassSum,
    Comparison,
    Cosine,
    Decision,
    Distinct,
    Focal,
    Linear,
    Measure,
    Nearest,
    Negated,
    NoBounds,
    OneClassEach,
    Original,
    OwnClass,
    Projection,
    Reformulated,
    Similarity,
    SquaredL2,
    TreeDecision,
)

SEEDS = st.integers(0, 2**32 - 1)
CLASSES = 3


def random_linear(kind: str, generator: torch.Generator) -> Decision:
    ownership = OneClassEach(torch.tensor([0, 0, 1, 1, 2]), CLASSES)
    if kind == "class_sum":
        return ClassSum(ownership)
    decision: Linear | OwnClass = (
        Linear(ownership, 1.0, -0.5, learns=True) if kind == "linear" else OwnClass(ownership, 1.0)
    )
    decision.weight.data = torch.randn(decision.weight.shape, generator=generator)
    return decision


def random_tree(generator: torch.Generator, inference: str = "soft") -> TreeDecision:
    decision = TreeDecision(CLASSES, BinaryTree(((1, 2), (-1, 3), (-3, 4), (-2, -4), (-5, -6))), inference)
    decision.knowledge.copy_(3 * torch.rand(decision.knowledge.shape, generator=generator))
    return decision


def random_bounds(generator: torch.Generator, sign: float = 1.0) -> tuple[Tensor, Tensor]:
    """Some known scores, some between bounds."""
    one, two = 3 * torch.rand(2, 1, 5, generator=generator, dtype=torch.float64) * sign
    known = torch.rand(1, 5, generator=generator) < 0.4
    return torch.where(known, one, torch.minimum(one, two)), torch.where(known, one, torch.maximum(one, two))


def leads_of(decision: Decision, scores: Tensor, label: int) -> Tensor:
    logits = decision.logits(scores).double()
    if isinstance(decision, TreeDecision) and decision.soft:
        logits = logits.exp()
    return logits[:, label, None] - logits


@pytest.mark.parametrize("kind", ["class_sum", "linear", "own_class", "soft", "greedy"])
@given(seed=SEEDS)
def test_the_least_lead_is_reached_at_some_corner_and_at_none_fallen_short_of(kind: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tree = kind in ("soft", "greedy")
    decision = (random_tree(generator, kind) if tree else random_linear(kind, generator)).double()
    low, high = random_bounds(generator, -1.0 if tree else 1.0)
    corners = torch.tensor(list(product(*zip(low[0].tolist(), high[0].tolist(), strict=True))), dtype=torch.float64)
    label = seed % CLASSES
    with torch.no_grad():
        result = decision.least_leads(label, low, high)[0]
        expected = leads_of(decision, corners, label).amin(dim=0)
        inside = low + (high - low) * torch.rand(200, 5, generator=generator, dtype=torch.float64)
        tried = leads_of(decision, inside, label).amin(dim=0)
    torch.testing.assert_close(result, expected, atol=1e-9, rtol=1e-9)
    assert (tried >= result - 1e-9).all()


def test_a_class_sum_leads_as_by_hand() -> None:
    decision = ClassSum(OneClassEach(torch.tensor([0, 0, 1]), 2))
    low, high = torch.tensor([[5.0, 1.0, 0.5]]).double(), torch.tensor([[5.0, 2.0, 4.0]]).double()
    # 5 + 1 against at most 4
    assert decision.least_leads(0, low, high).tolist() == [[0.0, 2.0]]


def test_the_most_probable_leaf_has_no_bounds() -> None:
    tree = random_tree(torch.Generator().manual_seed(0), "sample_max")
    zeros = torch.zeros(1, 5, dtype=torch.float64)
    with pytest.raises(NoBounds, match="convert the run to a hard one"):
        tree.least_leads(0, zeros, zeros)


@pytest.mark.parametrize(
    ("measure", "similarity"),
    [
        (Cosine(), Reformulated(1e-6)),
        (SquaredL2(), Original(1e-4)),
        (L2(), Negated()),
        (Projection(), Negated()),
    ],
)
@given(seed=SEEDS)
def test_scores_after_prototypes_moved_lie_between_their_bounds(
    measure: Measure, similarity: Similarity, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.rand(4, 3, 2, 2, generator=generator)
    old = torch.rand(5, 3, 1, 1, generator=generator)
    step = 10.0 ** torch.randint(-4, 1, (5, 1, 1, 1), generator=generator)
    new = (old + step * torch.randn(5, 3, 1, 1, generator=generator)).clamp(0, 1)
    comparison = Comparison(old, measure, similarity, Nearest())
    with torch.no_grad():
        low, high = comparison.scores_after(comparison(embeddings).distances, new)
        comparison.prototypes.copy_(new)
        after = comparison(embeddings).scores.double()
    assert (low <= after).all()
    assert (after <= high).all()


def test_bounds_are_tight_where_a_prototype_moves_towards_its_patch() -> None:
    patch, old, new = (np.array(v) for v in ([1.0, 0.0], [0.6, 0.8], [0.8, 0.6]))
    comparison = Comparison(torch.tensor(old).float().reshape(1, 2, 1, 1), SquaredL2(), Negated(), Nearest())
    before = comparison(torch.tensor(patch).float().reshape(1, 2, 1, 1)).distances
    _, high = comparison.scores_after(before, torch.tensor(new).float().reshape(1, 2, 1, 1))
    nearest = (np.linalg.norm(patch - old) - np.linalg.norm(new - old)) ** 2
    assert high.item() == pytest.approx(-nearest, abs=1e-5)


def test_a_prototype_without_direction_may_go_anywhere() -> None:
    comparison = Comparison(torch.zeros(1, 2, 1, 1), Cosine(), Reformulated(1e-6), Nearest())
    low, high = comparison.scores_after(torch.ones(1, 1), torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1))
    assert high.item() == pytest.approx(np.log(1 / 1e-6 + 1))
    assert low.item() == pytest.approx(np.log(2), abs=1e-5)


@pytest.mark.parametrize("pooling", [Focal(), Distinct(2)])
def test_poolings_whose_cells_jump_refuse_bounds(pooling: Nearest) -> None:
    comparison = Comparison(torch.rand(4, 2, 1, 1), Cosine(), Reformulated(1e-6), pooling)
    with pytest.raises(NoBounds):
        comparison.scores_after(torch.rand(1, 4), torch.rand(4, 2, 1, 1))


def test_a_focal_score_is_never_negative_and_at_most_the_whole_range() -> None:
    comparison = Comparison(torch.rand(4, 2, 1, 1), SquaredL2(), Original(1e-4), Focal())
    low, high = comparison.score_bounds()
    least, largest = comparison.bounds()
    assert (low, high) == (0.0, largest - least)


def test_prototypes_with_negative_numbers_may_be_opposite_to_a_patch() -> None:
    prototypes = torch.tensor([[1.0, -1.0]]).reshape(1, 2, 1, 1)
    comparison = Comparison(prototypes, Cosine(), Reformulated(1e-6), Nearest())
    assert comparison.bounds()[0] == pytest.approx(np.log(1.5), abs=1e-6)
    assert comparison(torch.tensor([0.0, 1.0]).reshape(1, 2, 1, 1)).scores.item() >= comparison.bounds()[0]

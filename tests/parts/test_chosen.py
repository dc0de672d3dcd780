"""Gradients that are gathered from the chosen cells, against automatic differentiation of the whole map."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.parts import Comparison
from pixpnet.parts.chosen import one_minus
from tests.parts.comparing import MEASURES, comparison_of

ALL = pytest.mark.parametrize("name", list(MEASURES))


def learnt(comparison: Comparison, embeddings: Tensor, of_scores: Tensor, dense: bool) -> tuple[Tensor, ...]:
    """Scores, and the gradients of a weighted sum of them; `dense` goes through the whole map."""
    embeddings = embeddings.clone().requires_grad_()
    if dense:
        maps = comparison.distance_maps(embeddings)
        pooled = comparison.pooling(maps)
        scores = comparison.pooling.scores(pooled, maps, comparison.similarity)
    else:
        scores = comparison(embeddings).scores
    return scores, *torch.autograd.grad((scores * of_scores).sum(), (embeddings, comparison.prototypes))


@ALL
@given(seed=st.integers(0, 10_000), batch=st.integers(1, 4), protos=st.integers(1, 9), side=st.integers(1, 4))
def test_gradients_of_chosen_cells_are_those_of_the_whole_map(
    name: str, seed: int, batch: int, protos: int, side: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    comparison = comparison_of(torch.rand(protos, 5, 1, 1, generator=generator, dtype=torch.float64), name)
    embeddings = torch.rand(batch, 5, side, side, generator=generator, dtype=torch.float64)
    of_scores = torch.randn(batch, protos, generator=generator, dtype=torch.float64)
    sparse, whole = (learnt(comparison, embeddings, of_scores, dense) for dense in (False, True))
    assert torch.equal(sparse[0], whole[0])
    for one, other in zip(sparse[1:], whole[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@ALL
def test_chosen_distances_are_bit_for_bit_those_of_the_map(name: str) -> None:
    torch.manual_seed(0)
    comparison = comparison_of(torch.rand(2100, 16, 1, 1), name)
    found = comparison(torch.rand(3, 16, 5, 5))
    assert found.distances.requires_grad
    at_cells = found.distance_maps.flatten(2).gather(2, found.cells[..., None]).squeeze(-1)
    assert torch.equal(found.distances, at_cells)


def test_more_prototypes_than_are_worked_out_at_once_get_their_gradients() -> None:
    torch.manual_seed(0)
    comparison = comparison_of(torch.rand(5000, 3, 1, 1, dtype=torch.float64), "cosine")
    embeddings, of_scores = torch.rand(2, 3, 2, 2, dtype=torch.float64), torch.randn(2, 5000, dtype=torch.float64)
    sparse, whole = (learnt(comparison, embeddings, of_scores, dense) for dense in (False, True))
    for one, other in zip(sparse, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_loss_may_still_learn_from_the_whole_map() -> None:
    torch.manual_seed(0)
    comparison = comparison_of(torch.rand(3, 4, 1, 1, dtype=torch.float64), "cosine")
    embeddings = torch.rand(2, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(comparison(embeddings).distance_maps.sum(), embeddings)
    (expected,) = torch.autograd.grad(comparison.distance_maps(embeddings).sum(), embeddings)
    torch.testing.assert_close(found, expected)
    assert found.abs().sum() > 0


def test_one_minus_has_the_values_and_the_gradient_of_the_clamp() -> None:
    cosines = torch.tensor([-1.0, 0.0, 0.5, 1.0, 1.0 + 2**-22, 3.0], requires_grad=True)
    found, expected = one_minus(cosines), (1 - cosines).clamp_min(0)
    assert torch.equal(found, expected)
    weights = torch.arange(1.0, 7.0)
    assert torch.equal(*(torch.autograd.grad((each * weights).sum(), cosines)[0] for each in (found, expected)))

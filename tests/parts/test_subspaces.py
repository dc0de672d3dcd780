"""TesNet's prototypes of length 1, the angles that losses pull on, and the subspaces of classes."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pixpnet.parts import Linear, Nearest, Negated, OneClassEach, Parts, Projection, Step, UnitPrototypes
from pixpnet.parts.losses import cluster, separation
from pixpnet.parts.matches import matches_of
from pixpnet.parts.subspaces import (
    orthonormality,
    orthonormality_loss,
    subspace_separation,
    subspace_separation_loss,
)
from tests.parts.numerics import Array, gradient, slope


def comparison_of(prototypes: Tensor) -> UnitPrototypes:
    return UnitPrototypes(prototypes, Projection(), Negated(), Nearest())


def step_of(embeddings: list[Tensor], prototypes: list[Tensor], labels: list[int], classes: int) -> Step:
    comparisons = tuple(comparison_of(prototype) for prototype in prototypes)
    owners = torch.cat([torch.arange(classes).repeat_interleave(len(prototype) // classes) for prototype in prototypes])
    ownership = OneClassEach(owners, classes)
    parts = Parts((), comparisons, ownership, Linear(ownership, 1.0, -0.5, learns=True))
    matches = matches_of(tuple(prototype(cells) for prototype, cells in zip(comparisons, embeddings, strict=True)))
    return Step(torch.zeros(len(labels), classes), torch.tensor(labels), parts, matches, tuple(embeddings))


# Length 1 ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_after_a_step_prototypes_have_length_1_and_their_old_direction(seed: int, factor: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    prototypes = factor * torch.randn(4, 6, 1, 1, generator=generator)
    comparison, embeddings = comparison_of(prototypes.clone()), torch.rand(1, 6, 2, 2, generator=generator)
    before = comparison(embeddings).scores
    comparison.after_step()
    result = comparison.prototypes.detach()
    torch.testing.assert_close(result.flatten(1).norm(dim=1), torch.ones(4))
    cosines = (result * prototypes).sum(dim=(1, 2, 3)) / prototypes.flatten(1).norm(dim=1)
    torch.testing.assert_close(cosines, torch.ones(4))
    torch.testing.assert_close(comparison(embeddings).scores, before)


def test_a_prototype_of_zeros_stays_finite() -> None:
    comparison = comparison_of(torch.zeros(1, 3, 1, 1))
    comparison.after_step()
    assert not comparison.prototypes.any()


def test_patches_become_prototypes_as_they_are() -> None:
    patches = 7 * torch.rand(2, 3, 1, 1)
    assert torch.equal(comparison_of(torch.rand(2, 3, 1, 1)).as_prototypes(patches), patches)


# What cluster and separation pull on -------------------------------------------------------------------------------


def nearest_angles(embeddings: Array, prototypes: Array) -> Array:
    """The smallest minus cosine of any cell, in loops."""
    batch, _, rows, cols = embeddings.shape
    result = np.full((batch, len(prototypes)), np.inf)
    for n, j, y, x in np.ndindex(batch, len(prototypes), rows, cols):
        cell, prototype = embeddings[n, :, y, x], prototypes[j, :, 0, 0]
        cosine = cell @ prototype / math.sqrt((cell @ cell) * (prototype @ prototype))
        result[n, j] = min(result[n, j], -cosine)
    return result


@given(st.integers(0, 10_000), st.floats(0.1, 10.0))
def test_losses_pull_on_cosines_whatever_the_length_of_patches(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    embeddings, prototypes = rng.normal(size=(3, 4, 2, 3)), rng.normal(size=(4, 4, 1, 1))
    labels = [0, 1, 1]
    expected = nearest_angles(embeddings, prototypes)
    own = np.array([[True, True, False, False], [False, False, True, True], [False, False, True, True]])
    step = step_of([torch.from_numpy(embeddings) * factor], [torch.from_numpy(prototypes)], labels, classes=2)
    np.testing.assert_allclose(step.distances.detach().numpy(), expected, rtol=1e-10)
    near = np.where(own, expected, np.inf).min(axis=1).mean()
    far = np.where(~own, expected, np.inf).min(axis=1).mean()
    assert cluster(step).item() == pytest.approx(near)
    assert separation(step).item() == pytest.approx(-far)


def test_the_cell_of_the_smallest_angle_need_not_be_the_cell_that_scores() -> None:
    # A short patch along the prototype and a long one beside it.
    embeddings = torch.tensor([[1.0, 0.0], [3.0, 3.0]]).T.reshape(1, 2, 1, 2)
    step = step_of([embeddings], [torch.tensor([[1.0, 0.0], [0.0, 1.0]]).reshape(2, 2, 1, 1)], [0], classes=2)
    assert step.required_matches.scores[0].tolist() == [3.0, 3.0]
    assert step.required_matches.cells[0, 0].tolist() == [0, 1]
    assert step.distances[0].tolist() == pytest.approx([-1.0, -math.sqrt(0.5)])


def test_cluster_does_not_saturate_where_patch_and_prototype_are_opposite() -> None:
    prototypes = torch.tensor([[-1.0, -0.9], [1.0, 0.0]]).double().reshape(2, 2, 1, 1)
    embeddings = torch.tensor([0.9, 1.0]).double().reshape(1, 2, 1, 1)

    def loss(vectors: Tensor) -> Tensor:
        comparison = comparison_of(vectors.detach())
        maps = Projection().maps(embeddings, vectors)
        grid = comparison(embeddings)
        return comparison.loss_distances(embeddings, type(grid)(grid.scores, grid.distances, grid.cells, maps))[0, 0]

    result = gradient(loss, prototypes)
    assert result[0].abs().max() > 1e-3
    torch.testing.assert_close(result, slope(loss, prototypes), rtol=1e-5, atol=1e-8)


def test_gradients_of_the_angles_agree_with_finite_differences() -> None:
    torch.manual_seed(1)
    prototypes, weights = torch.randn(4, 3, 1, 1).double(), torch.randn(2, 4).double()
    comparison = comparison_of(prototypes)

    def loss(cells: Tensor) -> Tensor:
        return (comparison.loss_distances(cells, comparison(cells)) * weights).sum()

    cells = torch.rand(2, 3, 2, 2).double() + 0.1
    torch.testing.assert_close(gradient(loss, cells), slope(loss, cells), rtol=1e-6, atol=1e-8)


# Subspaces --------------------------------------------------------------------------------------------------------


def orth(bases: Array) -> float:
    """As FAMILY writes it, in loops: the entrywise L1 norm of P P' - I, over classes."""
    total = 0.0
    for basis in bases:
        for a in range(len(basis)):
            for b in range(len(basis)):
                total += abs(float(basis[a] @ basis[b]) - (a == b))
    return total


def subsep(bases: Array) -> float:
    """As published: half the sum over all ordered pairs of classes, over the root of 2, with 1e-10 in each entry."""
    total = 0.0
    for one in bases:
        for other in bases:
            difference = one.T @ one - other.T @ other + 1e-10
            total += math.sqrt((difference**2).sum())
    return total / 2 / math.sqrt(2)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 4), st.integers(1, 6))
def test_the_losses_of_subspaces_are_those_of_loops_over_classes(
    seed: int, classes: int, protos: int, dim: int
) -> None:
    bases = np.random.default_rng(seed).normal(size=(classes, protos, dim))
    assert float(orthonormality_loss(torch.from_numpy(bases))) == pytest.approx(orth(bases))
    assert float(subspace_separation_loss(torch.from_numpy(bases))) == pytest.approx(-subsep(bases), abs=1e-7)


def test_their_gradients_agree_with_finite_differences() -> None:
    torch.manual_seed(2)
    bases = torch.randn(3, 2, 4).double()
    for loss in (orthonormality_loss, subspace_separation_loss):
        torch.testing.assert_close(gradient(loss, bases), slope(loss, bases), rtol=1e-6, atol=1e-7)


@given(st.integers(0, 10_000))
def test_subspaces_are_compared_whatever_basis_spans_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans = [np.linalg.qr(rng.normal(size=(6, 3)))[0].T for _ in range(3)]
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(3)]
    bases = torch.from_numpy(np.stack(spans))
    turned = torch.from_numpy(np.stack([turn @ span for turn, span in zip(turns, spans, strict=True)]))
    torch.testing.assert_close(subspace_separation_loss(turned), subspace_separation_loss(bases))
    # Orthonormal bases have nothing to pay; and two subspaces at right angles are as far apart as any, the root of 3.
    assert float(orthonormality_loss(bases)) < 1e-12
    apart = torch.eye(6, dtype=torch.float64).reshape(2, 3, 6)
    assert float(subspace_separation_loss(apart)) == pytest.approx(-math.sqrt(3))


def test_subspaces_that_are_the_same_have_finite_gradients() -> None:
    bases = torch.eye(3).repeat(4, 1, 1)
    assert float(subspace_separation_loss(bases)) == pytest.approx(0.0, abs=1e-3)
    assert gradient(subspace_separation_loss, bases).isfinite().all()


def test_several_grids_have_subspaces_of_their_own() -> None:
    torch.manual_seed(3)
    prototypes, cells = [torch.rand(6, 4, 1, 1), torch.rand(3, 4, 1, 1)], [torch.rand(1, 4, 2, 2)] * 2
    step = step_of(cells, prototypes, [0], classes=3)
    bases = [prototype.reshape(3, -1, 4).numpy().astype(np.float64) for prototype in prototypes]
    assert orthonormality(step).item() == pytest.approx(sum(map(orth, bases)), rel=1e-5)
    assert subspace_separation(step).item() == pytest.approx(-sum(map(subsep, bases)), rel=1e-5)


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numbers = max(self.numbers, result.numel())
        return result


def test_no_tensor_of_all_pairs_of_matrices_is_made_for_200_classes() -> None:
    bases = torch.nn.functional.normalize(torch.rand(200, 10, 64), dim=-1).requires_grad_()
    with Largest() as largest:
        (orthonormality_loss(bases) + subspace_separation_loss(bases)).backward()
    assert largest.numbers <= 200 * 64 * 64
    assert bases.grad is not None
    assert bases.grad.isfinite().all()

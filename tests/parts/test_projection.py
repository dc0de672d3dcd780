"""TesNet's measure: the projection of a patch onto the direction of a prototype."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.parts import Nearest, Negated, Projection, UnitPrototypes
from tests.parts.numerics import Array, gradient, slope


def projected(embeddings: Array, prototypes: Array) -> Array:
    """Minus z_u . p / |p| for every window u, in loops."""
    batch, _, rows, cols = embeddings.shape
    protos, _, height, width = prototypes.shape
    result = np.zeros((batch, protos, rows - height + 1, cols - width + 1))
    for n, j, y, x in np.ndindex(*result.shape):
        window = embeddings[n, :, y : y + height, x : x + width]
        result[n, j, y, x] = -(window * prototypes[j]).sum() / math.sqrt((prototypes[j] ** 2).sum())
    return result


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([(1, 1), (2, 1)]))
def test_the_measure_is_minus_the_projection_onto_the_direction(seed: int, dim: int, kernel: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    embeddings, prototypes = rng.normal(size=(2, dim, 3, 4)), rng.normal(size=(3, dim, *kernel))
    result = Projection().maps(torch.from_numpy(embeddings), torch.from_numpy(prototypes))
    np.testing.assert_allclose(result.numpy(), projected(embeddings, prototypes), rtol=1e-10, atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0.01, 100.0))
def test_the_length_of_a_patch_counts_and_that_of_a_prototype_does_not(seed: int, factor: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(2, 4, 3, 3, generator=generator, dtype=torch.float64)
    prototypes = torch.randn(3, 4, 1, 1, generator=generator, dtype=torch.float64)
    maps = Projection().maps(embeddings, prototypes)
    torch.testing.assert_close(Projection().maps(embeddings, factor * prototypes), maps)
    torch.testing.assert_close(Projection().maps(factor * embeddings, prototypes), factor * maps)
    comparable = Projection().comparable
    torch.testing.assert_close(comparable(factor * prototypes.flatten(1)), comparable(prototypes.flatten(1)))


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_no_sigmoid_embedding_leaves_the_range(seed: int, dim: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.rand(1, dim, 4, 4, generator=generator).round()  # corners of the cube are the extremes
    prototypes = torch.cat([torch.randn(4, dim, 1, 1, generator=generator), torch.ones(1, dim, 1, 1)])
    low, high = Projection().range(dim)
    maps = Projection().maps(embeddings, torch.cat([prototypes, -prototypes]))
    assert maps.min() >= low - 1e-4
    assert maps.max() <= high + 1e-4
    ones = Projection().maps(torch.ones(1, dim, 1, 1), torch.cat([torch.ones(1, dim, 1, 1), -torch.ones(1, dim, 1, 1)]))
    assert ones.flatten().tolist() == pytest.approx([low, high])


@given(st.integers(0, 10_000))
def test_rounding_stays_within_the_tolerance(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.rand(2, 64, 3, 3, generator=generator)
    comparison = UnitPrototypes(torch.randn(5, 64, 1, 1, generator=generator), Projection(), Negated(), Nearest())
    maps = comparison.distance_maps(embeddings)
    exact = Projection().maps(embeddings.double(), comparison.prototypes.double())
    assert (maps - exact).abs().max() <= comparison.tolerance()


def test_a_score_is_the_largest_projection_and_may_be_negative() -> None:
    cells = torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.5, 2.0]]).T.reshape(1, 2, 1, 3)
    prototypes = torch.tensor([[2.0, 0.0], [0.0, 5.0], [0.0, -1.0]]).reshape(3, 2, 1, 1)
    matches = UnitPrototypes(prototypes, Projection(), Negated(), Nearest())(cells)
    assert matches.scores.tolist() == [[3.0, 2.0, 0.0]]
    assert matches.cells.tolist() == [[0, 2, 0]]
    behind = UnitPrototypes(torch.tensor([-1.0, -1.0]).reshape(1, 2, 1, 1), Projection(), Negated(), Nearest())(cells)
    assert behind.scores.item() == pytest.approx(-math.sqrt(2))


def test_bounds_are_those_of_the_similarity() -> None:
    comparison = UnitPrototypes(torch.rand(3, 16, 1, 1), Projection(), Negated(), Nearest())
    assert comparison.bounds() == (-4.0, 4.0)


def test_gradients_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    embeddings, prototypes = torch.randn(2, 3, 2, 2).double(), torch.randn(2, 3, 1, 1).double()
    weights = torch.randn(2, 2, 2, 2).double()

    def of_embeddings(cells: torch.Tensor) -> torch.Tensor:
        return (Projection().maps(cells, prototypes) * weights).sum()

    def of_prototypes(vectors: torch.Tensor) -> torch.Tensor:
        return (Projection().maps(embeddings, vectors) * weights).sum()

    torch.testing.assert_close(
        gradient(of_embeddings, embeddings), slope(of_embeddings, embeddings), rtol=1e-6, atol=1e-8
    )
    torch.testing.assert_close(
        gradient(of_prototypes, prototypes), slope(of_prototypes, prototypes), rtol=1e-6, atol=1e-8
    )


@given(st.integers(0, 10_000))
def test_shares_are_the_positive_parts_of_the_scalar_product(seed: int) -> None:
    rng = np.random.default_rng(seed)
    patches, prototypes = rng.normal(size=(3, 5, 1, 1)), rng.normal(size=(3, 5, 1, 1))
    result = Projection().shares(torch.from_numpy(patches), torch.from_numpy(prototypes), Negated())
    products = np.maximum(patches * prototypes, 0)
    sums = products.sum(axis=1, keepdims=True)
    expected = np.where(sums > 0, products / np.where(sums > 0, sums, 1), 1 / 5)
    np.testing.assert_allclose(result.numpy(), expected)
    np.testing.assert_allclose(result.sum(dim=1).numpy(), np.ones((3, 1, 1)))


def test_a_prototype_of_zeros_is_at_right_angles_to_everything() -> None:
    prototypes = torch.zeros(1, 3, 1, 1, requires_grad=True)
    maps = Projection().maps(torch.rand(1, 3, 2, 2), prototypes)
    assert not maps.any()
    (result,) = torch.autograd.grad(maps.sum(), prototypes)
    assert result.isfinite().all()

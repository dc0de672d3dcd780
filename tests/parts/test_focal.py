"""Focal pooling: the nearest cell against the mean of all."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.parts import Comparison, Distinct, Focal, Nearest, Original, SquaredL2
from pixpnet.parts.matches import matches_of
from tests.parts.numerics import Array, gradient, matched, slope

EPSILON = 1e-4


def log1(distance: float) -> float:
    return math.log((distance + 1) / (distance + EPSILON))


def focal_scores(embeddings: Array, prototypes: Array) -> Array:
    """log1(min) - log1(mean) of squared distances, in loops."""
    result = np.zeros((len(embeddings), len(prototypes)))
    for n, j in np.ndindex(*result.shape):
        cells = embeddings[n].reshape(embeddings.shape[1], -1).T
        distances = [float(((cell - prototypes[j, :, 0, 0]) ** 2).sum()) for cell in cells]
        result[n, j] = log1(min(distances)) - log1(sum(distances) / len(distances))
    return result


def pool(prototypes: torch.Tensor) -> Comparison:
    return Comparison(prototypes, SquaredL2(), Original(EPSILON), Focal())


@given(st.integers(0, 10_000))
def test_a_score_is_the_similarity_of_the_nearest_cell_minus_that_of_the_mean_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    embeddings, prototypes = rng.random((2, 3, 3, 2)), rng.random((4, 3, 1, 1))
    matches = matched(pool(torch.from_numpy(prototypes)), torch.from_numpy(embeddings))
    np.testing.assert_allclose(matches.scores.detach().numpy(), focal_scores(embeddings, prototypes), rtol=1e-8)
    assert matches.background is not None
    torch.testing.assert_close(matches.background, matches.distance_maps.mean(dim=(-2, -1)))
    assert torch.equal(matches.distances, matches.distance_maps.amin(dim=(-2, -1)))


@given(st.integers(0, 10_000), st.floats(0.0, 1.0))
def test_no_score_is_negative_and_an_image_of_one_color_scores_nothing(seed: int, color: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    comparison = pool(torch.rand(4, 3, 1, 1, generator=generator).double())
    assert (comparison(torch.rand(2, 3, 3, 3, generator=generator).double()).scores >= -1e-12).all()
    plain = comparison(torch.full((1, 3, 3, 3), color, dtype=torch.float64)).scores
    torch.testing.assert_close(plain, torch.zeros(1, 4, dtype=torch.float64), rtol=0.0, atol=1e-9)


def test_gradients_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    comparison, weights = pool(torch.rand(3, 2, 1, 1).double()), torch.randn(2, 3).double()

    def loss(cells: torch.Tensor) -> torch.Tensor:
        return (comparison(cells).scores * weights).sum()

    cells = torch.rand(2, 2, 2, 2).double()
    torch.testing.assert_close(gradient(loss, cells), slope(loss, cells), rtol=1e-5, atol=1e-6)


def test_it_says_that_more_than_the_cell_counts() -> None:
    assert Focal.beside_the_cell is not None
    assert not Focal.independent


def test_other_poolings_have_no_background() -> None:
    for pooling in (Nearest(), Distinct(2)):
        comparison = Comparison(torch.rand(2, 3, 1, 1), SquaredL2(), Original(EPSILON), pooling)
        assert matched(comparison, torch.rand(1, 3, 2, 2)).background is None


def test_each_grid_has_the_background_of_its_own_cells() -> None:
    first, second = pool(torch.rand(2, 3, 1, 1)), pool(torch.rand(1, 3, 1, 1))
    grids = first(torch.rand(2, 3, 4, 4)), second(torch.rand(2, 3, 2, 2))
    matches = matches_of(grids)
    assert matches.background is not None
    assert torch.equal(matches.background[:, 2], grids[1].distance_maps[:, 0].mean(dim=(-2, -1)))
    assert matches.background.shape == matches.distances.shape

"""Similarities against arithmetic with 50 digits, and the pooling of their maps."""

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.model import PrototypeLayer
from pixpnet.model.similarities import SIMILARITIES
from pixpnet.recipe import Architecture

EPSILONS = st.sampled_from([1e-6, 1e-4, 1e-2])
DISTANCES = st.floats(0, 1000) | st.floats(0, 1) | st.floats(0, 1e-4)
FORMS = pytest.mark.parametrize("form", ["reformulated", "original"])


def exact(form: str, distance: float, epsilon: float) -> float:
    with mpmath.workdps(50):
        d, eps = mpmath.mpf(distance), mpmath.mpf(epsilon)
        return float(mpmath.log(1 / (d + eps) + 1) if form == "reformulated" else mpmath.log((d + 1) / (d + eps)))


@FORMS
@given(DISTANCES, EPSILONS)
def test_a_similarity_in_float64_agrees_with_50_digits(form: str, distance: float, epsilon: float) -> None:
    found = SIMILARITIES[form](torch.tensor([distance], dtype=torch.float64), epsilon).item()
    assert found == pytest.approx(exact(form, distance, epsilon), rel=2e-15, abs=4e-16)


@FORMS
@given(st.floats(0, 1000, width=32) | st.floats(0, 0.0009765625, width=32), EPSILONS)
def test_a_similarity_in_float32_agrees_with_50_digits(form: str, distance: float, epsilon: float) -> None:
    found = SIMILARITIES[form](torch.tensor([distance]), epsilon)
    assert found.dtype == torch.float32
    # d + eps is rounded to a relative 6e-8 before the logarithm, which makes that absolute.
    assert found.item() == pytest.approx(exact(form, distance, epsilon), rel=2e-7, abs=2e-7)


def test_the_reformulated_similarity_keeps_its_digits_far_away() -> None:
    # There it is nearly 1 / (d + eps): as a logarithm of a number near 1 it would have lost them all.
    far = torch.tensor([1e6], dtype=torch.float32)
    assert SIMILARITIES["reformulated"](far, 1e-6).item() == pytest.approx(exact("reformulated", 1e6, 1e-6), rel=3e-7)


def test_the_two_forms_differ_only_by_epsilon() -> None:
    # log(1 / (d + eps) + 1) = log((d + 1 + eps) / (d + eps))
    distances = torch.linspace(0, 10, 50, dtype=torch.float64)
    gap = SIMILARITIES["reformulated"](distances, 1e-3) - SIMILARITIES["original"](distances, 1e-3)
    torch.testing.assert_close(gap, torch.log1p(1e-3 / (distances + 1)), rtol=1e-9, atol=1e-14)


@FORMS
@given(DISTANCES, DISTANCES, EPSILONS)
def test_a_similarity_falls_with_the_distance(form: str, one: float, other: float, epsilon: float) -> None:
    near, far = sorted((one, other))
    similar = SIMILARITIES[form](torch.tensor([near, far], dtype=torch.float64), epsilon).tolist()
    assert similar[0] >= similar[1]
    if far - near > 1e-6 * far + 1e-9:
        assert similar[0] > similar[1]


@FORMS
@pytest.mark.parametrize(("epsilon", "largest"), [(1e-6, 13.8155), (1e-4, 9.2103)])
def test_a_similarity_is_finite_at_0_and_has_a_finite_slope_there(form: str, epsilon: float, largest: float) -> None:
    zero = torch.zeros(1, requires_grad=True)
    value = SIMILARITIES[form](zero, epsilon)
    value.backward()
    assert value.item() == pytest.approx(largest, abs=2e-4)  # log(1 / eps)
    assert zero.grad is not None
    assert zero.grad.item() == pytest.approx(-1 / epsilon, rel=1e-3)


def random_layer(seed: int, **how: object) -> tuple[PrototypeLayer, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    layer = PrototypeLayer(5, Architecture(dim=4, **how))  # type: ignore[arg-type]
    layer.prototypes.data = torch.rand(layer.prototypes.shape, generator=generator)
    return layer, torch.rand(3, 4, 6, 7, generator=generator)


@given(
    st.integers(0, 999),
    st.sampled_from(["cosine", "squared_l2"]),
    st.sampled_from(["reformulated", "original"]),
    st.sampled_from([(1, 1), (2, 3), (6, 1)]),
)
def test_a_score_is_the_largest_similarity_of_the_map_and_best_cells_point_at_it(
    seed: int, distance: str, similarity: str, kernel: tuple[int, int]
) -> None:
    layer, embeddings = random_layer(
        seed, distance=distance, similarity=similarity, prototype_rows=kernel[0], prototype_cols=kernel[1]
    )
    matches = layer(embeddings)
    maps = matches.similarity_maps
    assert maps.shape == (3, 5, 6 - kernel[0] + 1, 7 - kernel[1] + 1)
    assert torch.equal(matches.scores, maps.amax(dim=(-2, -1)))
    assert matches.best_cells.shape == (3, 5, 2)
    for image in range(3):
        for prototype in range(5):
            row, col = matches.best_cells[image, prototype].tolist()
            assert maps[image, prototype, row, col] == matches.scores[image, prototype]
            assert matches.distance_maps[image, prototype, row, col] == matches.distances[image, prototype]


def test_best_cells_name_the_top_left_cell_of_a_planted_patch() -> None:
    layer, embeddings = random_layer(3, prototype_rows=2, prototype_cols=3)
    layer.prototypes.data[4] = embeddings[2, :, 3:5, 4:7]
    assert layer(embeddings).best_cells[2, 4].tolist() == [3, 4]


def test_prototypes_begin_uniform_between_0_and_1() -> None:
    torch.manual_seed(0)
    prototypes = PrototypeLayer(200, Architecture(dim=192)).prototypes
    assert prototypes.shape == (200, 192, 1, 1)
    assert prototypes.requires_grad
    assert prototypes.min() >= 0
    assert prototypes.max() < 1
    # 38,400 draws: the mean has a standard error of 0.0015, the variance one of 0.0004.
    assert prototypes.mean().item() == pytest.approx(0.5, abs=0.008)
    assert prototypes.var().item() == pytest.approx(1 / 12, abs=0.002)

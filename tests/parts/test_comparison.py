"""Similarities against arithmetic with 50 digits, and the pooling of their maps."""

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.members.pixpnet import Architecture, parts
from pixpnet.parts import Comparison
from tests.parts.comparing import comparison_of, similarity_of

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
    result = similarity_of(form, epsilon)(torch.tensor([distance], dtype=torch.float64)).item()
    assert result == pytest.approx(exact(form, distance, epsilon), rel=2e-15, abs=4e-16)


@FORMS
@given(st.floats(0, 1000, width=32) | st.floats(0, 0.0009765625, width=32), EPSILONS)
def test_a_similarity_in_float32_agrees_with_50_digits(form: str, distance: float, epsilon: float) -> None:
    result = similarity_of(form, epsilon)(torch.tensor([distance]))
    assert result.dtype == torch.float32
    # d + eps is rounded to a relative 6e-8 before the logarithm, which makes that absolute.
    assert result.item() == pytest.approx(exact(form, distance, epsilon), rel=2e-7, abs=2e-7)


def test_the_reformulated_similarity_keeps_its_digits_far_away() -> None:
    # There it is nearly 1 / (d + eps): as a logarithm of a number near 1 it would have lost them all.
    far = torch.tensor([1e6], dtype=torch.float32)
    assert similarity_of("reformulated", 1e-6)(far).item() == pytest.approx(exact("reformulated", 1e6, 1e-6), rel=3e-7)


def test_the_two_forms_differ_only_by_epsilon() -> None:
    # log(1 / (d + eps) + 1) = log((d + 1 + eps) / (d + eps))
    distances = torch.linspace(0, 10, 50, dtype=torch.float64)
    gap = similarity_of("reformulated", 1e-3)(distances) - similarity_of("original", 1e-3)(distances)
    torch.testing.assert_close(gap, torch.log1p(1e-3 / (distances + 1)), rtol=1e-9, atol=1e-14)


@FORMS
@given(DISTANCES, DISTANCES, EPSILONS)
def test_a_similarity_falls_with_the_distance(form: str, one: float, other: float, epsilon: float) -> None:
    near, far = sorted((one, other))
    similar = similarity_of(form, epsilon)(torch.tensor([near, far], dtype=torch.float64)).tolist()
    assert similar[0] >= similar[1]
    if far - near > 1e-6 * far + 1e-9:
        assert similar[0] > similar[1]


@FORMS
@pytest.mark.parametrize(("epsilon", "largest"), [(1e-6, 13.8155), (1e-4, 9.2103)])
def test_a_similarity_is_finite_at_0_and_has_a_finite_slope_there(form: str, epsilon: float, largest: float) -> None:
    zero = torch.zeros(1, requires_grad=True)
    value = similarity_of(form, epsilon)(zero)
    value.backward()
    assert value.item() == pytest.approx(largest, abs=2e-4)  # log(1 / eps)
    assert zero.grad is not None
    assert zero.grad.item() == pytest.approx(-1 / epsilon, rel=1e-3)


def random_layer(
    seed: int, kernel: tuple[int, int] = (1, 1), measure: str = "cosine", similarity: str = "reformulated"
) -> tuple[Comparison, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    layer = comparison_of(torch.rand(5, 4, *kernel, generator=generator), measure, similarity)
    return layer, torch.rand(3, 4, 6, 7, generator=generator)


@given(
    st.integers(0, 999),
    st.sampled_from(["cosine", "squared_l2"]),
    st.sampled_from(["reformulated", "original"]),
    st.sampled_from([(1, 1), (2, 3), (6, 1)]),
)
def test_a_score_is_the_largest_similarity_of_the_map_and_cells_point_at_it(
    seed: int, distance: str, similarity: str, kernel: tuple[int, int]
) -> None:
    layer, embeddings = random_layer(seed, kernel, distance, similarity)
    matches = layer(embeddings)
    maps = layer.similarity(matches.distance_maps)
    assert maps.shape == (3, 5, 6 - kernel[0] + 1, 7 - kernel[1] + 1)
    assert torch.equal(matches.scores, maps.amax(dim=(-2, -1)))
    assert matches.cells.shape == (3, 5)
    for image in range(3):
        for prototype in range(5):
            row, col = divmod(int(matches.cells[image, prototype]), maps.shape[-1])
            assert maps[image, prototype, row, col] == matches.scores[image, prototype]
            assert matches.distance_maps[image, prototype, row, col] == matches.distances[image, prototype]


def test_cells_name_the_top_left_cell_of_a_planted_patch() -> None:
    layer, embeddings = random_layer(3, (2, 3))
    layer.prototypes.data[4] = embeddings[2, :, 3:5, 4:7]
    result = layer(embeddings)
    assert divmod(int(result.cells[2, 4]), result.distance_maps.shape[-1]) == (3, 4)


def test_prototypes_begin_uniform_between_0_and_1() -> None:
    torch.manual_seed(0)
    (comparison,) = parts(Architecture(dim=192), (8,), num_classes=20).comparisons
    prototypes = comparison.prototypes
    assert prototypes.shape == (200, 192, 1, 1)
    assert prototypes.requires_grad
    assert prototypes.min() >= 0
    assert prototypes.max() < 1
    # 38,400 draws: the mean has a standard error of 0.0015, the variance one of 0.0004.
    assert prototypes.mean().item() == pytest.approx(0.5, abs=0.008)
    assert prototypes.var().item() == pytest.approx(1 / 12, abs=0.002)


@given(st.integers(0, 999), st.sampled_from(["cosine", "squared_l2"]), st.sampled_from([(1, 1), (2, 2)]))
def test_similarities_stay_within_the_stated_bounds(seed: int, measure: str, kernel: tuple[int, int]) -> None:
    layer, embeddings = random_layer(seed, kernel, measure)
    low, high = layer.bounds()
    similar = layer.similarity(layer.distance_maps(embeddings).detach().double())
    assert low - 1e-6 <= float(similar.min())
    assert float(similar.max()) <= high + 1e-6


@given(st.integers(0, 999), st.sampled_from(["cosine", "squared_l2"]))
def test_shares_of_channels_are_not_negative_and_sum_to_1(seed: int, measure: str) -> None:
    layer, embeddings = random_layer(seed, measure=measure)
    shares = layer.shares(embeddings[:1, :, :1, :1].expand(5, -1, -1, -1), layer.prototypes.detach())
    assert shares.min() >= 0
    torch.testing.assert_close(shares.sum(dim=(1, 2, 3)), torch.ones(5))

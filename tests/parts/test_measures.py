"""Measures against plain loops in double precision over unfolded patches."""

from collections.abc import Callable
from math import sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pixpnet.parts import Comparison, Cosine, SquaredL2
from tests.parts.comparing import MEASURES, comparison_of

# (batch, dim, rows, cols), (protos, kernel_rows, kernel_cols)
SHAPES = [
    ((2, 5, 4, 3), (3, 1, 1)),
    ((1, 1, 1, 1), (1, 1, 1)),
    ((2, 4, 5, 6), (3, 2, 3)),
    ((1, 3, 4, 4), (2, 4, 1)),
    ((2, 2, 3, 3), (5, 3, 3)),
]
BOTH = pytest.mark.parametrize("name", ["cosine", "squared_l2"])


def cosine(a: list[float], b: list[float]) -> float:
    length = sqrt(sum(x * x for x in a)) * sqrt(sum(x * x for x in b))
    return 1 - sum(x * y for x, y in zip(a, b, strict=True)) / length


def squared_l2(a: list[float], b: list[float]) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


PLAIN: dict[str, Callable[[list[float], list[float]], float]] = {"cosine": cosine, "squared_l2": squared_l2}


def looped(name: str, embeddings: Tensor, prototypes: Tensor) -> Tensor:
    """Every patch with every prototype, one pair at a time."""
    kernel = prototypes.shape[-2:]
    down, across = (cells - extent + 1 for cells, extent in zip(embeddings.shape[-2:], kernel, strict=True))
    patches = torch.nn.functional.unfold(embeddings.double(), tuple(kernel)).transpose(1, 2).tolist()
    vectors = prototypes.double().flatten(1).tolist()
    rows = [[[PLAIN[name](patch, vector) for patch in image] for vector in vectors] for image in patches]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(embeddings), len(vectors), down, across)


def drawn(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@BOTH
@pytest.mark.parametrize(("cells", "kernel"), SHAPES)
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.float64, 1e-14)])
def test_distances_are_those_of_a_loop_over_patches_and_prototypes(
    name: str, cells: tuple[int, ...], kernel: tuple[int, ...], dtype: torch.dtype, error: float
) -> None:
    embeddings = drawn(cells, 0, dtype)
    prototypes = drawn((kernel[0], cells[1], *kernel[1:]), 1, dtype)
    expected = looped(name, embeddings, prototypes)
    result = MEASURES[name].maps(embeddings, prototypes)
    assert result.dtype == dtype
    assert result.shape == expected.shape
    torch.testing.assert_close(result.double(), expected, rtol=error, atol=error)


def test_distances_of_a_hand_computed_pair() -> None:
    one = torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1)
    two = torch.tensor([4.0, 3.0]).reshape(1, 2, 1, 1)
    assert Cosine().maps(one, two).item() == pytest.approx(1 - 24 / 25, abs=1e-7)
    assert SquaredL2().maps(one, two).item() == pytest.approx(2, abs=1e-6)


@BOTH
@pytest.mark.parametrize(("cells", "kernel"), [((2, 192, 5, 4), (1, 1)), ((2, 64, 5, 4), (2, 3))])
@given(data=st.data())
def test_a_prototype_that_is_a_patch_has_distance_0_there_up_to_rounding(
    name: str, cells: tuple[int, ...], kernel: tuple[int, int], data: st.DataObject
) -> None:
    embeddings = drawn(cells, data.draw(st.integers(0, 999)))
    row = data.draw(st.integers(0, cells[2] - kernel[0]))
    col = data.draw(st.integers(0, cells[3] - kernel[1]))
    others = drawn((3, cells[1], *kernel), 7)
    patch = embeddings[1:, :, row : row + kernel[0], col : col + kernel[1]]
    maps = MEASURES[name].maps(embeddings, torch.cat([others, patch]))
    # Rounding in float32: cosines are off by a few steps of 6e-8, squared L2 by as many steps of its sums of squares.
    tolerance = 1e-6 if name == "cosine" else 2e-7 * patch.numel()
    assert 0 <= maps[1, 3, row, col] <= tolerance
    assert maps[1, 3].argmin() == row * maps.shape[-1] + col


@given(
    st.integers(0, 999),
    st.floats(1e-2, 1e4),
    st.floats(1e-2, 1e4),
    st.sampled_from([((1, 6, 3, 3), (2, 1, 1)), ((1, 3, 3, 4), (2, 2, 2))]),
)
def test_cosine_does_not_depend_on_the_lengths_of_either_side(
    seed: int, one: float, other: float, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    cells, (protos, *kernel) = shapes
    embeddings, prototypes = drawn(cells, seed) - 0.5, drawn((protos, cells[1], *kernel), seed + 1) - 0.5
    torch.testing.assert_close(
        Cosine().maps(embeddings * one, prototypes * other),
        Cosine().maps(embeddings, prototypes),
        rtol=0,
        atol=1e-6,
    )


@BOTH
@given(st.integers(0, 999), st.sampled_from([(1, 1), (2, 2)]))
def test_distances_are_symmetric_and_never_negative(name: str, seed: int, kernel: tuple[int, int]) -> None:
    a, b = (drawn((1, 4, *kernel), seed + k) - 0.5 for k in range(2))
    there, back = MEASURES[name].maps(a, b), MEASURES[name].maps(b, a)
    assert there.item() == pytest.approx(back.item(), abs=1e-6)
    assert MEASURES[name].maps(a, a).item() >= 0
    assert there.item() >= 0


def test_opposite_directions_have_cosine_distance_2_and_orthogonal_ones_1() -> None:
    one = torch.tensor([[1.0, 2.0]]).reshape(1, 2, 1, 1)
    many = torch.tensor([[-2.0, -4.0], [2.0, -1.0]]).reshape(2, 2, 1, 1)
    assert Cosine().maps(one, many).flatten().tolist() == pytest.approx([2, 1], abs=1e-6)


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2)])
def test_a_vector_of_zeros_has_cosine_distance_1_to_anything(kernel: tuple[int, int]) -> None:
    embeddings = torch.stack([torch.zeros(3, 2, 2), torch.ones(3, 2, 2)])
    prototypes = torch.stack([torch.zeros(3, *kernel), torch.ones(3, *kernel)])
    maps = Cosine().maps(embeddings, prototypes)
    assert (maps[0] == 1).all()
    assert (maps[1, 0] == 1).all()
    assert (maps[1, 1] <= 1e-6).all()


@pytest.mark.parametrize("kernel", [(1, 1), (2, 3)])
@pytest.mark.parametrize("offset", [30.0, 300.0])
def test_squared_l2_near_0_survives_a_large_common_offset(kernel: tuple[int, int], offset: float) -> None:
    # Multiples of 2^-10 below 0.01: the offset leaves them exact in float32, and squares of numbers near the
    # offset (up to 1e5, rounded in steps of 2^-7) would swamp distances of 1e-4.
    def steps(shape: tuple[int, ...], seed: int) -> Tensor:
        return torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(seed)) / 1024 + offset

    embeddings, prototypes = steps((1, 8, 4, 5), 0), steps((6, 8, *kernel), 1)
    expected = looped("squared_l2", embeddings, prototypes)
    assert 0 < expected.max() < 0.005
    result = SquaredL2().maps(embeddings, prototypes).double()
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-6)


@BOTH
@pytest.mark.parametrize("kernel", [(1, 1), (2, 2)])
@pytest.mark.parametrize("case", ["same", "zero embeddings", "zero prototypes", "both zero"])
def test_gradients_are_finite_at_distance_0_and_for_vectors_of_zeros(
    name: str, kernel: tuple[int, int], case: str
) -> None:
    embeddings = drawn((1, 4, *kernel), 0)
    prototypes = embeddings.clone()
    if case in ("zero embeddings", "both zero"):
        embeddings = torch.zeros_like(embeddings)
    if case in ("zero prototypes", "both zero"):
        prototypes = torch.zeros_like(prototypes)
    layer = comparison_of(prototypes, name)
    embeddings.requires_grad_()
    layer(embeddings).scores.sum().backward()
    assert embeddings.grad is not None
    assert layer.prototypes.grad is not None
    assert embeddings.grad.isfinite().all()
    assert layer.prototypes.grad.isfinite().all()


@BOTH
@pytest.mark.parametrize("kernel", [(1, 1), (2, 2)])
def test_gradients_are_those_of_finite_differences(name: str, kernel: tuple[int, int]) -> None:
    embeddings = drawn((2, 3, 3, 3), 0, torch.float64).requires_grad_()
    # Squared L2 moves its origin to the mean of the prototypes, which must not show in the gradient.
    prototypes = drawn((2, 3, *kernel), 1, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(MEASURES[name].maps, (embeddings, prototypes))


def layer_with(name: str, prototypes: Tensor) -> Comparison:
    return comparison_of(prototypes, name, epsilon=1e-4)


@BOTH
@pytest.mark.parametrize("kernel", [(1, 1), (2, 2)])
def test_autocast_does_not_touch_the_comparison(name: str, kernel: tuple[int, int]) -> None:
    embeddings, prototypes = drawn((2, 32, 4, 4), 0), drawn((3, 32, *kernel), 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (embeddings[0, :, 0] @ embeddings[0, :, 0].T).dtype == torch.bfloat16  # it is on
        matches = layer_with(name, prototypes)(embeddings)
    assert matches.distance_maps.dtype == matches.scores.dtype == torch.float32
    # bfloat16 would be wrong by 1e-2.
    torch.testing.assert_close(
        matches.distance_maps.double(), looped(name, embeddings, prototypes), rtol=2e-6, atol=2e-6
    )


@BOTH
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_embeddings_are_compared_in_float32(name: str, half: torch.dtype) -> None:
    embeddings, prototypes = drawn((2, 32, 4, 4), 0).to(half), drawn((3, 32, 1, 1), 1)
    matches = layer_with(name, prototypes)(embeddings)
    assert matches.distance_maps.dtype == matches.distances.dtype == matches.scores.dtype == torch.float32
    # Against the very numbers that came in: only they are rounded, not what is made of them.
    torch.testing.assert_close(
        matches.distance_maps.double(), looped(name, embeddings, prototypes), rtol=2e-6, atol=2e-6
    )


@BOTH
def test_double_precision_stays_double(name: str) -> None:
    embeddings, prototypes = drawn((2, 32, 4, 4), 0, torch.float64), drawn((3, 32, 1, 1), 1, torch.float64)
    matches = layer_with(name, prototypes)(embeddings)
    assert matches.distance_maps.dtype == matches.scores.dtype == torch.float64
    torch.testing.assert_close(matches.distance_maps, looped(name, embeddings, prototypes), rtol=1e-13, atol=1e-13)


def test_a_prototype_larger_than_the_embeddings_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="prototypes of 2 x 3 cells do not fit into embeddings of 4 x 2"):
        layer_with("cosine", drawn((1, 3, 2, 3), 0))(drawn((1, 3, 4, 2), 0))


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that an operation returned."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        result = func(*args, **(kwargs or {}))  # type: ignore[operator]
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return result


@BOTH
@pytest.mark.parametrize("kernel", [(1, 1), (2, 2)])
def test_no_tensor_holds_a_vector_for_every_pair_of_patch_and_prototype(name: str, kernel: tuple[int, int]) -> None:
    batch, dim, rows, cols, protos = 3, 16, 7, 5, 40
    embeddings = drawn((batch, dim, rows, cols), 0).requires_grad_()
    layer = layer_with(name, drawn((protos, dim, *kernel), 1))
    with Largest() as largest:
        layer(embeddings).scores.sum().backward()
    maps, inputs = batch * protos * rows * cols, batch * dim * rows * cols
    assert layer(embeddings).distance_maps.numel() <= largest.numbers <= max(maps, inputs, layer.prototypes.numel())


# What a measure says of itself ----------------------------------------------------------------------------------


@BOTH
@given(st.integers(0, 999), st.integers(1, 40))
def test_a_measure_stays_in_the_range_that_it_states(name: str, seed: int, dim: int) -> None:
    ends = torch.cat([torch.zeros(1, dim, 1, 1), torch.ones(1, dim, 1, 1)])
    vectors = torch.cat([drawn((4, dim, 1, 1), seed), ends])
    low, high = MEASURES[name].range(dim)
    maps = MEASURES[name].maps(vectors, vectors)
    assert low <= float(maps.min())
    assert float(maps.max()) <= high * (1 + 1e-6)


@BOTH
@given(st.integers(0, 999), st.integers(1, 400))
def test_rounding_stays_within_the_stated_tolerance(name: str, seed: int, dim: int) -> None:
    embeddings, prototypes = drawn((2, dim, 3, 3), seed), drawn((4, dim, 1, 1), seed + 1)
    layer = layer_with(name, prototypes)
    exact = MEASURES[name].maps(embeddings.double(), prototypes.double())
    assert float((layer.distance_maps(embeddings).detach() - exact).abs().max()) <= layer.tolerance()


def test_prototypes_are_comparable_as_the_measure_sees_them() -> None:
    vectors = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
    one, other = Cosine().comparable(vectors)
    torch.testing.assert_close(one, other)
    assert torch.equal(SquaredL2().comparable(vectors), vectors)

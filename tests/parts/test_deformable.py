"""Deformable prototypes: interpolation and activations against loops, gradients against differences."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pixpnet.parts import Deformable
from pixpnet.parts.deformable import (
    interpolated,
    unit_cells,
    unit_parts,
)
from tests.members.deformable_toys import by_hand, moving, read_at
from tests.parts.numerics import gradient, slope


@given(st.integers(0, 10_000), st.floats(-4, 8), st.floats(-4, 8))
def test_interpolation_is_that_of_loops_over_cells(seed: int, row: float, col: float) -> None:
    cells = np.random.default_rng(seed).random((1, 3, 4, 5))
    found = interpolated(torch.from_numpy(cells), torch.tensor([[[row, col]]], dtype=torch.float64))
    np.testing.assert_allclose(found[0, 0].numpy(), read_at(cells[0], row, col), atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0, 3), st.floats(0, 4))
def test_a_field_of_unit_length_has_unit_length_anywhere_inside(seed: int, row: float, col: float) -> None:
    cells = torch.from_numpy(np.random.default_rng(seed).random((1, 6, 4, 5)))
    unit = nn.functional.normalize(cells, dim=1)
    read = interpolated(unit, torch.tensor([[[row, col]]], dtype=torch.float64))
    assert read.norm().item() == pytest.approx(1.0, abs=1e-12)
    plain = nn.functional.grid_sample(
        unit, torch.tensor([[[[2 * col / 4 - 1, 2 * row / 3 - 1]]]], dtype=torch.float64), align_corners=True
    )
    assert plain.norm().item() <= 1 + 1e-9  # which plain interpolation loses


def test_gradients_of_interpolation_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    cells, weights = torch.rand(2, 3, 3, 4).double() + 0.1, torch.randn(2, 5, 3).double()
    places = torch.rand(2, 5, 2).double() * 4 - 0.9

    def of_cells(values: Tensor) -> Tensor:
        return (interpolated(values, places) * weights).sum()

    def of_places(values: Tensor) -> Tensor:
        return (interpolated(cells, values) * weights).sum()

    torch.testing.assert_close(gradient(of_cells, cells), slope(of_cells, cells), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(gradient(of_places, places), slope(of_places, places), rtol=1e-5, atol=1e-7)


def test_gradients_are_finite_where_cells_are_0_and_parts_stand_still() -> None:
    cells = torch.relu(torch.randn(1, 4, 4, 4)).requires_grad_()
    comparison = moving(torch.rand(2, 4, 2, 2), deviation=0.0)
    comparison(cells).scores.sum().backward()
    assert cells.grad is not None
    assert cells.grad.isfinite().all()
    for parameter in comparison.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("seed", range(4))
def test_activations_are_those_of_loops_in_double_precision(seed: int) -> None:
    torch.manual_seed(seed)
    comparison = moving(torch.rand(4, 3, 2, 2).double())
    cells = torch.rand(2, 3, 4, 5).double()
    found = comparison(cells)
    activations, places = by_hand(comparison, cells.numpy())
    assert found.places is not None
    np.testing.assert_allclose(found.places.detach().numpy(), places, atol=1e-10)
    assert np.abs(places - np.round(places)).max() > 0.05
    np.testing.assert_allclose((1 - found.distance_maps.detach().numpy()) / 1.01, activations, atol=1e-10)
    np.testing.assert_allclose(found.scores.detach().numpy(), np.maximum(activations, 0).max(axis=(2, 3)), atol=1e-10)


def test_gradients_of_scores_agree_with_finite_differences() -> None:
    torch.manual_seed(5)
    comparison = moving(torch.rand(2, 3, 2, 2).double())
    weights = torch.randn(1, 2).double()

    def of_cells(cells: Tensor) -> Tensor:
        return (comparison(cells).scores * weights).sum()

    def of_prototypes(prototypes: Tensor) -> Tensor:
        return (torch.func.functional_call(comparison, {"prototypes": prototypes}, (cells,)).scores * weights).sum()

    def of_offsets(weight: Tensor) -> Tensor:
        return (torch.func.functional_call(comparison, {"offset_last.weight": weight}, (cells,)).scores * weights).sum()

    cells = torch.rand(1, 3, 4, 4).double() + 0.1
    for function, at in (
        (of_cells, cells),
        (of_prototypes, comparison.prototypes.detach()),
        (of_offsets, comparison.offset_last.weight.detach()),
    ):
        torch.testing.assert_close(gradient(function, at), slope(function, at), rtol=1e-4, atol=1e-7)


def test_cells_and_parts_have_length_1_and_two_small_channels() -> None:
    cells, parts = unit_cells(5 + torch.rand(1, 3, 2, 2)), unit_parts(5 + torch.rand(2, 3, 2, 2))
    assert (cells.shape[1], parts.shape) == (5, (2, 4, 5))
    torch.testing.assert_close(cells.norm(dim=1), torch.ones(1, 2, 2), rtol=0, atol=1e-5)
    torch.testing.assert_close(parts.norm(dim=2), torch.ones(2, 4), rtol=0, atol=1e-4)


def test_parts_stand_still_until_they_may_move() -> None:
    comparison = Deformable(torch.rand(1, 3, 2, 2), deviation=1.0)
    cells = torch.rand(1, 3, 4, 4)
    assert comparison(cells).places_at(0, (0, 0)) == ((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0))
    comparison.moving.fill_(1.0)
    assert comparison(cells).places_at(0, (0, 0)) != ((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0))


def test_a_prototype_that_is_a_patch_scores_as_much_as_any_can() -> None:
    torch.manual_seed(6)
    comparison, cells = moving(torch.rand(2, 3, 2, 2), 1e-3), 5 + torch.rand(3, 3, 5, 5)
    patches = comparison.patches(cells, torch.tensor([2, 0]), torch.tensor([12, 17]))
    assert patches.places.shape == (2, 4, 2)
    comparison.prototypes.data = patches.vectors.detach()
    maps = comparison.similarity(comparison(cells).distance_maps)
    assert [maps[2, 0, 2, 2].item(), maps[0, 1, 3, 2].item()] == pytest.approx([1 / 1.01] * 2, abs=3e-4)
    assert comparison.bounds() == pytest.approx((0.0, 1 / 1.01))


@given(st.integers(0, 10_000), st.floats(1e-3, 1.0))
def test_scores_after_prototypes_moved_lie_within_their_bounds(seed: int, far: float) -> None:
    torch.manual_seed(seed)
    comparison, cells = moving(torch.rand(3, 4, 2, 2)), torch.rand(2, 4, 4, 4)
    target = comparison.prototypes.detach() + far * torch.randn(3, 4, 2, 2)
    low, high = comparison.scores_after(comparison(cells).distances, target)
    comparison.prototypes.data = target
    scores = comparison(cells).scores.detach().double()
    assert bool(((low - 1e-6 <= scores) & (scores <= high + 1e-6)).all())


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple) else (result,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return result


def test_no_tensor_of_prototypes_and_cells_and_channels_is_made() -> None:
    comparison = moving(torch.rand(300, 16, 2, 2))
    with Largest() as largest:
        comparison(torch.rand(2, 16, 8, 8)).scores.sum().backward()
    assert largest.numbers <= 2 * 300 * 64  # maps; four parts of 18 numbers at each cell are fewer

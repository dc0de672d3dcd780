"""Distinct pooling against a plain search over all pairs, and its laws."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.parts import Distinct
from pixpnet.parts.pooling import pool_distinct, pool_nearest
from tests.parts.comparing import comparison_of


def shared_out_by_hand(maps: Tensor, per_class: int, separation: int) -> list[list[int]]:
    """For each image and class: the nearest of all pairs of a prototype and a cell that is free goes first."""
    cols = maps.shape[-1]
    answer = []
    for image in maps.flatten(2).tolist():
        chosen = [0] * len(image)
        for first in range(0, len(image), per_class):
            waiting, taken = set(range(first, first + per_class)), []
            while waiting:
                free = [cell for cell in range(len(image[0])) if cell not in taken]
                far = [
                    cell
                    for cell in free
                    if all(
                        max(abs(cell // cols - other // cols), abs(cell % cols - other % cols)) >= separation
                        for other in taken
                    )
                ]
                _, proto, cell = min((image[proto][cell], proto, cell) for proto in waiting for cell in far or free)
                chosen[proto] = cell
                waiting.remove(proto)
                taken.append(cell)
        answer.append(chosen)
    return answer


@given(st.integers(0, 2**20), st.integers(1, 5), st.integers(1, 3), st.sampled_from([(3, 4), (5, 5), (1, 6)]))
def test_the_nearest_pair_goes_first_and_takes_its_cell_away(
    seed: int, per_class: int, separation: int, grid: tuple[int, int]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Few different values, so that there are ties; prototypes of an image agree in what they like.
    values = torch.randint(0, 12, (2, 2 * per_class, *grid), generator=generator)
    maps = (values + torch.randint(0, 12, (2, 1, *grid), generator=generator)).float()
    result = pool_distinct(maps, per_class, separation)
    assert result.cells.tolist() == shared_out_by_hand(maps, per_class, separation)
    assert torch.equal(result.distances, maps.flatten(2).gather(2, result.cells[..., None])[..., 0])


@given(st.integers(0, 2**20))
def test_no_two_prototypes_of_a_class_share_a_cell_and_the_nearest_keeps_its_own(seed: int) -> None:
    maps = torch.rand(3, 20, 4, 4, generator=torch.Generator().manual_seed(seed))
    result = pool_distinct(maps, 10)
    for image in result.cells.unflatten(1, (2, 10)):
        for cells in image:
            assert len(set(cells.tolist())) == 10
    # The smallest distance of a class, which cluster and separation losses read, is that of max pooling.
    nearest = pool_nearest(maps).distances.unflatten(1, (2, 10)).amin(dim=-1)
    assert torch.equal(result.distances.unflatten(1, (2, 10)).amin(dim=-1), nearest)


def test_gradients_flow_through_the_chosen_cells_alone() -> None:
    maps = torch.rand(2, 4, 3, 3, requires_grad=True)
    result = pool_distinct(maps, 2)
    result.distances.sum().backward()
    assert maps.grad is not None
    expected = torch.zeros(2, 4, 9).scatter(2, result.cells[..., None], 1.0)
    assert torch.equal(maps.grad.flatten(2), expected)


def test_fewer_cells_than_prototypes_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"10 prototypes of a class .* 3 x 3 cells.*--window-stride"):
        pool_distinct(torch.rand(1, 20, 3, 3), 10)


def test_a_layer_with_distinct_pooling_scores_the_cells_that_it_names() -> None:
    torch.manual_seed(0)
    layer = comparison_of(torch.rand(6, 5, 1, 1), pooling=Distinct(per_class=3))
    matches = layer(torch.rand(2, 5, 3, 3))
    chosen = layer.similarity(matches.distance_maps).flatten(2).gather(2, matches.cells[..., None])[..., 0]
    assert torch.equal(matches.scores, chosen)
    assert all(len(set(row[:3])) == 3 and len(set(row[3:])) == 3 for row in matches.cells.tolist())


@given(st.integers(0, 2**20), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]), st.booleans())
def test_nearest_takes_the_first_of_the_smallest_and_nan_before_all(seed: int, dtype: torch.dtype, nan: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Few different numbers, both zeros among them, so that several cells are equally near.
    maps = torch.randint(-1, 3, (2, 3, 4, 5), generator=generator).to(dtype) * 0.0
    maps += torch.randint(0, 3, maps.shape, generator=generator).to(dtype) * 0.5
    if nan:
        maps[torch.rand(maps.shape, generator=generator) < 0.1] = torch.nan
    pooled = pool_nearest(maps)
    for row, chosen, distance in zip(
        maps.flatten(0, 1).flatten(1).tolist(),
        pooled.cells.flatten().tolist(),
        pooled.distances.flatten().tolist(),
        strict=True,
    ):
        missing = [cell for cell, value in enumerate(row) if value != value]
        assert chosen == (missing[0] if missing else row.index(min(row)))
        assert distance == row[chosen] or missing


def test_distances_of_nearest_cells_hand_their_gradient_to_those_cells() -> None:
    maps = torch.tensor([[[[3.0, 1.0, 1.0]], [[0.5, 2.0, 4.0]]]], requires_grad=True)
    (gradient,) = torch.autograd.grad((pool_nearest(maps).distances * torch.tensor([2.0, 7.0])).sum(), maps)
    assert gradient.tolist() == [[[[0.0, 2.0, 0.0]], [[7.0, 0.0, 0.0]]]]


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # from the check of shapes, which only tests have
def test_a_traced_network_finds_the_cells_of_other_images_too() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.rand(1, 3, 4, 5, generator=generator) for _ in range(2))
    traced = torch.jit.trace(lambda maps: pool_nearest(maps).cells, first)
    expected = second.flatten(2).min(dim=-1).indices
    assert not torch.equal(pool_nearest(first).cells, expected)
    assert torch.equal(traced(second), expected)


def test_functions_of_torch_func_may_look_on() -> None:
    maps = torch.rand(6, 2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    distances = torch.func.vmap(lambda some: pool_nearest(some).distances)(maps)
    assert torch.equal(distances, maps.flatten(3).amin(dim=-1))
    gradient = torch.func.grad(lambda some: pool_nearest(some).distances.sum())(maps[0])
    assert gradient.count_nonzero() == 2 * 3

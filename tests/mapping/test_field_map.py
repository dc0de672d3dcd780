"""The mapping by fields: Algorithm 2 pixel by pixel, and the laws that follow from it."""

import gc
import weakref
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.box import Box
from pixpnet.mapping import MAPPINGS
from pixpnet.mapping.field_map import BoxPainter
from tests.mapping.material import NETWORKS, SIZE, algorithm_2, cells_of, network, staged

MODELS = {kind: network(kind) for kind in NETWORKS}
SIZES = [(SIZE, SIZE), (17, 26), (31, 18)]


def drawn(kind: str, size: tuple[int, int], low: float, high: float, count: int = 3, seed: int = 0) -> Tensor:
    cells = cells_of(MODELS[kind].field_at(size))
    return low + (high - low) * torch.rand(count, *cells, generator=torch.Generator().manual_seed(seed))


@cache
def seen_by_any(kind: str, size: tuple[int, int]) -> Tensor:
    field = MODELS[kind].field_at(size)
    rows, cols = cells_of(field)
    return torch.stack([field.mask(row, col) for row in range(rows) for col in range(cols)]).any(dim=0)


@pytest.mark.parametrize("mapping", ["field", "field_flat"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", NETWORKS)
def test_maps_are_those_of_algorithm_2_pixel_by_pixel(kind: str, size: tuple[int, int], mapping: str) -> None:
    model = MODELS[kind]
    for low, high in [(0.0, 5.0), (3.9, 4.1), (-2.0, 3.0), (-5.0, -1.0)]:
        maps = drawn(kind, size, low, high)
        result = MAPPINGS[mapping](staged(model, maps, size))
        expected = algorithm_2(model.field_at(size), maps, gaussian=mapping == "field")
        torch.testing.assert_close(result.maps, expected, rtol=1e-6, atol=4e-6)


def test_prototypes_of_several_cells_see_the_union_of_their_cells() -> None:
    model = network("solid", prototype_rows=2, prototype_cols=2)
    maps = torch.rand(2, *cells_of(model.field), generator=torch.Generator().manual_seed(1))
    result = MAPPINGS["field"](staged(model, maps, (SIZE, SIZE)))
    assert maps.shape[1:] == (5, 5)
    torch.testing.assert_close(result.maps, algorithm_2(model.field, maps), rtol=1e-6, atol=1e-6)


def test_more_prototypes_than_are_painted_at_once_get_the_maps_that_each_gets_alone() -> None:
    maps = drawn("holes", (SIZE, SIZE), 0, 1, count=203)
    together = MAPPINGS["field"](staged(MODELS["holes"], maps, (SIZE, SIZE)))
    for number in (0, 100, 202):
        alone = MAPPINGS["field"](staged(MODELS["holes"], maps[number : number + 1], (SIZE, SIZE)))
        assert torch.equal(alone.maps[0], together.maps[number])
        assert alone.regions[0] == together.regions[number]


def test_no_prototypes_have_no_maps() -> None:
    for name in ("field", "upsampling"):
        result = MAPPINGS[name](staged(MODELS["solid"], torch.zeros(0, 6, 6), (SIZE, SIZE)))
        assert result.maps.shape == (0, SIZE, SIZE)
        assert result.regions == ()


def test_double_precision_stays_double() -> None:
    maps = drawn("large", (SIZE, SIZE), 0, 1).double()
    result = MAPPINGS["field"](staged(MODELS["large"], maps, (SIZE, SIZE)))
    boxes = BoxPainter.of(MODELS["large"].field, gaussian=True).paint(maps)
    assert result.maps.dtype == torch.float64
    torch.testing.assert_close(result.maps, boxes, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", NETWORKS)
def test_rows_and_columns_of_a_field_are_told_apart_where_it_is_their_product(kind: str) -> None:
    for size in SIZES:
        field = MODELS[kind].field_at(size)
        sets = field.separated()
        assert (sets is None) == (kind == "cross")
        if sets is not None:
            for row, col in [(0, 0), (1, 2), (-1, 0)]:
                expected = torch.from_numpy(sets[0][row][:, None] & sets[1][col])
                assert torch.equal(field.mask(row, col), expected)


def test_one_cell_of_a_hand_computed_case() -> None:
    # Cells see 2 x 2 pixels, 5 apart. All four are nearest to the centre of the box, so all keep the similarity.
    maps = torch.zeros(1, 5, 5)
    maps[0, 1, 2] = 7.0
    result = MAPPINGS["field"](staged(MODELS["apart"], maps, (SIZE, SIZE)))
    expected = torch.zeros(1, SIZE, SIZE)
    expected[0, 5:7, 10:12] = 7.0
    assert torch.equal(result.maps, expected)
    assert result.regions == ((Box(5, 10, 7, 12),),)


def test_regions_are_the_exact_field_of_the_best_cell_with_its_holes() -> None:
    maps = torch.zeros(2, 12, 12)
    maps[0, 0, 3] = 1.0
    maps[1, 5, 5] = 1.0
    result = MAPPINGS["field"](staged(MODELS["holes"], maps, (SIZE, SIZE)))
    assert set(result.regions[0]) == {Box(y, x, y + 1, x + 1) for y in (0, 2) for x in (4, 6, 8)}
    assert set(result.regions[1]) == {Box(y, x, y + 1, x + 1) for y in (8, 10, 12) for x in (8, 10, 12)}


def test_a_cell_that_sees_only_padding_has_no_region_and_leaves_no_trace() -> None:
    cells = cells_of(MODELS["empty"].field)
    maps = torch.zeros(1, *cells)
    maps[0, 0, 0] = 9.0
    result = MAPPINGS["field"](staged(MODELS["empty"], maps, (SIZE, SIZE)))
    assert result.regions == ((),)
    assert not result.maps.any()


kinds = st.sampled_from(sorted(NETWORKS))
sizes = st.sampled_from(SIZES)
seeds = st.integers(0, 1000)
names = st.sampled_from(["field", "field_flat"])


@given(kinds, sizes, seeds, names, st.floats(-3, 2))
def test_a_more_similar_cell_lowers_no_pixel(
    kind: str, size: tuple[int, int], seed: int, name: str, low: float
) -> None:
    maps = drawn(kind, size, low, low + 3, seed=seed)
    more = maps + drawn(kind, size, 0, 1, seed=seed + 1)
    before, after = (MAPPINGS[name](staged(MODELS[kind], item, size)).maps for item in (maps, more))
    assert (after >= before - 1e-5).all()


@given(kinds, sizes, seeds, names)
def test_pixels_that_no_cell_sees_are_zero(kind: str, size: tuple[int, int], seed: int, name: str) -> None:
    maps = drawn(kind, size, 0.1, 2, seed=seed)
    result = MAPPINGS[name](staged(MODELS[kind], maps, size)).maps
    assert torch.equal(result > 0, seen_by_any(kind, size).expand_as(result))


@given(kinds, sizes, seeds, names)
def test_pixels_that_no_cell_sees_lie_below_all_others_also_when_similarities_are_negative(
    kind: str, size: tuple[int, int], seed: int, name: str
) -> None:
    maps = drawn(kind, size, -4, 1, count=1, seed=seed) - 1
    result = MAPPINGS[name](staged(MODELS[kind], maps, size)).maps[0]
    seen = seen_by_any(kind, size)
    if not seen.all():
        assert result[seen].min() > result[~seen].max()


@given(kinds, sizes, seeds, st.floats(-5, 1))
def test_the_best_cell_keeps_its_similarity_in_the_center(
    kind: str, size: tuple[int, int], seed: int, low: float
) -> None:
    maps = drawn(kind, size, low, low + 4, seed=seed)
    result = MAPPINGS["field"](staged(MODELS[kind], maps, size))
    for heat, similarities, region in zip(result.maps, maps, result.regions, strict=True):
        for y0, x0, y1, x1 in region:
            center = heat[(y0 + y1) // 2, (x0 + x1) // 2]
            torch.testing.assert_close(center, similarities.max(), rtol=1e-5, atol=1e-5)
        assert heat.max() <= similarities.max() + 1e-5


@given(kinds, seeds, st.permutations(range(4)))
def test_prototypes_in_another_order_have_their_maps_in_that_order(kind: str, seed: int, order: list[int]) -> None:
    maps = drawn(kind, (SIZE, SIZE), -1, 2, count=4, seed=seed)
    result = MAPPINGS["field"](staged(MODELS[kind], maps, (SIZE, SIZE)))
    other = MAPPINGS["field"](staged(MODELS[kind], maps[order], (SIZE, SIZE)))
    assert torch.equal(other.maps, result.maps[order])
    assert other.regions == tuple(result.regions[number] for number in order)


def test_what_is_known_about_a_field_goes_with_its_model() -> None:
    model = network("solid")
    MAPPINGS["field"](staged(model, torch.rand(1, 6, 6), (SIZE, SIZE)))
    field = weakref.ref(model.field)
    del model
    gc.collect()
    assert field() is None

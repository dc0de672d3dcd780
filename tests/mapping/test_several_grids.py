"""Prototypes of two cuts of one backbone: each is mapped by its own grid, whatever the others look at."""

import pytest
import torch
from torch import Tensor

from pixpnet.mapping import MAPPINGS, heatmaps, scene
from pixpnet.mapping.field_map import BoxPainter
from pixpnet.mapping.relevance import prp
from pixpnet.model import PixPNet
from tests.mapping.material import SIZE, algorithm_2, two_grids
from tests.mapping.networks import kept

# In no order of grids, and one of them twice.
WANTED = [4, 0, 5, 2, 4]
SIZES = [(SIZE, SIZE), (19, 27)]


@pytest.fixture(scope="module")
def model() -> PixPNet:
    return two_grids()


def picture(size: tuple[int, int] = (SIZE, SIZE)) -> Tensor:
    return torch.randn(3, *size, generator=torch.Generator().manual_seed(5))


def test_a_scene_has_the_maps_and_cells_of_each_prototypes_own_grid(model: PixPNet) -> None:
    with torch.no_grad():
        matches = model(picture()[None]).matches
    view = scene(model, picture(), WANTED)
    assert [tuple(maps.shape) for maps in view.similarity_maps] == [(4, 4), (12, 12), (4, 4), (12, 12), (4, 4)]
    assert [part.grid.number for part in view.grids] == [0, 1]
    for prototype, maps, cell in zip(WANTED, view.similarity_maps, view.cells, strict=True):
        (expected,) = model.similarity_maps(matches, [prototype])
        assert torch.equal(maps, expected[0])
        assert maps[cell] == maps.max() == matches.scores[0, prototype]
    assert [part.grid.number for part in scene(model, picture(), [5]).grids] == [1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_prototype_has_the_map_and_region_that_it_has_alone(
    model: PixPNet, mapping: str, size: tuple[int, int]
) -> None:
    together = heatmaps(model, picture(size), WANTED, mapping, torch.Generator().manual_seed(0))
    assert together.maps.shape == (5, *size)
    if mapping == "random":
        return
    for index, prototype in enumerate(WANTED):
        alone = heatmaps(model, picture(size), [prototype], mapping)
        torch.testing.assert_close(together.maps[index], alone.maps[0], rtol=1e-4, atol=1e-7)
        assert together.regions[index] == alone.regions[0]


@pytest.mark.parametrize("size", SIZES)
def test_maps_are_those_of_algorithm_2_on_each_grids_field(model: PixPNet, size: tuple[int, int]) -> None:
    view = scene(model, picture(size), WANTED)
    result = MAPPINGS["field"](view)
    for index, prototype in enumerate(WANTED):
        field = model.fields_at(size)[model.grid_of(prototype).number]
        expected = algorithm_2(field, view.similarity_maps[index][None])
        torch.testing.assert_close(result.maps[index], expected[0], rtol=1e-6, atol=4e-6)
        boxes = BoxPainter.of(field, gaussian=True).paint(view.similarity_maps[index][None])
        torch.testing.assert_close(result.maps[index], boxes[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mapping", ["field", "field_flat", "prp"])
def test_regions_are_exact_fields_of_each_grid(model: PixPNet, mapping: str) -> None:
    result = heatmaps(model, picture(), range(6), mapping)
    with torch.no_grad():
        cells = model(picture()[None]).matches.cells[0].tolist()
    for prototype, (row, col) in enumerate(cells):
        field = model.fields[model.grid_of(prototype).number]
        assert list(result.regions[prototype]) == field.boxes(row, col)


def test_random_regions_have_the_sizes_of_each_grids_fields(model: PixPNet) -> None:
    honest = heatmaps(model, picture(), range(6)).regions
    moved = heatmaps(model, picture(), range(6), "random", torch.Generator().manual_seed(0)).regions
    sides = [[[(box.y1 - box.y0, box.x1 - box.x0) for box in region] for region in item] for item in (honest, moved)]
    assert sides[0] == sides[1]
    assert sides[0][0] != sides[0][5]


@pytest.mark.parametrize("options", [{}, {"distance": "squared_l2"}, {"prototype_rows": 2, "cells": "normalized"}])
def test_relevance_is_conserved_and_stays_in_the_field_of_each_grid(options: dict[str, object]) -> None:
    model = two_grids(dim=16, **options)
    with torch.no_grad():
        for module in model.backbone.modules():
            if isinstance(module, torch.nn.Conv2d):
                assert module.bias is not None
                module.bias.zero_()
        for grid in model.grids:
            for layer in grid.add_on.modules():
                if isinstance(layer, torch.nn.Conv2d) and layer.bias is not None:
                    layer.bias.zero_()
    about = scene(model, picture(), list(range(6)))
    result = prp(about)
    torch.testing.assert_close(kept(about, result), torch.ones(6, dtype=torch.float64), rtol=1e-3, atol=0)
    for prototype, (heatmap, cell) in enumerate(zip(result.maps, about.cells, strict=True)):
        outside = ~model.fields[model.grid_of(prototype).number].mask(*cell)
        assert (heatmap[outside] == 0).all()
        assert outside.any()

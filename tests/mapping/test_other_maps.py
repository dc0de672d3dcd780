"""Upsampling, the random control, and the one function in front of all mappings."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.box import Box
from pixpnet.mapping import MAPPINGS, heatmaps, scene
from pixpnet.mapping.upsampling import top_boxes
from pixpnet.model import PixPNet
from tests.mapping.material import SIZE, cells_of, network, staged


@pytest.fixture(scope="module")
def model() -> PixPNet:
    return network("solid")


def image(height: int = SIZE, width: int = SIZE) -> torch.Tensor:
    return torch.randn(3, height, width, generator=torch.Generator().manual_seed(3))


def test_upsampling_is_bicubic_by_hand(model: PixPNet) -> None:
    # Doubled, pixels lie a quarter of a cell beside the nearest one; the weights of the cubic with a = -0.75 there:
    far_left, left, right, far_right = -0.10546875, 0.87890625, 0.26171875, -0.03515625
    maps = torch.zeros(1, 6, 6)
    maps[0, :, 2] = 1.0
    line = MAPPINGS["upsampling"](staged(model, maps, (12, 12))).maps[0, 5]
    # Columns 1 to 8 lie at 0.25, 0.75, 1.25, ..., 3.75 in units of cells.
    expected = torch.tensor([far_right, far_left, right, left, left, right, far_left, far_right])
    torch.testing.assert_close(line[1:9], expected)
    assert not line[9:].any()


def test_the_box_of_upsampling_holds_the_top_five_percent() -> None:
    maps = torch.zeros(1, 10, 10)
    # Six of a hundred values are high: the 95th percentile lies among them, and all reach it.
    for y, x in [(2, 3), (2, 4), (5, 3), (4, 7), (3, 3), (3, 4)]:
        maps[0, y, x] = 1.0
    assert top_boxes(maps) == [Box(2, 3, 6, 8)]
    # With four the percentile is 0, which every pixel reaches.
    maps[0, 2, 3] = maps[0, 4, 7] = 0.0
    assert top_boxes(maps) == [Box(0, 0, 10, 10)]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 10_000), st.sampled_from([2, 5, 1000]))
def test_the_box_is_that_around_numpys_percentile(height: int, width: int, seed: int, levels: int) -> None:
    maps = torch.randint(levels, (2, height, width), generator=torch.Generator().manual_seed(seed)).float()
    for heat, box in zip(maps.numpy(), top_boxes(maps), strict=True):
        ys, xs = np.nonzero(heat >= np.percentile(heat, 95) - 1e-9)
        assert box == Box(int(ys.min()), int(xs.min()), int(ys.max()) + 1, int(xs.max()) + 1)


def test_upsampling_many_prototypes_is_upsampling_each(model: PixPNet) -> None:
    maps = torch.rand(37, 6, 6, generator=torch.Generator().manual_seed(0))
    result = MAPPINGS["upsampling"](staged(model, maps, (SIZE, 30)))
    for number in (0, 16, 36):
        alone = MAPPINGS["upsampling"](staged(model, maps[number : number + 1], (SIZE, 30)))
        assert torch.equal(alone.maps[0], result.maps[number])
        assert alone.regions[0] == result.regions[number]


def test_a_random_map_needs_a_generator_and_repeats_with_its_seed(model: PixPNet) -> None:
    with pytest.raises(ValueError, match=r"generator=torch\.Generator"):
        heatmaps(model, image(), [0], "random")
    one, same, other = (
        heatmaps(model, image(), [0, 1], "random", torch.Generator().manual_seed(seed)) for seed in (4, 4, 5)
    )
    assert torch.equal(one.maps, same.maps)
    assert one.regions == same.regions
    assert not torch.equal(one.maps, other.maps)
    assert one.maps.min() >= 0 and one.maps.max() < 1


@pytest.mark.parametrize("kind", ["solid", "holes", "cross", "everything", "empty"])
def test_a_random_region_is_the_field_of_the_best_cell_at_any_place(kind: str) -> None:
    model = network(kind)
    generator = torch.Generator().manual_seed(0)
    rows, cols = cells_of(model.field)
    maps = torch.zeros(200, rows, cols)
    maps[:, 0 if kind == "empty" else rows // 2, cols // 2] = 1.0
    honest = MAPPINGS["field"](staged(model, maps, (SIZE, SIZE))).regions[0]
    result = MAPPINGS["random"](staged(model, maps, (SIZE, SIZE), generator)).regions
    corners = set()
    for region in result:
        assert [(b.y1 - b.y0, b.x1 - b.x0) for b in region] == [(b.y1 - b.y0, b.x1 - b.x0) for b in honest]
        if region:
            top, left = min(b.y0 for b in region), min(b.x0 for b in region)
            bottom, right = max(b.y1 for b in region), max(b.x1 for b in region)
            assert top >= 0 and left >= 0 and bottom <= SIZE and right <= SIZE
            corners |= {("top", top), ("left", left), ("bottom", bottom), ("right", right)}
    if kind == "empty":
        assert honest == ()
    else:
        assert corners >= {("top", 0), ("left", 0), ("bottom", SIZE), ("right", SIZE)}


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("size", [(SIZE, SIZE), (19, 33)])
def test_heatmaps_are_the_mapping_of_one_forward_pass(model: PixPNet, mapping: str, size: tuple[int, int]) -> None:
    wanted = [3, 0, 3]
    result = heatmaps(model, image(*size), wanted, mapping, torch.Generator().manual_seed(0))
    with torch.no_grad():
        matches = model(image(*size)[None]).matches
    view = scene(model, image(*size), wanted, torch.Generator().manual_seed(0))
    expected = model.grids[0].comparison.similarity(matches.distance_maps[0, wanted])
    torch.testing.assert_close(torch.stack(view.similarity_maps), expected)
    again = MAPPINGS[mapping](view)
    assert torch.equal(result.maps, again.maps)
    assert result.maps.shape == (3, *size)
    assert result.regions == again.regions
    assert len(result.regions) == 3
    assert not result.maps.requires_grad


def test_the_region_by_field_is_that_of_the_score(model: PixPNet) -> None:
    result = heatmaps(model, image(), range(4))
    with torch.no_grad():
        matches = model(image()[None]).matches
    for number, region in enumerate(result.regions):
        row, col = matches.cells[0, number].tolist()
        assert list(region) == model.field.boxes(row, col)
        torch.testing.assert_close(result.maps[number].max(), matches.scores[0, number])


def test_an_unknown_mapping_is_answered_with_the_known_ones(model: PixPNet) -> None:
    with pytest.raises(ValueError, match=r"'felid'.*field, field_flat, upsampling"):
        heatmaps(model, image(), [0], "felid")


@pytest.mark.parametrize("number", [-1, 4, 100])
def test_a_prototype_that_does_not_exist_is_refused(model: PixPNet, number: int) -> None:
    with pytest.raises(ValueError, match=rf"no prototypes \[{number}\]: it has 4, numbered 0 to 3"):
        heatmaps(model, image(), [0, number])


def test_training_mode_is_refused_and_left_alone() -> None:
    model = network("solid").train()
    with pytest.raises(ValueError, match=r"call model\.eval\(\)"):
        heatmaps(model, image(), [0])
    assert model.training
    model.eval()
    heatmaps(model, image(), [0])
    assert not any(module.training for module in model.modules())

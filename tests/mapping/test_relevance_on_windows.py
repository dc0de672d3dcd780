"""Relevance on windows: conserved, zero outside a cell's window, and what the network alone gives for that window."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.mapping.relevance import prp
from pixpnet.mapping.relevance.crops import Crop, cropped
from pixpnet.mapping.scene import Heatmaps, Scene, scene
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.errors import FieldWarning
from pixpnet.windows import Scale, Windows
from tests.mapping.networks import PREPROCESSING, picture, randomize

SIDE = 64
OF_THE_IMAGE = Windows(24, 16)
OF_A_MAP = Windows(24, 16, "stage1")
OF_TWO_SIZES = Windows(24, 16, "stage1", (Scale(40, 24),))
ARCHITECTURE = Architecture(dim=8, prototypes_per_class=4, cells="normalized", pooling="distinct")


class Mean(nn.Module):
    """Of all cells, as one cell."""

    def forward(self, cells: Tensor) -> Tensor:
        return cells.mean(dim=(2, 3), keepdim=True)


def network(windows: Windows, biased: bool) -> PixPNet:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        backbone = Backbone(zoo.build("small-21"), "", (SIDE, SIDE), (), windows)
        model = PixPNet(backbone, ARCHITECTURE, ("jay", "wren"), PREPROCESSING.scaled_to(SIDE)).eval()
        randomize(model, biased)
    return model


def similarities(about: Scene) -> Tensor:
    """Of the cell that speaks for each prototype; with distinct pooling that need not be the largest one."""
    chosen = [maps[cell].item() for maps, cell in zip(about.similarity_maps, about.cells, strict=True)]
    return torch.tensor(chosen, dtype=torch.float64)


def explained(windows: Windows, biased: bool) -> tuple[Scene, Heatmaps]:
    about = scene(network(windows, biased), picture((SIDE, SIDE)), [0, 1, 5, 3, 7])
    return about, prp(about)


@pytest.mark.parametrize("windows", [OF_THE_IMAGE, OF_A_MAP, OF_TWO_SIZES])
def test_without_biases_all_of_the_similarity_arrives_at_the_pixels(windows: Windows) -> None:
    about, result = explained(windows, biased=False)
    torch.testing.assert_close(result.maps.double().sum(dim=(1, 2)), similarities(about), rtol=1e-4, atol=0)
    assert (result.maps >= 0).all()


@pytest.mark.parametrize("windows", [OF_THE_IMAGE, OF_A_MAP, OF_TWO_SIZES])
def test_relevance_is_exactly_zero_outside_what_nan_says_that_a_cell_sees(windows: Windows) -> None:
    about, result = explained(windows, biased=True)
    model, image = about.model, picture((SIDE, SIDE))
    grids = [model.grid_of(prototype).number for prototype in about.prototypes]
    for heatmap, region, cell, grid in zip(result.maps, result.regions, about.cells, grids, strict=True):
        outside = torch.ones(SIDE, SIDE, dtype=torch.bool)
        for box in region:
            outside[box.y0 : box.y1, box.x0 : box.x1] = False
        assert outside.any()
        assert (heatmap[outside] == 0).all()
        assert (heatmap[~outside] > 0).any()
        # The region is the cell's field: NaN everywhere else does not reach the cell, and comes out of others.
        with torch.no_grad():
            embeddings = model.embed(image[None])[grid][0]
            spoilt = model.embed(image.masked_fill(outside, torch.nan)[None])[grid][0]
        assert torch.equal(spoilt[:, cell[0], cell[1]], embeddings[:, cell[0], cell[1]])
        assert spoilt.isnan().any()


def test_a_windows_relevance_is_what_the_network_alone_gives_for_that_window() -> None:
    about, result = explained(OF_THE_IMAGE, biased=True)
    model = about.model
    size = OF_THE_IMAGE.size
    alone = nn.Sequential(model.backbone.network, Mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldWarning)
        backbone = Backbone(alone, "", (size, size))
    one_cell = PixPNet(backbone, replace(ARCHITECTURE, pooling="max"), ("jay", "wren"), PREPROCESSING.scaled_to(size))
    parts = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("backbone")}
    one_cell.load_state_dict(parts, strict=False)
    for prototype, heatmap, (box,) in zip(about.prototypes, result.maps, result.regions, strict=True):
        crop = picture((SIDE, SIDE))[:, box.y0 : box.y1, box.x0 : box.x1]
        expected = prp(scene(one_cell.eval(), crop, [prototype])).maps[0]
        torch.testing.assert_close(heatmap[box.y0 : box.y1, box.x0 : box.x1], expected, rtol=1e-3, atol=1e-6)


def test_a_rectangle_leaves_out_images_of_the_batch_that_have_no_relevance() -> None:
    values = torch.zeros(1, 5, 2, 4, 4)
    values[0, 3, 1, 2, 1:3] = 1
    crop = cropped(values)
    assert (crop.first, crop.top, crop.left, tuple(crop.values.shape)) == (3, 2, 1, (1, 1, 2, 1, 2))
    assert torch.equal(crop.whole(), values)
    other = torch.zeros_like(values)
    other[0, 1, 0, 0, 0] = 2
    assert torch.equal(crop.plus(cropped(other)).whole(), values + other)
    assert torch.equal(Crop(values, values.shape[1:]).plus(crop).whole(), 2 * values)
    tensor = torch.arange(160.0).reshape(5, 2, 4, 4)
    assert torch.equal(crop.of(tensor), tensor[3:4, :, 2:3, 1:3])

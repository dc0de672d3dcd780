"""Relevance ordering on windows: only windows that hold a pixel are computed again, and nothing else comes out."""

import pytest
import torch
from torch import Tensor, nn

from pixpnet.data import Preprocessing
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.ordering.by_cell import can_go_by_cell, cellwise_distance_maps
from pixpnet.metrics.ordering.curves import Curves
from pixpnet.metrics.ordering.full import full_distance_maps
from pixpnet.metrics.ordering.spacing import Spacing
from pixpnet.model import Backbone, PixPNet
from pixpnet.windows import Scale, Windows

SIDE = 24
CASES = {
    "image": Windows(8, 4),
    "early": Windows(8, 4, "1"),
    "two sizes": Windows(6, 6, "1", (Scale(12, 6),)),
}


def model_on(windows: Windows, rows: int = 1) -> PixPNet:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 6, 1)
    )
    backbone = Backbone(network, "", (SIDE, SIDE), (), windows)
    architecture = Architecture(dim=8, prototypes_per_class=2, prototype_rows=rows)
    return PixPNet(backbone, architecture, ("jay", "wren"), Preprocessing(None, SIDE, SIDE)).eval()


def material(order: str) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    start, image = torch.randn(2, 3, SIDE, SIDE, generator=generator)
    pixels = torch.randperm(SIDE * SIDE, generator=generator) if order == "random" else torch.arange(SIDE * SIDE)
    return start, image, pixels


@pytest.mark.parametrize("order", ["random", "rows"])
@pytest.mark.parametrize("steps", [range(SIDE * SIDE + 1), (0, 1, 7, 7, 300, 299, 576)], ids=["every", "some"])
@pytest.mark.parametrize("case", CASES)
def test_the_maps_are_those_of_whole_passes_at_every_step(case: str, steps: range, order: str) -> None:
    model, (start, image, pixels) = model_on(CASES[case]), material(order)
    at = torch.tensor(list(steps))
    for grid in model.grids:
        assert can_go_by_cell(model, grid)
        prototypes = torch.tensor(list(grid.prototypes))
        maps = [
            torch.cat(list(passes(model, start, image, pixels, prototypes, at)))
            for passes in (cellwise_distance_maps, full_distance_maps)
        ]
        torch.testing.assert_close(*maps, rtol=0, atol=2e-7)


def test_one_pixel_more_runs_only_the_windows_that_hold_it() -> None:
    model, (start, image, pixels) = model_on(CASES["image"]), material("random")
    counted: list[int] = []
    plain = model.backbone.some_cells
    model.backbone.some_cells = lambda images, grid, wanted: (  # type: ignore[method-assign]
        counted.append(int(wanted.sum())),
        plain(images, grid, wanted),
    )[1]
    list(cellwise_distance_maps(model, start, image, pixels, torch.tensor([0]), torch.arange(41), batch=1))
    # By hand: windows of 8 pixels begin at 0, 4, ..., 16.
    expected = [
        sum(y <= pixel // SIDE < y + 8 and x <= pixel % SIDE < x + 8 for y in range(0, 17, 4) for x in range(0, 17, 4))
        for pixel in pixels[:40].tolist()
    ]
    assert counted == [25, *expected]
    assert max(expected) == 4


@pytest.mark.parametrize("method", ["exact", "stepped"])
def test_curves_on_windows_are_those_of_whole_passes(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, (start, image, pixels) = model_on(CASES["early"]), material("random")
    spacing = Spacing(points=12, finer=3, times=1)
    curves = Curves(model, method, spacing)  # type: ignore[arg-type]
    by_cell = curves.curve(start, image, pixels, 1)
    assert curves.name == method
    monkeypatch.setattr("pixpnet.metrics.ordering.curves.can_go_by_cell", lambda model, grid: False)
    with pytest.warns() if method == "exact" else torch.no_grad():
        whole = Curves(model, method, spacing).curve(start, image, pixels, 1)  # type: ignore[arg-type]
    assert torch.equal(by_cell.fractions, whole.fractions)
    torch.testing.assert_close(by_cell.similarities, whole.similarities, rtol=1e-5, atol=1e-5)


def test_larger_prototypes_and_whole_images_take_whole_passes() -> None:
    tall = model_on(CASES["image"], rows=2)
    assert not can_go_by_cell(tall, tall.grids[0])
    backbone = Backbone(nn.Conv2d(3, 4, 3), "", (SIDE, SIDE))
    plain = PixPNet(backbone, Architecture(dim=4), ("jay", "wren"), Preprocessing(None, SIDE, SIDE)).eval()
    assert not can_go_by_cell(plain, plain.grids[0])

"""A prototype that was replaced is the patch that its origin names, and sees the pixels that it names."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from pixpnet.data import Preprocessing
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, PixPNet
from pixpnet.smallnet import SmallNet
from tests.training.replacing import IDS, LABELS, noise, replaced


@pytest.fixture(params=[(1, 1), (2, 3)], ids=["1x1", "2x3"])
def grown(request: pytest.FixtureRequest) -> tuple[PixPNet, Tensor]:
    """A network from the zoo, so that it can be saved, whose prototypes are patches."""
    rows, cols = request.param
    torch.manual_seed(1)
    architecture = Architecture(dim=6, prototypes_per_class=3, prototype_rows=rows, prototype_cols=cols)
    backbone = Backbone(SmallNet(21), "", (40, 40))
    model = PixPNet(backbone, architecture, ["a", "b"], Preprocessing().scaled_to(40), "small-21").eval()
    images = noise(10, 40)
    replaced(model, images)
    return model, images


def own_distances(model: PixPNet, images: Tensor) -> list[float]:
    assert model.origins is not None
    with torch.no_grad():
        maps = model(images).matches.distance_maps
    return [float(maps[IDS.index(o.image), o.prototype, o.row, o.col]) for o in model.origins]


def test_the_distance_of_a_prototype_to_its_origin_is_0_also_after_save_and_load(
    grown: tuple[PixPNet, Tensor], tmp_path: Path
) -> None:
    model, images = grown
    assert own_distances(model, images) == pytest.approx([0.0] * 6, abs=1e-6)
    model.save(tmp_path / "model.safetensors")
    loaded = PixPNet.load(tmp_path / "model.safetensors")
    assert loaded.origins == model.origins
    assert own_distances(loaded, images) == own_distances(model, images)


def test_an_origin_holds_the_exact_field_and_the_way_to_the_source(grown: tuple[PixPNet, Tensor]) -> None:
    model, _ = grown
    assert model.origins is not None
    rows, cols = model.field.shape[-2:]
    assert (rows, cols) == (5 - model.prototypes.shape[2] + 1, 5 - model.prototypes.shape[3] + 1)
    for number, origin in enumerate(model.origins):
        assert (origin.prototype, origin.label) == (number, number // 3)
        assert list(origin.boxes) == model.field.boxes(origin.row, origin.col)
        assert LABELS[IDS.index(origin.image)] == origin.label
        assert origin.to_source == (1, 0, sum(map(ord, origin.image)), 0, 1, 0, 0, 0, 1)


def test_pixels_outside_the_origins_field_do_not_change_the_prototype(grown: tuple[PixPNet, Tensor]) -> None:
    model, images = grown
    assert model.origins is not None
    height, width = model.prototypes.shape[-2:]
    for origin in model.origins:
        image = images[IDS.index(origin.image)]
        seen = torch.zeros(40, 40, dtype=torch.bool)
        for y0, x0, y1, x1 in origin.boxes:
            seen[y0:y1, x0:x1] = True
        assert not seen.all()
        other = noise(1, 40, seed=origin.prototype)[0]
        with torch.no_grad():
            both = torch.stack([torch.where(seen, image, other), torch.where(seen, other, image)])
            ((remaining, lost),) = model.embed(both)
        patch = (slice(None), slice(origin.row, origin.row + height), slice(origin.col, origin.col + width))
        torch.testing.assert_close(remaining[patch], model.prototypes[origin.prototype].detach(), rtol=0, atol=1e-6)
        assert (lost[patch] - model.prototypes[origin.prototype]).abs().max() > 1e-4


def test_a_patch_that_is_found_again_moves_nothing(grown: tuple[PixPNet, Tensor]) -> None:
    model, images = grown
    before, origins = model.prototypes.detach().clone(), model.origins
    again = replaced(model, images)
    assert origins is not None
    assert [(o.image, o.row, o.col) for o in again] == [(o.image, o.row, o.col) for o in origins]
    torch.testing.assert_close(model.prototypes.detach(), before, rtol=0, atol=1e-6)
    assert max(origin.distance for origin in again) < 1e-6

"""Backbones on windows: a cell sees its window and nothing else, whatever the network."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.fields import receptive_fields
from pixpnet.fields.verify import verify_fields
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, CutError, PixPNet
from pixpnet.windows import Scale, Windows, window_starts

# Small images are seen whole by deep layers; here that is on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::pixpnet.model.FieldWarning")


class Attending(nn.Module):
    """Patches, attention over all of them, and an average: without windows every output sees everything."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        return self.norm(tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0])


def seeded(build: type[nn.Module] | None = None) -> nn.Module:
    torch.manual_seed(0)
    if build is not None:
        return build().eval()
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3)
    ).eval()


@pytest.mark.parametrize(
    "network", [seeded(), seeded(Attending), zoo.build("resnet18")], ids=["chain", "vit", "resnet"]
)
def test_the_field_of_a_cell_is_its_window_at_any_depth(network: nn.Module) -> None:
    at = "layer4" if hasattr(network, "layer4") else ""
    backbone = Backbone(network, at, (40, 44), (), Windows(16, 12)).eval()
    field = receptive_fields(backbone, (3, 40, 44))[""]
    rows, cols = window_starts(40, 16, 12), window_starts(44, 16, 12)
    assert field.shape[1:] == (len(rows), len(cols))
    for row, top in enumerate(rows):
        for col, left in enumerate(cols):
            assert field.boxes(row, col) == [(top, left, top + 16, left + 16)]
    assert not verify_fields(backbone, (3, 40, 44), pixels=4).disagreements


def test_the_union_of_all_fields_is_the_image_also_behind_early_layers() -> None:
    for windows in (Windows(13, 9), Windows(12, 12), Windows(12, 7, "1")):
        field = receptive_fields(Backbone(seeded(), "", (40, 40), (), windows).eval(), (3, 40, 40))[""]
        union = sum(field.mask(row, col).int() for row in range(field.shape[1]) for col in range(field.shape[2]))
        assert (union > 0).all()


def test_a_cell_is_the_mean_of_what_the_network_gives_for_its_window_alone() -> None:
    network, images = seeded(), torch.randn(2, 3, 40, 44)
    cells = Backbone(network, "", (40, 44), (), Windows(16, 12)).eval()(images)
    for row, top in enumerate(window_starts(40, 16, 12)):
        for col, left in enumerate(window_starts(44, 16, 12)):
            alone = network(images[:, :, top : top + 16, left : left + 16]).mean(dim=(2, 3))
            torch.testing.assert_close(cells[:, :, row, col], alone)


def test_windows_of_an_early_map_see_the_margin_of_the_layers_before_it() -> None:
    network = seeded()  # the first layer: 3 x 3, stride 2, padding 1
    backbone = Backbone(network, "", (40, 40), (), Windows(12, 12, "1")).eval()
    field = receptive_fields(backbone, (3, 40, 40))[""]
    # Cells 0 to 5 of the map, each of which reads pixels 2c - 1 to 2c + 1.
    assert field.boxes(0, 0) == [(0, 0, 12, 12)]
    starts = window_starts(20, 6, 6)
    assert field.boxes(1, 2) == [(2 * starts[1] - 1, 2 * starts[2] - 1, 2 * starts[1] + 12, 2 * starts[2] + 12)]
    assert not verify_fields(backbone, (3, 40, 40), pixels=4).disagreements
    images = torch.randn(1, 3, 40, 40)
    early = network[1](network[0](images))
    alone = network[2:](early[:, :, starts[1] : starts[1] + 6, starts[2] : starts[2] + 6]).mean(dim=(2, 3))
    torch.testing.assert_close(backbone(images)[:, :, 1, 2], alone)


def test_pixels_outside_its_window_never_change_a_cell() -> None:
    backbone = Backbone(zoo.build("resnet18"), "layer4", (64, 64), (), Windows(32, 16)).eval()
    images = torch.randn(1, 3, 64, 64)
    changed = torch.randn(1, 3, 64, 64) * 100
    changed[..., 16:48, 32:64] = images[..., 16:48, 32:64]
    with torch.no_grad():
        assert torch.equal(backbone(images)[..., 1, 2], backbone(changed)[..., 1, 2])
        assert not torch.equal(backbone(images)[..., 0, 0], backbone(changed)[..., 0, 0])


def test_a_network_on_windows_is_saved_and_loaded_whole(tmp_path: Path) -> None:
    windows = Windows(24, 12)
    backbone = Backbone(zoo.build("squeezenet1_1"), "maxpool2", (48, 48), (), windows)
    architecture = Architecture(dim=8, prototypes_per_class=3, pooling="distinct", separation=2)
    model = PixPNet(
        backbone, architecture, ("jay", "wren"), Preprocessing().framed("pad").scaled_to(48), "squeezenet1_1"
    ).eval()
    model.save(tmp_path / "model.safetensors")
    again = PixPNet.load(tmp_path / "model.safetensors")
    images = torch.randn(2, 3, 48, 48)
    with torch.no_grad():
        before, after = model(images), again(images)
    assert again.backbone.windows == windows
    assert again.preprocessing.frame == "pad"
    assert torch.equal(before.logits, after.logits)
    assert torch.equal(before.matches.cells, after.matches.cells)
    assert again.field.boxes(1, 1) == [(12, 12, 35, 35)]  # its strides leave out the last line of a window


@pytest.mark.parametrize(
    ("windows", "says"),
    [
        (Windows(60, 30), "does not fit into images of 48 x 48"),
        (Windows(24, 12, "features.6"), "no layer in front of the cut|unknown|no layer"),
        (Windows(2, 2), "does not run on windows of 2 x 2"),
    ],
)
def test_windows_that_do_not_fit_a_network_are_refused(windows: Windows, says: str) -> None:
    with pytest.raises((CutError, LookupError, ValueError), match=says):
        Backbone(zoo.build("squeezenet1_1"), "maxpool2", (48, 48), (), windows)


TWO_SIZES = [Windows(32, 16, "", (Scale(48, 24),)), Windows(16, 16, "layer1", (Scale(32, 16),))]


@pytest.mark.parametrize("frozen", ["", "all", "layer2"])
@pytest.mark.parametrize("windows", TWO_SIZES, ids=["image", "layer1"])
def test_each_size_of_windows_gives_the_cells_of_a_backbone_with_that_size_alone(windows: Windows, frozen: str) -> None:
    network, images = zoo.build("resnet18"), torch.randn(2, 3, 64, 64)
    backbone = Backbone(network, "layer3", (64, 64), (), windows).eval()
    backbone.freeze(frozen, (64, 64))
    alone = [Backbone(network, "layer3", (64, 64), (), one).eval() for one in windows.by_size]
    with torch.no_grad():
        maps = backbone.maps(images)
        assert len(maps) == len(alone) == 2
        for grid, (cells, one) in enumerate(zip(maps, alone, strict=True)):
            assert torch.equal(cells, one(images))
            assert torch.equal(backbone.grid_map(images, grid), cells)
        if frozen:
            again = backbone.tail_maps(backbone.stem(images))
            assert all(torch.equal(one, other) for one, other in zip(again, maps, strict=True))
            parts = backbone.stem_parts(images)
            for part, one in enumerate(alone):
                one.freeze(frozen, (64, 64))
                assert torch.equal(parts[part], one.stem(images))
                assert torch.equal(backbone.stem_parts(images, (part,))[0], parts[part])


@pytest.mark.parametrize("windows", TWO_SIZES, ids=["image", "layer1"])
def test_a_network_with_windows_of_two_sizes_says_and_keeps_both(windows: Windows, tmp_path: Path) -> None:
    backbone = Backbone(zoo.build("resnet18"), "layer2", (64, 64), (), windows)
    made = Architecture(dim=8, prototypes_per_class=5, pooling="distinct", terms_per_class=3, field_price=4.0)
    model = PixPNet(backbone, made, ("jay", "wren"), Preprocessing().framed("pad").scaled_to(64), "resnet18").eval()
    assert [len(grid.prototypes) for grid in model.grids] == [6, 4]
    assert model.backbone.cut == f"layer2 on windows of {windows.size} and {windows.more[0].size} px"
    small, large = model.fields
    assert small.mean_fraction_union < large.mean_fraction_union
    for grid, field in enumerate(model.fields):
        network = model.embedding(grid)
        assert not verify_fields(network, (3, 64, 64), pixels=3).disagreements
        sides = window_starts(64, windows.by_size[grid].size, windows.by_size[grid].stride)
        assert field.shape[1:] == (len(sides), len(sides))
    # What a prototype pays: the price times the mean field of its grid.
    assert model.head.prices.tolist() == pytest.approx(
        [4.0 * small.mean_fraction_union] * 6 + [4.0 * large.mean_fraction_union] * 4
    )
    model.save(tmp_path / "model.safetensors")
    again, images = PixPNet.load(tmp_path / "model.safetensors"), torch.randn(2, 3, 64, 64)
    assert again.backbone.windows == windows
    with torch.no_grad():
        assert torch.equal(again(images).logits, model(images).logits)


def test_windows_of_several_sizes_are_for_one_layer_and_must_all_fit() -> None:
    with pytest.raises(CutError, match=r"windows are cut for one layer, and there are 2.*--window 72,144"):
        Backbone(zoo.build("resnet18"), "layer1,layer2", (64, 64), (), Windows(32, 16, "", (Scale(48, 24),)))
    with pytest.raises(CutError, match="window of 60 pixels does not fit into images of 48 x 48"):
        Backbone(zoo.build("squeezenet1_1"), "maxpool2", (48, 48), (), Windows(24, 12, "", (Scale(60, 30),)))
    with pytest.raises(CutError, match="does not run on windows of 2 x 2"):
        Backbone(zoo.build("squeezenet1_1"), "maxpool2", (48, 48), (), Windows(24, 12, "", (Scale(2, 2),)))


class Skipping(nn.Module):
    """Its last layer reads the image again: nothing can be cut in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        return self.second(self.first(images)) + images


def test_a_network_that_cannot_be_taken_apart_is_refused_by_the_name_of_the_layer() -> None:
    with pytest.raises(CutError, match="cannot be taken apart at 'first'"):
        Backbone(seeded(Skipping), "", (16, 16), (), Windows(8, 4, "first"))
    backbone = Backbone(seeded(Skipping), "", (16, 16))
    with pytest.raises(CutError, match="cannot be taken apart at 'first'"):
        backbone.freeze("first", (16, 16))


@pytest.mark.parametrize(
    ("name", "at", "frozen", "windows"),
    [
        ("resnet18", "layer2", "layer1", None),
        ("vgg11", "maxpool3", "maxpool2", None),
        ("densenet121", "denseblock2", "denseblock1", None),
        ("convnext_tiny", "features.3", "features.1", None),
        ("timm:resnet18", "layer2", "layer1", None),
        ("resnet18", "layer3", "layer2", Windows(32, 16)),
        ("resnet18", "layer3", "layer2", Windows(16, 16, "layer1")),
    ],
)
def test_stem_and_tail_together_are_the_network(name: str, at: str, frozen: str, windows: Windows | None) -> None:
    backbone = Backbone(zoo.build(name), at, (64, 64), (), windows).eval()
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        whole = backbone(images)
        backbone.freeze(frozen, (64, 64))
        parted = backbone.tail_maps(backbone.stem(images))[-1]
        assert torch.equal(parted, whole)
        assert torch.equal(backbone(images), whole)
        backbone.freeze("all", (64, 64))
        assert torch.equal(backbone.stem(images), whole)


def test_what_is_frozen_neither_learns_nor_changes_its_statistics() -> None:
    backbone = Backbone(zoo.build("resnet18"), "layer2", (32, 32))
    backbone.freeze("layer1", (32, 32))
    backbone.train()
    frozen = backbone.frozen_parameters()
    names = {name for name, parameter in backbone.network.named_parameters() if parameter in frozen}
    assert names == {name for name, _ in backbone.network.named_parameters() if not name.startswith("layer2")}
    assert not backbone.network.get_submodule("layer1.0.bn1").training
    assert backbone.network.get_submodule("layer2.0.bn1").training
    assert set(backbone.frozen_state()) == {
        name for name in backbone.network.state_dict() if not name.startswith("layer2")
    }


def test_a_copy_of_a_backbone_has_parts_of_its_own() -> None:
    backbone = Backbone(zoo.build("resnet18"), "layer2", (32, 32), (), Windows(16, 16, "layer1")).eval()
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        before = backbone(images)
        other = copy.deepcopy(backbone)
        for parameter in other.parameters():
            parameter.zero_()
        assert torch.equal(backbone(images), before)
        assert not np.allclose(other(images), before)


@pytest.mark.parametrize("windows", [Windows(32, 16), Windows(16, 16, "layer1")], ids=["image", "layer1"])
def test_learning_through_a_few_windows_at_once_gives_the_same_gradients(windows: Windows) -> None:
    backbone = Backbone(zoo.build("resnet18"), "layer2", (64, 64), (), windows).eval()
    images = torch.randn(2, 3, 64, 64)
    gradients = []
    for at_once in (None, 5):
        backbone.windows_at_once = at_once
        backbone.zero_grad()
        maps = backbone(images)
        (maps * torch.linspace(-1, 1, maps.numel()).reshape(maps.shape)).sum().backward()
        learns = [parameter.grad.flatten() for parameter in backbone.parameters() if parameter.grad is not None]
        gradients.append((maps.detach(), torch.cat(learns)))
    torch.testing.assert_close(gradients[1][0], gradients[0][0])
    scale = gradients[0][1].abs().max()
    torch.testing.assert_close(gradients[1][1] / scale, gradients[0][1] / scale, rtol=1e-4, atol=1e-5)
    backbone.train()
    with pytest.raises(ValueError, match=r"statistics of all windows.*--frozen-statistics"):
        backbone(images)

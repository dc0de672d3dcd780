"""Transformers of timm on windows: built for the window's size, their cells see the window and nothing else."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.fields import receptive_fields
from pixpnet.fields.verify import verify_fields
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import CutError, PixPNet
from pixpnet.model.build import build_backbone
from pixpnet.model.weights import WeightsError
from pixpnet.windows import Windows, window_starts
from pixpnet.zoo import InputSizeError

VIT, SWIN, DINO = "timm:vit_tiny_patch16_224", "timm:swin_tiny_patch4_window7_224", "timm:vit_small_patch14_dinov2"

pytestmark = pytest.mark.filterwarnings("ignore::pixpnet.model.FieldWarning")


@pytest.mark.parametrize(
    ("name", "at", "size", "windows"),
    [
        (VIT, "blocks.1", 64, Windows(32, 16)),
        (SWIN, "layers.1", 64, Windows(32, 20)),  # 8 x 8 tokens: attention in windows of 7, padded and shifted
        pytest.param(VIT, "norm", 224, Windows(96, 64), marks=pytest.mark.slow),
        pytest.param(SWIN, "norm", 224, Windows(112, 56), marks=pytest.mark.slow),
        pytest.param(DINO, "norm", 224, Windows(98, 63), marks=pytest.mark.slow),
        pytest.param("timm:vit_small_patch14_reg4_dinov2", "norm", 224, Windows(98, 63), marks=pytest.mark.slow),
        pytest.param("timm:swinv2_tiny_window8_256", "norm", 224, Windows(128, 96), marks=pytest.mark.slow),
    ],
)
def test_tokens_of_a_window_see_the_window_and_nothing_else_and_the_probe_agrees(
    name: str, at: str, size: int, windows: Windows
) -> None:
    backbone = build_backbone(name, at, "none", size, 0, (), windows).eval()
    field = receptive_fields(backbone, (3, size, size))[""]
    starts = window_starts(size, windows.size, windows.stride)
    assert field.shape[1:] == (len(starts), len(starts))
    for row, top in enumerate(starts):
        for col, left in enumerate(starts):
            assert field.boxes(row, col) == [(top, left, top + windows.size, left + windows.size)]
    assert not verify_fields(backbone, (3, size, size), pixels=4).disagreements


def test_pixels_outside_a_window_never_change_its_cell() -> None:
    backbone = build_backbone(VIT, "blocks.1", "none", 64, 0, (), Windows(32, 32)).eval()
    images = torch.randn(1, 3, 64, 64)
    changed = images.clone()
    changed[..., 32:] = torch.randn(1, 3, 64, 32)
    with torch.no_grad():
        before, after = backbone(images), backbone(changed)
    assert torch.equal(before[..., 0], after[..., 0])
    assert not torch.isclose(before[..., 1], after[..., 1]).all()


@pytest.mark.parametrize(("name", "at"), [(VIT, "blocks.1"), (SWIN, "layers.0")])
def test_a_transformer_on_windows_can_learn(name: str, at: str) -> None:
    backbone = build_backbone(name, at, "none", 64, 0, (), Windows(32, 32)).train()
    backbone(torch.randn(1, 3, 64, 64)).square().sum().backward()
    gradients = [parameter.grad for parameter in backbone.parameters()]
    assert gradients and all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_a_size_that_patches_do_not_divide_is_refused_with_the_nearest_that_they_do() -> None:
    with pytest.raises(InputSizeError, match="14 pixels, which do not divide 100: take 98 or 112"):
        build_backbone(DINO, "norm", "none", 224, 0, (), Windows(100, 50))
    with pytest.raises(InputSizeError, match="do not divide 72: take 64 or 80"):
        zoo.build(VIT, "meta", (72, 72))
    with pytest.raises(InputSizeError, match="do not divide 8: take 16 pixels"):
        zoo.build(VIT, "meta", (8, 8))


def test_windows_of_a_transformer_are_cut_from_the_image() -> None:
    with pytest.raises(CutError, match="cut from the image, not from the map of 'patch_embed': leave out"):
        build_backbone(VIT, "norm", "none", 96, 0, (), Windows(32, 16, "patch_embed"))


def test_a_transformer_of_torchvision_has_one_size_and_the_error_names_one_that_has_not() -> None:
    with pytest.raises(CutError, match=r"--window 224.*timm:vit_small_patch16_224"):
        build_backbone("vit_b_32", "encoder.ln", "none", 128, 0, (), Windows(64, 64))


def test_networks_that_take_any_size_are_built_as_ever() -> None:
    assert str(zoo.build("timm:resnet18", "meta", (96, 96))) == str(zoo.build("timm:resnet18", "meta"))
    assert zoo.takes_one_size(SWIN) and not zoo.takes_one_size("timm:convnext_atto")
    assert zoo.build(VIT, "meta").pos_embed.shape == zoo.build(VIT, "meta", (224, 224)).pos_embed.shape


def test_a_file_of_weights_for_another_size_is_taken_and_its_position_embedding_interpolated(tmp_path: Path) -> None:
    path = tmp_path / "vit.safetensors"
    torch.manual_seed(1)
    pretrained = zoo.build(VIT)
    pretrained.pos_embed.data.normal_()
    save_file(pretrained.state_dict(), path)
    network = build_backbone(VIT, "blocks.1", str(path), 96, 0, (), Windows(32, 32)).network
    assert torch.equal(network.blocks[1].mlp.fc1.weight, pretrained.blocks[1].mlp.fc1.weight)
    # By hand: the class token's stays, the 14 x 14 of the patches become 2 x 2.
    grid = pretrained.pos_embed[0, 1:].T.reshape(1, 192, 14, 14)
    small = F.interpolate(grid, (2, 2), mode="bicubic", antialias=True).reshape(192, 4).T
    torch.testing.assert_close(network.pos_embed[0], torch.cat([pretrained.pos_embed[0, :1], small]))
    # A file that fits as it is stays as it is.
    again = tmp_path / "again.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, again)
    same = build_backbone(VIT, "blocks.1", str(again), 96, 3, (), Windows(32, 32)).network
    assert all(torch.equal(same.state_dict()[name], tensor) for name, tensor in network.state_dict().items())


def test_the_published_names_of_dinov2_are_translated(tmp_path: Path) -> None:
    path = tmp_path / "dinov2_vits14_pretrain.pth"
    state = zoo.build(DINO, input_size=(98, 98)).state_dict()
    state = {name: tensor for name, tensor in state.items() if not name.startswith(("head", "blocks.2", "blocks.3"))}
    torch.save({**state, "mask_token": torch.zeros(1, 384)}, path)
    network = build_backbone(DINO, "blocks.0", str(path), 98, 5, (), Windows(98, 98)).network
    assert torch.equal(network.blocks[0].attn.qkv.weight, state["blocks.0.attn.qkv.weight"])


def test_a_file_of_another_network_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "resnet18.safetensors"
    save_file({"conv1.weight": torch.zeros(64, 3, 7, 7)}, path)
    with pytest.raises(WeightsError, match="does not fit this backbone"):
        build_backbone(VIT, "blocks.1", str(path), 64, 0, (), Windows(32, 32))


def test_a_model_on_windows_is_saved_and_loaded_bit_for_bit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    backbone = build_backbone(VIT, "blocks.0", "none", 64, 0, (), Windows(32, 16))
    model = PixPNet(
        backbone, Architecture(dim=8, prototypes_per_class=2), ("a", "b"), Preprocessing(64, 64), VIT
    ).eval()
    model.save(tmp_path / "model.safetensors")
    again = PixPNet.load(tmp_path / "model.safetensors")
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(model(images).logits, again(images).logits)
    assert again.backbone.windows == Windows(32, 16)

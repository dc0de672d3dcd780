"""Edited networks: built with their weights, saved, and loaded as they were; a card that does not fit is refused."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import FieldWarning, ModelFileError, PixPNet
from pixpnet.model.build import build_backbone, build_model
from tests.model.test_edits import random_weights

KEY = "pixpnet"


def up_to_the_cut(path: Path) -> dict[str, Tensor]:
    """A file of a trained network that ends behind its second stage."""
    state = random_weights(zoo.build("small-61"), seed=5).state_dict()
    remaining = {name: tensor for name, tensor in state.items() if not name.startswith("stage3")}
    save_file(remaining, path)
    return remaining


def test_weights_of_a_file_go_into_the_network_before_it_is_edited(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    state = up_to_the_cut(file)
    edits = ("pointwise:stage2.wider", "drop:stage1.wider", "unstride:stage2.halve")
    backbone = build_backbone("small-61", "stage2", str(file), 32, 0, edits)
    made = backbone.network.state_dict()
    summed = state["stage2.wider.conv.weight"].sum((2, 3), keepdim=True)
    torch.testing.assert_close(made.pop("stage2.wider.conv.weight"), summed)
    dropped = {name for name in state if name.startswith("stage1.wider")}
    assert set(state) - set(made) == {"stage2.wider.conv.weight"} | dropped
    assert all(torch.equal(tensor, state[name]) for name, tensor in made.items())
    assert backbone.edits == edits


def test_only_the_field_that_the_edited_backbone_has_is_warned_about(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    up_to_the_cut(file)
    with pytest.warns(FieldWarning):  # 21 of 16 pixels
        build_backbone("small-61", "stage2", str(file), 16, 0)
    with warnings.catch_warnings(action="error"):
        build_backbone("small-61", "stage2", str(file), 16, 0, ("pointwise:stage2.wider", "pointwise:stage1.wider"))


@pytest.fixture
def edited_model() -> PixPNet:
    edits = ("unstride:stage3.halve", "pointwise:stage1.wider", "drop:stage3.mix")
    backbone = build_backbone("small-21", "", None, 32, 3, edits)
    random_weights(backbone, seed=4)
    return build_model(backbone, "small-21", Architecture(dim=6), ("jay", "wren"), Preprocessing().scaled_to(32), 3)


def test_an_edited_model_that_was_saved_answers_bit_by_bit_the_same(edited_model: PixPNet, tmp_path: Path) -> None:
    edited_model.eval().save(tmp_path / "model.safetensors")
    loaded = PixPNet.load(tmp_path / "model.safetensors")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(loaded(images).logits, edited_model(images).logits)
    assert loaded.backbone.edits == edited_model.backbone.edits
    assert loaded.backbone.cut == "after unstride:stage3.halve, pointwise:stage1.wider, drop:stage3.mix"
    assert loaded.field.size == (1 + 4 + 2 * 2 + 2 * 4,) * 2  # halve, (wider), halve, halve with its stride removed
    assert loaded.field.shape == (6, 8, 8)
    for row in range(8):
        for col in range(8):
            assert loaded.field.boxes(row, col) == edited_model.field.boxes(row, col)
    again = tmp_path / "again.safetensors"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def card_of(path: Path) -> dict[str, object]:
    with safe_open(path, framework="pt") as opened:
        card: dict[str, object] = json.loads(opened.metadata()[KEY])
    return card


def test_a_model_without_edits_has_the_card_that_it_always_had(tmp_path: Path) -> None:
    backbone = build_backbone("small-21", "", None, 32, 0)
    model = build_model(backbone, "small-21", Architecture(dim=6), ("a", "b"), Preprocessing().scaled_to(32), 0)
    model.save(tmp_path / "model.safetensors")
    assert list(card_of(tmp_path / "model.safetensors")) == [
        *("format", "backbone", "at", "architecture", "class_names", "preprocessing", "origins")
    ]
    assert PixPNet.load(tmp_path / "model.safetensors").backbone.edits == ()


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ("pointwise:stage1.wider", "card.edits: expected a list"),
        ([1], r"card.edits\[0\]: expected a value of type str"),
        ([["drop:stage3.mix"]], "expected a value of type str"),
        (["__import__:os"], "is no edit"),
        (["drop:" + "x" * 10**6], "names no module"),
        (["drop:stage3.mix"] * 10**5, "stage3.mix is the identity already"),
        (["pointwise:stage1.wider"], "do not fit its card"),
        ([], "do not fit its card"),
    ],
)
def test_a_card_with_other_edits_than_those_of_its_tensors_is_refused(
    edits: object, message: str, edited_model: PixPNet, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    edited_model.save(path)
    card = {**card_of(path), "edits": edits}
    save_file(load_file(path), path, metadata={KEY: json.dumps(card)})
    with pytest.raises(ModelFileError, match=message) as caught:
        PixPNet.load(path)
    assert len(str(caught.value)) < 3000

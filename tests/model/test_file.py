"""Model files: what goes in comes out, and what is no model is refused with the file's name."""

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, ModelFileError, PixPNet
from tests.model.conftest import PREPROCESSING, SIZE, origins_of, small_model
from tests.model.files import parts, refusal, with_card, with_text

# Round trips


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"head": "linear", "own_weight": 2.0, "other_weight": -0.25},
        {"head": "frozen", "distance": "squared_l2", "similarity": "original", "epsilon": 1e-4, "add_on": "kaiming"},
        {"head": "own_class", "prototype_rows": 2, "prototype_cols": 3},
        {"cells": "normalized"},
    ],
)
def test_a_model_that_was_saved_answers_bit_by_bit_the_same(
    squeezed: Backbone, images: Tensor, tmp_path: Path, options: dict[str, Any]
) -> None:
    model = small_model(squeezed, **options)
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():  # not what any first weights could be
        parameter.data += 0.01 * torch.randn(parameter.shape, generator=generator)
    model.origins = origins_of(model)
    model.train().save(tmp_path / "model.safetensors")
    assert model.training
    loaded = PixPNet.load(tmp_path / "model.safetensors")
    with torch.no_grad():
        expected, result = model.eval()(images), loaded(images)
    assert torch.equal(result.logits, expected.logits)
    assert torch.equal(result.matches.distance_maps, expected.matches.distance_maps)
    assert torch.equal(result.matches.cells, expected.matches.cells)
    assert torch.equal(loaded.head.weights(), model.head.weights())
    for parameter, other in zip(model.parameters(), loaded.parameters(), strict=True):
        assert parameter.requires_grad == other.requires_grad


@pytest.mark.parametrize("cells", ["plain", "normalized"])
def test_only_what_earlier_versions_do_not_know_is_kept_from_them(
    squeezed: Backbone, tmp_path: Path, cells: str
) -> None:
    small_model(squeezed, cells=cells).save(tmp_path / "model.safetensors")
    _, card = parts(tmp_path / "model.safetensors")
    assert card["architecture"].get("cells", "plain") == cells
    # Plain cells are what all versions have; with others, a version that knows none must not read it.
    assert ("cells" in card["architecture"]) == (cells == "normalized")
    assert PixPNet.load(tmp_path / "model.safetensors").architecture.cells == cells


def test_what_a_model_remembers_of_itself_comes_back(model: PixPNet, tmp_path: Path) -> None:
    model.save(tmp_path / "model.safetensors")
    loaded = PixPNet.load(str(tmp_path / "model.safetensors"))
    assert loaded.class_names == ("wren", "Grünfink", "日本")
    assert loaded.preprocessing == model.preprocessing
    assert loaded.architecture == model.architecture
    assert loaded.origins == model.origins
    assert isinstance(loaded.origins[2].boxes[0], Box)
    assert (loaded.backbone_name, loaded.backbone.at) == ("squeezenet1_0", "features.2")
    assert torch.equal(loaded.labels, model.labels)
    assert not any(module.training for module in loaded.modules())


def test_a_model_without_origins_has_none_after_loading(squeezed: Backbone, tmp_path: Path) -> None:
    small_model(squeezed).save(tmp_path / "model.safetensors")
    assert PixPNet.load(tmp_path / "model.safetensors").origins is None


def test_saving_what_was_loaded_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    PixPNet.load(saved).save(tmp_path / "again.safetensors")
    tensors, card = parts(tmp_path / "again.safetensors")
    expected, expected_card = parts(saved)
    assert card == expected_card
    assert list(tensors) == list(expected)
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)


def test_loading_leaves_the_random_numbers_of_the_process_alone(saved: Path) -> None:
    before = torch.get_rng_state()
    PixPNet.load(saved)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_backbone_that_has_one_module_under_two_names_is_saved_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: Tensor
) -> None:
    (tmp_path / "module_under_two_names.py").write_text(
        "from torch import nn\n\n"
        "class Twice(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first = nn.Conv2d(3, 4, 3, stride=2)\n"
        "        self.second = self.first\n\n"
        "    def forward(self, images):\n"
        "        return self.first(images) + self.second(images)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name, file = "module_under_two_names:Twice", tmp_path / "model.safetensors"
    made = PixPNet(Backbone(zoo.build(name), "", (SIZE, SIZE)), Architecture(dim=6), ("a", "b"), PREPROCESSING, name)
    made.eval().save(file)
    weights = load_file(file)
    assert torch.equal(weights["backbone.network.first.weight"], weights["backbone.network.second.weight"])
    loaded = PixPNet.load(file, trust_code=True)
    network = loaded.backbone.network
    assert network.first is network.second
    with torch.no_grad():
        assert torch.equal(loaded(images).logits, made(images).logits)


def test_a_model_whose_backbone_has_no_name_cannot_be_saved(model: PixPNet, tmp_path: Path) -> None:
    model.backbone_name = ""
    with pytest.raises(ValueError, match="needs backbone_name"):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_be_written_leaves_the_one_that_was_there(
    model: PixPNet, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(saved.read_bytes())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert [result.name for result in tmp_path.iterdir()] == ["model.safetensors"]


# Files that are no models


def test_a_path_without_a_model_is_named(tmp_path: Path) -> None:
    assert "there is no model" in refusal(tmp_path / "nothing.safetensors")
    assert f"is {tmp_path} a finished run?" in refusal(tmp_path)


@settings(max_examples=40)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_refused(saved: Path, tmp_path_factory: pytest.TempPathFactory, fraction: float) -> None:
    whole = saved.read_bytes()
    path = tmp_path_factory.mktemp("cut") / "model.safetensors"
    path.write_bytes(whole[: int(len(whole) * fraction)])
    assert "is damaged or no safetensors file" in refusal(path)


@given(noise=st.binary(max_size=200), length=st.none() | st.integers(0, 300))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, noise: bytes, length: int | None) -> None:
    path = tmp_path_factory.mktemp("noise") / "model.safetensors"
    path.write_bytes((b"" if length is None else struct.pack("<Q", length)) + noise)
    refusal(path)


@settings(max_examples=100)
@given(data=st.data())
def test_a_flipped_byte_in_the_header_is_refused_or_makes_another_good_file(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(saved.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    content[data.draw(st.integers(0, 8 + length - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flipped") / "model.safetensors"
    path.write_bytes(content)
    try:
        assert isinstance(PixPNet.load(path), PixPNet)
    except ModelFileError as error:
        assert str(path) in str(error)


def test_tensors_without_a_card_are_no_model(tmp_path: Path) -> None:
    for metadata in (None, {}, {"format": "pt"}):
        save_file({"weight": torch.ones(2)}, tmp_path / "other.safetensors", metadata=metadata)
        assert "was not written by pixpnet" in refusal(tmp_path / "other.safetensors")


@pytest.mark.parametrize("opening", ["[", '{"format": 1, "at": [', '{"format": [', '{"format":'])
def test_a_card_that_is_nested_deeply_is_refused(tmp_path: Path, opening: str) -> None:
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    # Around Python's limit there is a depth that can be read, but no longer be shown in a message.
    limit = sys.getrecursionlimit()
    for depth in (5, *range(limit - 250, limit + 1), 10**5):
        text = opening + "[" * depth + "]" * depth + closing
        refusal(with_text({"weight": torch.ones(1)}, text, tmp_path))


@pytest.mark.parametrize("text", ["", "{", '{"format": 1', "nonsense", "\x00", '{"format": 1e', "[" * 10**5])
def test_a_card_that_is_no_json_is_refused(saved: Path, tmp_path: Path, text: str) -> None:
    assert "is damaged" in refusal(with_text(parts(saved)[0], text, tmp_path))


def test_numbers_of_more_digits_than_python_reads_are_refused(saved: Path, tmp_path: Path) -> None:
    tensors, card = parts(saved)
    text = json.dumps(card).replace('"dim": 6', f'"dim": {"9" * 5000}')
    assert "is damaged" in refusal(with_text(tensors, text, tmp_path))


@pytest.mark.parametrize("text", ["null", "[]", "3", '"card"', "{}"])
def test_a_card_that_is_no_record_is_refused(saved: Path, tmp_path: Path, text: str) -> None:
    refusal(with_text(parts(saved)[0], text, tmp_path))


@pytest.mark.parametrize("number", [0, 2, -1, "1", 1.5, None, [1], True])
def test_another_format_is_named(saved: Path, tmp_path: Path, number: object) -> None:
    message = refusal(with_card(saved, tmp_path, lambda card: card.update(format=number)))
    assert f"format {number!r}" in message or "card.format" in message


def test_a_file_without_a_format_is_refused(saved: Path, tmp_path: Path) -> None:
    assert "format None" in refusal(with_card(saved, tmp_path, lambda card: card.pop("format")))

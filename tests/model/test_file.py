"""Model files: what goes in comes out, whatever is wrong with a file is said, and nothing in a file runs."""

import json
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.model import Backbone, ModelFileError, Origin, PixPNet
from pixpnet.model.file import prototypes_listing
from pixpnet.recipe import Architecture
from tests.model.conftest import PREPROCESSING, SIZE, origins_of, small_model

KEY = "pixpnet"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def saved(squeezed: Backbone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good file, its folder holding nothing else; tests change copies."""
    model = small_model(squeezed, head="linear")
    model.origins = origins_of(model)
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    model.save(path)
    return path


def parts(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file and its card, by the published library alone."""
    with safe_open(path, framework="pt") as opened:
        return load_file(path), json.loads(opened.metadata()[KEY])


def with_card(saved: Path, tmp_path: Path, change: Change) -> Path:
    """A copy with another card."""
    tensors, card = parts(saved)
    change(card)
    return with_text(tensors, json.dumps(card), tmp_path)


def with_text(tensors: dict[str, Tensor], text: str, tmp_path: Path) -> Path:
    save_file(tensors, tmp_path / "changed.safetensors", metadata={KEY: text})
    return tmp_path / "changed.safetensors"


def with_tensors(saved: Path, tmp_path: Path, change: Callable[[dict[str, Tensor]], object]) -> Path:
    """A copy with other tensors."""
    tensors, card = parts(saved)
    change(tensors)
    return with_text(tensors, json.dumps(card), tmp_path)


def refusal(path: Path) -> str:
    """What is said of a file that is not loaded; it always names the file."""
    with pytest.raises(ModelFileError) as caught:
        PixPNet.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Two gigabytes more than now, and not a byte further."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


# Round trips


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"head": "linear", "own_weight": 2.0, "other_weight": -0.25},
        {"head": "frozen", "distance": "squared_l2", "similarity": "original", "epsilon": 1e-4, "add_on": "kaiming"},
        {"head": "own_class", "prototype_rows": 2, "prototype_cols": 3},
        {"cells": "normalised"},
    ],
)
def test_a_model_that_was_saved_answers_bit_by_bit_the_same(
    squeezed: Backbone, images: Tensor, tmp_path: Path, how: dict[str, Any]
) -> None:
    model = small_model(squeezed, **how)
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():  # not what any first weights could be
        parameter.data += 0.01 * torch.randn(parameter.shape, generator=generator)
    model.origins = origins_of(model)
    model.train().save(tmp_path / "model.safetensors")
    assert model.training
    loaded = PixPNet.load(tmp_path / "model.safetensors")
    with torch.no_grad():
        expected, found = model.eval()(images), loaded(images)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.matches.distance_maps, expected.matches.distance_maps)
    assert torch.equal(found.matches.best, expected.matches.best)
    assert torch.equal(loaded.head.weights(), model.head.weights())
    for parameter, other in zip(model.parameters(), loaded.parameters(), strict=True):
        assert parameter.requires_grad == other.requires_grad


def test_a_file_from_before_cells_could_be_normalised_has_plain_ones(
    saved: Path, tmp_path: Path, images: Tensor
) -> None:
    older = PixPNet.load(with_card(saved, tmp_path, lambda card: card["architecture"].pop("cells")))
    assert older.architecture.cells == "plain"
    assert torch.equal(older(images).logits, PixPNet.load(saved)(images).logits)


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
    loaded = PixPNet.load(file, own_code=True)
    network = loaded.backbone.network
    assert network.first is network.second
    with torch.no_grad():
        assert torch.equal(loaded(images).logits, made(images).logits)


def test_a_model_whose_backbone_has_no_name_cannot_be_saved(model: PixPNet, tmp_path: Path) -> None:
    model.backbone_name = ""
    with pytest.raises(ValueError, match="needs backbone_name"):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


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


# Cards in which something cannot be


@pytest.mark.parametrize("name", ["backbone", "at", "architecture", "class_names", "preprocessing", "origins"])
def test_a_missing_field_is_refused(saved: Path, tmp_path: Path, name: str) -> None:
    message = refusal(with_card(saved, tmp_path, lambda card: card.pop(name)))
    assert "card: expected the fields" in message
    assert name in message


@pytest.mark.parametrize("path", [(), ("architecture",), ("preprocessing",), ("origins", 0)])
def test_a_field_that_nobody_knows_is_refused(saved: Path, tmp_path: Path, path: tuple[Any, ...]) -> None:
    def change(card: dict[str, Any]) -> None:
        record: Any = card
        for step in path:
            record = record[step]
        record["surprise"] = 1

    assert "'surprise'" in refusal(with_card(saved, tmp_path, change))


WRONG: list[tuple[tuple[Any, ...], object, str]] = [
    (("backbone",), 3, "card.backbone"),
    (("at",), None, "card.at"),
    (("architecture",), [], "card.architecture"),
    (("architecture", "dim"), "6", "card.architecture.dim"),
    (("architecture", "dim"), 6.0, "card.architecture.dim"),
    (("architecture", "dim"), True, "card.architecture.dim"),
    (("architecture", "dim"), 0, "dim is above 0"),
    (("architecture", "dim"), -6, "dim is above 0"),
    (("architecture", "epsilon"), float("nan"), "card.architecture.epsilon"),
    (("architecture", "epsilon"), float("inf"), "card.architecture.epsilon"),
    (("architecture", "epsilon"), 10**400, "card.architecture.epsilon"),
    (("architecture", "epsilon"), 0, "epsilon is above 0"),
    (("architecture", "own_weight"), float("nan"), "card.architecture.own_weight"),
    (("architecture", "head"), "__import__", "card.architecture.head"),
    (("architecture", "head"), ["linear"], "card.architecture.head"),
    (("architecture", "distance"), None, "card.architecture.distance"),
    (("class_names",), "abc", "card.class_names"),
    (("class_names",), ["a", 2, "c"], r"card.class_names[1]"),
    (("class_names",), {"a": 1, "b": 2, "c": 3}, "card.class_names"),
    (("preprocessing", "size"), 40.0, "card.preprocessing.size"),
    (("preprocessing", "size"), 0, "card.preprocessing"),
    (("preprocessing", "crop"), 60, "card.preprocessing"),
    (("preprocessing", "mean"), [0.5, 0.5], "card.preprocessing.mean"),
    (("preprocessing", "std"), [0.5, 0.5, 0.0], "card.preprocessing"),
    (("preprocessing", "std"), [0.5, 0.5, float("nan")], "card.preprocessing.std[2]"),
    (("origins",), {}, "card.origins"),
    (("origins", 1), None, "card.origins[1]"),
    (("origins", 1, "boxes"), [[0, 0, 1]], "card.origins[1].boxes[0]"),
    (("origins", 1, "boxes"), [[0, 0, 1, "1"]], "card.origins[1].boxes[0][3]"),
    (("origins", 1, "to_source"), [1.0] * 8, "card.origins[1].to_source"),
    (("origins", 1, "distance"), float("inf"), "card.origins[1].distance"),
    (("origins", 1, "image"), 7, "card.origins[1].image"),
]


@pytest.mark.parametrize(("path", "value", "names"), WRONG)
def test_a_value_that_cannot_be_is_refused_and_the_field_named(
    saved: Path, tmp_path: Path, path: tuple[Any, ...], value: object, names: str
) -> None:
    def change(card: dict[str, Any]) -> None:
        record: Any = card
        for step in path[:-1]:
            record = record[step]
        record[path[-1]] = value

    assert names in refusal(with_card(saved, tmp_path, change))


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["origins"].pop(),
        lambda card: card["origins"].append(card["origins"][0]),
        lambda card: card.update(origins=[]),
        lambda card: card["origins"].reverse(),
        lambda card: card["origins"][3].update(label=0),
        lambda card: card["origins"][3].update(label=99),
        lambda card: card["origins"][3].update(prototype=2),
        lambda card: card["origins"][3].update(prototype=-1),
    ],
)
def test_origins_that_are_not_those_of_the_prototypes_are_refused(saved: Path, tmp_path: Path, change: Change) -> None:
    message = refusal(with_card(saved, tmp_path, change))
    assert "origins" in message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda card: card.update(backbone="squeezenet9"), "torchvision has no classifier 'squeezenet9'"),
        (lambda card: card.update(backbone=""), "torchvision has no classifier ''"),
        (lambda card: card.update(backbone="timm:../../nothing"), "timm has no model"),
        (lambda card: card.update(at="features.99"), "features.99"),
        (lambda card: card.update(at="features.2["), "features.2["),
        (lambda card: card.update(at=""), "(1000,); prototypes need channels, rows and columns"),
        (lambda card: card["preprocessing"].update(size=2), "cannot be built"),
    ],
)
def test_a_network_that_there_is_not_is_refused(saved: Path, tmp_path: Path, change: Change, says: str) -> None:
    message = refusal(with_card(saved, tmp_path, change))
    assert says in message
    assert "cannot be built" in message


@pytest.mark.parametrize("names", [[], ["alone"]])
def test_fewer_than_two_classes_are_refused(saved: Path, tmp_path: Path, names: list[str]) -> None:
    def change(card: dict[str, Any]) -> None:
        card.update(class_names=names, origins=None)

    refusal(with_card(saved, tmp_path, change))


# Code


@pytest.mark.parametrize(
    "name", ["os:getcwd", "builtins:exit", "os.path:join", ":", "a:", ":b", "torchvision.models:resnet18", "TIMM:x"]
)
def test_a_backbone_that_is_code_is_refused(saved: Path, tmp_path: Path, name: str) -> None:
    message = refusal(with_card(saved, tmp_path, lambda card: card.update(backbone=name)))
    assert repr(name) in message
    assert "if you trust the file, allow it (own_code=True" in message


OWN_MODULE = """
from pathlib import Path
Path({trace!r}).touch()
import torchvision
def build():
    return torchvision.models.squeezenet1_0()
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that leaves a file `trace` behind when it is imported."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own_backbone_of_a_test.py").write_text(OWN_MODULE.format(trace=str(tmp_path / "trace")))
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield "own_backbone_of_a_test"
    sys.modules.pop("own_backbone_of_a_test", None)


def test_own_code_is_not_even_imported_unless_that_is_allowed(
    saved: Path, tmp_path: Path, own_module: str, images: Tensor
) -> None:
    path = with_card(saved, tmp_path, lambda card: card.update(backbone=f"{own_module}:build"))
    refusal(path)
    assert own_module not in sys.modules
    assert not (tmp_path / "trace").exists()
    loaded = PixPNet.load(path, own_code=True)
    assert (tmp_path / "trace").exists()
    with torch.no_grad():
        assert torch.equal(loaded(images).logits, PixPNet.load(saved)(images).logits)


def test_own_code_that_builds_no_network_is_refused_though_allowed(saved: Path, tmp_path: Path) -> None:
    path = with_card(saved, tmp_path, lambda card: card.update(backbone="os:getcwd"))
    with pytest.raises(ModelFileError, match="gave a str"):
        PixPNet.load(path, own_code=True)


# Tensors that do not fit


@pytest.mark.parametrize(
    "name", ["backbone.network.features.0.weight", "add_on.0.bias", "prototype_layer.prototypes", "head.weight"]
)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_single_number_that_is_not_finite_is_refused(saved: Path, tmp_path: Path, name: str, bad: float) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors[name].view(-1)[-1] = bad

    assert "not finite" in refusal(with_tensors(saved, tmp_path, change))


def test_a_number_that_is_finite_in_the_file_only_is_refused(saved: Path, tmp_path: Path) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors["head.weight"] = torch.full((3, 6), 1e300, dtype=torch.float64)

    assert "not finite" in refusal(with_tensors(saved, tmp_path, change))


@pytest.mark.parametrize(
    "name",
    [
        *("backbone.network.features.0.weight", "add_on.0.weight", "add_on.0.bias", "add_on.2.weight"),
        *("prototype_layer.prototypes", "head.weight"),
    ],
)
@pytest.mark.parametrize("what", ["missing", "longer", "shorter", "flat", "a number", "transposed"])
def test_a_tensor_that_does_not_fit_is_refused_and_named(saved: Path, tmp_path: Path, name: str, what: str) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        tensor = tensors.pop(name)
        others = {
            "longer": torch.cat([tensor, tensor]),
            "shorter": tensor[1:].contiguous(),
            "flat": tensor.flatten() if tensor.dim() > 1 else tensor[None],
            "a number": tensor.sum(),
            "transposed": tensor[None].transpose(0, -1).contiguous(),
        }
        if what in others:
            tensors[name] = others[what]

    message = refusal(with_tensors(saved, tmp_path, change))
    assert "do not fit its card" in message
    assert name in message


def test_a_tensor_that_nobody_asked_for_is_refused(saved: Path, tmp_path: Path) -> None:
    path = with_tensors(saved, tmp_path, lambda tensors: tensors.update(more=torch.ones(1)))
    assert '"more"' in refusal(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["architecture"].update(dim=7),
        lambda card: card["architecture"].update(prototype_rows=2),
        lambda card: card["architecture"].update(prototypes_per_class=1) or card.update(origins=None),
        lambda card: card["class_names"].append("another") or card.update(origins=None),
        lambda card: card["architecture"].update(head="class_sum"),
        lambda card: card["architecture"].update(head="own_class"),
        lambda card: card.update(backbone="squeezenet1_1"),
        lambda card: card.update(at="features.5"),
    ],
)
def test_a_card_of_another_network_is_refused(saved: Path, tmp_path: Path, change: Change) -> None:
    assert "do not fit its card" in refusal(with_card(saved, tmp_path, change))


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["architecture"].update(dim=10**9),
        lambda card: card["architecture"].update(dim=40_000),  # two convolutions of 6.4 GB
        lambda card: card["architecture"].update(dim=10**30),
        lambda card: card["architecture"].update(prototypes_per_class=10**9),
        lambda card: card["architecture"].update(prototype_rows=10**6, prototype_cols=10**6),
        lambda card: card.update(class_names=["a", "b"] * 10**5),
        lambda card: card["preprocessing"].update(size=4097),
        lambda card: card["preprocessing"].update(size=30_000),
        lambda card: card["preprocessing"].update(size=10**9),
        lambda card: card["preprocessing"].update(size=10**30),
        lambda card: card.update(backbone="small-8000000005", at=""),
    ],
)
def test_a_card_that_asks_for_a_huge_network_is_refused_before_it_is_built(
    saved: Path, tmp_path: Path, change: Change, little_memory: None
) -> None:
    def without_origins(card: dict[str, Any]) -> None:
        card["origins"] = None
        change(card)

    message = refusal(with_card(saved, tmp_path, without_origins))
    assert len(message) < 1000
    assert "allocate" not in message  # refused for what it says, not by what happened


def test_empty_tensors_do_not_vouch_for_a_huge_network(saved: Path, tmp_path: Path, little_memory: None) -> None:
    # Tensors of no numbers may have any shape and take no room in a file.
    tensors, card = parts(saved)
    card.update(class_names=[], origins=None)
    card["architecture"].update(dim=6, prototype_rows=10**6, prototype_cols=10**6)
    tensors["prototype_layer.prototypes"] = torch.empty(0, 6, 10**6, 10**6)
    tensors["head.weight"] = torch.empty(0, 0)
    assert "at least two classes" in refusal(with_text(tensors, json.dumps(card), tmp_path))


# Run folders


@pytest.fixture
def run(model: PixPNet, tmp_path: Path) -> Path:
    """The two files of a finished run."""
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "prototypes.json").write_text(prototypes_listing(model), encoding="utf-8")
    return tmp_path


def test_a_run_folder_is_loaded_as_its_file_is(run: Path, model: PixPNet, images: Tensor) -> None:
    loaded = PixPNet.load(run)
    assert loaded.origins == model.origins
    with torch.no_grad():
        assert torch.equal(loaded(images).logits, model(images).logits)


def test_the_list_of_prototypes_says_for_people_what_the_origins_say(run: Path, model: PixPNet) -> None:
    listed = json.loads((run / "prototypes.json").read_text(encoding="utf-8"))
    assert [entry["class"] for entry in listed] == ["wren", "wren", "Grünfink", "Grünfink", "日本", "日本"]
    assert listed[3] == {
        "class": "Grünfink",
        "prototype": 3,
        "label": 1,
        "image": "images/ü 3.jpg",
        "row": 3,
        "col": 2,
        "boxes": [[0, 3, 5, 7], [6, 0, 7, 1]],
        "to_source": [1.25, 0.0, -3.0, 0.0, 1.1, 2.0, 0.0, 0.0, 1.0],
        "distance": pytest.approx(0.3),
        "unique": "image",
    }


def test_a_list_of_prototypes_that_is_missing_damaged_or_anothers_is_refused(run: Path) -> None:
    path = run / "prototypes.json"
    text = path.read_text(encoding="utf-8")
    other = json.loads(text)
    other[2]["row"] += 1
    broken = {
        text[: len(text) // 2]: "is damaged",
        "": "is damaged",
        "[" * 10**5: "is damaged",
        "\ud800": "is damaged",
        "[]": "does not belong",
        "null": "does not belong",
        json.dumps(other): "does not belong",
        json.dumps(json.loads(text)[:-1]): "does not belong",
        text.replace("wren", "robin"): "does not belong",
    }
    for content, says in broken.items():
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        message = refusal_of_a_run(run)
        assert says in message
        assert "pixpnet train --resume" in message
    path.unlink()
    assert "is missing" in refusal_of_a_run(run)
    PixPNet.load(run / "model.safetensors")  # what the message recommends


def refusal_of_a_run(run: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        PixPNet.load(run)
    assert str(run / "prototypes.json") in str(caught.value)
    return str(caught.value)


def test_a_run_without_origins_lists_no_prototypes(squeezed: Backbone, tmp_path: Path) -> None:
    model = small_model(squeezed)
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "prototypes.json").write_text(prototypes_listing(model))
    assert json.loads(prototypes_listing(model)) == []
    assert PixPNet.load(tmp_path).origins is None


@given(
    tops=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5
    )
)
def test_the_hull_of_an_origin_is_the_smallest_box_around_its_field(tops: list[tuple[int, int, int, int]]) -> None:
    boxes = tuple(Box(y, x, y + height, x + width) for y, x, height, width in tops)
    seen = torch.zeros(60, 60, dtype=torch.bool)
    for box in boxes:
        seen[box.y0 : box.y1, box.x0 : box.x1] = True
    rows, cols = seen.any(dim=1).nonzero(), seen.any(dim=0).nonzero()
    hull = Origin(0, 0, "", 0, 0, boxes, (0.0,) * 9, 0.0, "image").hull
    assert hull == (int(rows.min()), int(cols.min()), int(rows.max()) + 1, int(cols.max()) + 1)


def test_an_origin_that_sees_nothing_has_no_hull() -> None:
    assert Origin(0, 0, "", 0, 0, (), (0.0,) * 9, 0.0, "image").hull is None


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
    assert [found.name for found in tmp_path.iterdir()] == ["model.safetensors"]

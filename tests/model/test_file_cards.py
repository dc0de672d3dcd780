"""The card of a model file: what cannot be is refused by name, and no code is imported that was not allowed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pixpnet.model import ModelFileError, PixPNet
from tests.model.files import Change, refusal, with_card

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
    assert "if you trust the file, allow it (trust_code=True" in message


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
    loaded = PixPNet.load(path, trust_code=True)
    assert (tmp_path / "trace").exists()
    with torch.no_grad():
        assert torch.equal(loaded(images).logits, PixPNet.load(saved)(images).logits)


def test_own_code_that_builds_no_network_is_refused_though_allowed(saved: Path, tmp_path: Path) -> None:
    path = with_card(saved, tmp_path, lambda card: card.update(backbone="os:getcwd"))
    with pytest.raises(ModelFileError, match="gave a str"):
        PixPNet.load(path, trust_code=True)

"""The tensors of a model file: they are finite and fit the card, or are refused before anything large is built."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.model.files import Change, parts, refusal, with_card, with_tensors, with_text


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
@pytest.mark.parametrize("kind", ["missing", "longer", "shorter", "flat", "a number", "transposed"])
def test_a_tensor_that_does_not_fit_is_refused_and_named(saved: Path, tmp_path: Path, name: str, kind: str) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        tensor = tensors.pop(name)
        others = {
            "longer": torch.cat([tensor, tensor]),
            "shorter": tensor[1:].contiguous(),
            "flat": tensor.flatten() if tensor.dim() > 1 else tensor[None],
            "a number": tensor.sum(),
            "transposed": tensor[None].transpose(0, -1).contiguous(),
        }
        if kind in others:
            tensors[name] = others[kind]

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
        lambda card: card["architecture"].update(prototype_rows=1024, prototype_cols=1024),
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
    card["architecture"].update(dim=6, prototype_rows=1024, prototype_cols=1024)
    tensors["prototype_layer.prototypes"] = torch.empty(0, 6, 1024, 1024)
    tensors["head.weight"] = torch.empty(0, 0)
    assert "at least two classes" in refusal(with_text(tensors, json.dumps(card), tmp_path))

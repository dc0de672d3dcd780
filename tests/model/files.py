"""Model files with another card or other tensors, and what is said of those that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from pixpnet.model import ModelFileError, PixPNet

KEY = "pixpnet"
Change = Callable[[dict[str, Any]], object]


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

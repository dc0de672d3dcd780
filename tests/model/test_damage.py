"""A model file with a flipped bit, or with origins that cannot be, is refused before anything is shown of it."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pixpnet.model import ModelFileError, PixPNet
from tests.model.conftest import SIZE
from tests.model.files import refusal, with_card


def test_a_flipped_bit_anywhere_in_the_tensors_is_noticed(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    generator = torch.Generator().manual_seed(0)
    for index in torch.randint(begin, len(content), (25,), generator=generator).tolist():
        damaged = bytearray(content)
        damaged[index] ^= 1
        path = tmp_path / "damaged.safetensors"
        path.write_bytes(damaged)
        assert "is damaged" in refusal(path)


def test_a_letter_changed_in_the_card_is_noticed(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    assert content.count(b"wren") == 1
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(content.replace(b"wren", b"wran"))
    assert "is damaged" in refusal(path)


def test_a_file_of_an_earlier_version_has_no_digest_and_loads(saved: Path, tmp_path: Path) -> None:
    loaded = PixPNet.load(with_card(saved, tmp_path, lambda card: None))
    assert loaded.origins == PixPNet.load(saved).origins


IMPOSSIBLE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a row below the grid": (lambda origin: origin.update(row=10**6), "of a grid of 8 x 8"),
    "a column before the grid": (lambda origin: origin.update(col=-1), "of a grid of 8 x 8"),
    "another cell": (lambda origin: origin.update(row=origin["row"] + 1), "its cell 3, 2 sees"),
    "no boxes": (lambda origin: origin.update(boxes=[]), "said to see nothing"),
    "a box outside the image": (lambda origin: origin.update(boxes=[[0, 0, SIZE + 1, 5]]), "said to see"),
    "a box inside out": (lambda origin: origin.update(boxes=[[19, 8, 8, 19]]), "said to see"),
    "a negative distance": (lambda origin: origin.update(distance=-1.0), "away from it, and the least is 0"),
    "a mirror": (lambda origin: origin.update(to_source=[-1.0, 0, 0, 0, 1, 0, 0, 0, 1]), "no preprocessing"),
    "a perspective": (lambda origin: origin.update(to_source=[1.0, 0, 0, 0, 1, 0, 0.1, 0, 1]), "no preprocessing"),
    "nowhere": (lambda origin: origin.update(to_source=[1.0, 0, 1e30, 0, 1, 0, 0, 0, 1]), "no preprocessing"),
    "an unknown rule": (lambda origin: origin.update(unique="x"), "the rule 'x'"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_origin_that_cannot_be_is_refused(saved: Path, tmp_path: Path, name: str) -> None:
    change, says = IMPOSSIBLE[name]
    message = refusal(with_card(saved, tmp_path, lambda card: change(card["origins"][2])))
    assert says in message
    assert "prototype 2" in message


def test_an_infinite_distance_is_refused(saved: Path, tmp_path: Path) -> None:
    path = with_card(saved, tmp_path, lambda card: card["origins"][2].update(distance=float("inf")))
    with pytest.raises(ModelFileError, match="finite"):
        PixPNet.load(path)
    assert json.dumps(float("inf")) == "Infinity"  # which JSON of Python writes and reads

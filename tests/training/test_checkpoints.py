"""A run is taken up from its own whole checkpoint and the same data, and from nothing else in its folder."""

import os
import pickle
import shutil
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pixpnet.config import config_text
from pixpnet.training import RunError, resume
from pixpnet.training.run import Run
from tests.training.conftest import Trained
from tests.training.sameness import same

# Checkpoints that are not to be trusted -----------------------------------------------------------------------


def test_a_run_that_lacks_only_its_figures_gets_them(trained: Trained, unfinished: Path) -> None:
    assert resume(unfinished) == trained.metrics
    same(trained.path, unfinished)


class Payload:
    """Creates a file when it is unpickled by someone careless."""

    def __init__(self, victim: Path) -> None:
        self.victim = str(victim)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.victim,)


def damage(kind: str, checkpoint: Path, victim: Path) -> None:
    whole = checkpoint.read_bytes()
    if kind == "empty":
        checkpoint.write_bytes(b"")
    elif kind == "cut short":
        checkpoint.write_bytes(whole[: len(whole) // 2])
    elif kind == "noise":
        checkpoint.write_bytes(bytes(range(256)) * 40)
    elif kind == "of another program":
        torch.save({"weights": torch.zeros(3)}, checkpoint)
    elif kind == "of another network":
        state = torch.load(checkpoint, weights_only=True)
        state["state_dict"].popitem()
        torch.save(state, checkpoint)
    elif kind == "a bad log":
        state = torch.load(checkpoint, weights_only=True)
        state["pixpnet"]["lines"][0]["epoch"] = "one"
        torch.save(state, checkpoint)
    elif kind == "hostile":
        state = torch.load(checkpoint, weights_only=True)
        torch.save({**state, "extra": Payload(victim)}, checkpoint)
    else:
        checkpoint.write_bytes(pickle.dumps(Payload(victim)))


@pytest.mark.parametrize(
    "kind",
    ["empty", "cut short", "noise", "of another program", "of another network", "a bad log", "hostile", "bare pickle"],
)
def test_a_damaged_or_hostile_checkpoint_is_refused_and_runs_nothing(
    unfinished: Path, kind: str, tmp_path: Path
) -> None:
    checkpoint, victim = Run(unfinished).checkpoint, tmp_path / "victim"
    damage(kind, checkpoint, victim)
    with pytest.raises(RunError, match=r"last\.ckpt"):
        resume(unfinished)
    assert not victim.exists()


# What lies beside it in the folder ------------------------------------------------------------------------------


def test_what_a_killed_process_had_begun_to_write_is_swept_away_and_nothing_else_is(
    trained: Trained, unfinished: Path
) -> None:
    folders = (unfinished, unfinished / "checkpoints", unfinished / "prototypes")
    left = [folder / f".{name}.x1y2.part" for folder in folders for name in ("model.safetensors", "last.ckpt")]
    mine = [folder / name for folder in folders for name in ("notes.part", ".part.txt")]
    for path in (*left, *mine):
        path.write_bytes(b"half")
    Run(unfinished).sweep()
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in mine)
    for path in mine:
        path.unlink()
    left[0].write_bytes(b"half")
    resume(unfinished)
    assert not list(unfinished.rglob("*.part"))
    same(trained.path, unfinished)


@pytest.mark.parametrize("change", ["an image fewer", "another image", "a class more", "an image of another class"])
def test_data_that_changed_since_the_run_began_are_named_and_nothing_is_called_damaged(
    trained: Trained, unfinished: Path, change: str, tmp_path: Path
) -> None:
    data = Path(shutil.copytree(trained.config.data.removeprefix("folder:"), tmp_path / "squares"))
    config = replace(trained.config, data=f"folder:{data}")
    Run(unfinished).write("config.yaml", config_text(config))
    image = data / "train" / "red" / "7.png"
    if change == "an image fewer":
        image.unlink()
    elif change == "another image":
        image.write_bytes(pixels_of(image, shift=1))
    elif change == "a class more":
        for split in ("train", "val", "test"):
            for number in range(3):
                path = data / split / "violet" / f"{number}.png"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(pixels_of(data / split / "red" / f"{number}.png", shift=5))
    else:
        image.rename(data / "train" / "green" / "8.png")
    checkpoint = Run(unfinished).checkpoint.read_bytes()
    with pytest.raises(RunError, match=r"squares.* has changed since .*put it back as it was") as refusal:
        resume(unfinished)
    assert "damaged" not in str(refusal.value)
    assert "delete" not in str(refusal.value)
    assert Run(unfinished).checkpoint.read_bytes() == checkpoint
    assert not (unfinished / "metrics.json").exists()


def pixels_of(path: Path, shift: int) -> bytes:
    """A picture like another one, a little to the side."""
    with Image.open(path) as picture:
        moved = np.roll(np.asarray(picture), shift, axis=1)
    written = BytesIO()
    Image.fromarray(moved).save(written, format="png")
    return written.getvalue()

"""A run that is killed, stopped or starved ends as if nothing had happened, or says clearly what to do."""

import csv
import errno
import json
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pixpnet.cli import main
from pixpnet.config import RunConfig, config_text, read_config
from pixpnet.model import ModelFileError, PixPNet
from pixpnet.recipe import Optimisation
from pixpnet.training import RunError, TrainingDiverged, resume, train
from pixpnet.training.fitting import Fitting
from pixpnet.training.run import Run
from tests.training.conftest import Trained
from tests.training.material import in_child, small_config

KILLS = (
    "in the first step",
    "in the middle of an epoch",
    "during the first replacement",
    "during the second replacement",
    "between model and prototypes.json",
    "before the model has its name",
    "before the log is written",
    "before a checkpoint",
    "with half a checkpoint",
    "before a checkpoint has its name",
    "after a checkpoint",
    "after the last checkpoint",
    "among the pictures",
    "before the figures are written",
)


def log_without_seconds(run: Path) -> list[dict[str, str]]:
    with (run / "log.csv").open() as file:
        return [{name: value for name, value in line.items() if name != "seconds"} for line in csv.DictReader(file)]


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, (list, tuple)):
        pairs = list(enumerate(value))
    else:
        return {path: value}
    return {name: leaf for key, item in pairs for name, leaf in flattened(item, f"{path}/{key}").items()}


def same(one: Path, two: Path) -> None:
    """Everything a run leaves is bit for bit the same, but for times."""
    for name in ("model.safetensors", "prototypes.json", "config.yaml", "metrics.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert log_without_seconds(one) == log_without_seconds(two)
    pictures = sorted(path.name for path in (one / "prototypes").iterdir())
    assert pictures == sorted(path.name for path in (two / "prototypes").iterdir())
    for name in pictures:
        assert (one / "prototypes" / name).read_bytes() == (two / "prototypes" / name).read_bytes()
    first, second = (torch.load(run / "checkpoints" / "last.ckpt", weights_only=True) for run in (one, two))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "pixpnet", "epoch", "global_step"):
        here, there = flattened(first[part]), flattened(second[part])
        assert here.keys() == there.keys(), part
        for name in here:
            if isinstance(here[name], torch.Tensor):
                assert torch.equal(here[name], there[name]), f"{part}{name}"
            elif not name.endswith("/seconds"):
                assert here[name] == there[name], f"{part}{name}"


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_run_resumes_to_bit_for_bit_the_same_end(trained: Trained, kill: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert in_child("train", config=trained.config, out=str(out), kill=kill) == -signal.SIGKILL
    assert not (out / "metrics.json").exists()
    assert in_child("resume", out=str(out)) == 0
    same(trained.path, out)
    assert read_config(out / "config.yaml") == trained.config


def test_a_run_that_is_killed_again_and_again_gets_there_too(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert in_child("train", config=trained.config, out=str(out), kill="with half a checkpoint") == -signal.SIGKILL
    for kill in ("in the middle of an epoch", "among the pictures"):
        assert in_child("resume", out=str(out), kill=kill) == -signal.SIGKILL, kill
    assert in_child("resume", out=str(out)) == 0
    same(trained.path, out)


def test_dropout_in_a_backbone_of_ones_own_is_the_same_after_an_interruption(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "dropping_backbone.py").write_text(
        "from torch import nn\n\n"
        "def build():\n"
        "    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5),\n"
        "                         nn.Conv2d(8, 8, 3, stride=2), nn.ReLU())\n"
    )
    config = small_config(pictures, backbone="dropping_backbone:build", weights="none")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert in_child("train", config=config, out=str(whole), path=str(tmp_path)) == 0
    kill = "in the middle of an epoch"
    assert in_child("train", config=config, out=str(killed), path=str(tmp_path), kill=kill) == -signal.SIGKILL
    assert in_child("resume", out=str(killed), path=str(tmp_path)) == 0
    same(whole, killed)


def test_ctrl_c_leaves_a_usable_run_and_says_how_to_go_on(trained: Trained, tmp_path: Path) -> None:
    out, answer = tmp_path / "run", tmp_path / "answer"
    words = ["train", "--config", str(trained.path / "config.yaml"), "--out", str(out)]
    assert in_child("interrupted", words=words, step=5, answer=str(answer)) == 130
    said = answer.read_text()
    assert f"pixpnet train --resume {out}" in said
    assert "Traceback" not in said
    assert PixPNet.load(out).origins is not None  # of the first epoch
    assert in_child("resume", out=str(out)) == 0
    same(trained.path, out)


# Ends that are not the machine's fault ------------------------------------------------------------------------


def test_a_loss_that_is_no_number_ends_with_advice_and_the_last_good_state(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Fitting.training_step

    def step(self: Fitting, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.current_epoch == 1 and batch_idx == 1:
            self.model.prototypes.data.fill_(float("nan"))
        return original(self, batch, batch_idx)

    monkeypatch.setattr(Fitting, "training_step", step)
    out = tmp_path / "run"
    with pytest.raises(TrainingDiverged, match=r"nan in epoch 2, step 2.*lower rates.*is kept in"):
        train(small_config(pictures), out)
    state = torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)
    assert state["epoch"] == 0
    assert all(value.isfinite().all() for value in state["state_dict"].values())
    assert PixPNet.load(out).prototypes.isfinite().all()
    assert not (out / "metrics.json").exists()


def test_weights_that_break_in_the_last_step_of_an_epoch_do_not_replace_the_good_state(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Fitting.on_train_epoch_end

    def end(self: Fitting) -> None:
        if self.current_epoch == 1:
            self.model.add_on[0].weight.data.fill_(float("nan"))
        original(self)

    monkeypatch.setattr(Fitting, "on_train_epoch_end", end)
    out = tmp_path / "run"
    with pytest.raises(TrainingDiverged, match=r"validation loss.*epoch 2.*is kept in"):
        train(small_config(pictures), out)
    assert torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)["epoch"] == 0
    assert PixPNet.load(out).prototypes.isfinite().all()


def test_a_full_disk_is_a_clear_error_and_old_files_stay_whole(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    write, writes = Path.write_bytes, 0

    def full(self: Path, data: bytes) -> int:
        nonlocal writes
        if "model.safetensors" in self.name:
            writes += 1
            if writes == 2:
                write(self, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return write(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        assert main(["train", "--config", str(trained.path / "config.yaml"), "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert "Traceback" not in error
    assert PixPNet.load(out).origins is not None
    assert not list(out.rglob("*.part"))
    resume(out)
    same(trained.path, out)


# Checkpoints that are not to be trusted -----------------------------------------------------------------------


@pytest.fixture
def unfinished(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the run to which only the figures are missing."""
    out = tmp_path / "run"
    shutil.copytree(trained.path, out)
    (out / "metrics.json").unlink()
    return out


def test_a_run_that_lacks_only_its_figures_gets_them(trained: Trained, unfinished: Path) -> None:
    assert resume(unfinished) == trained.metrics
    same(trained.path, unfinished)


class Payload:
    """Creates a file when it is unpickled by someone careless."""

    def __init__(self, victim: Path) -> None:
        self.victim = str(victim)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.victim,)


def damage(how: str, checkpoint: Path, victim: Path) -> None:
    whole = checkpoint.read_bytes()
    if how == "empty":
        checkpoint.write_bytes(b"")
    elif how == "cut short":
        checkpoint.write_bytes(whole[: len(whole) // 2])
    elif how == "noise":
        checkpoint.write_bytes(bytes(range(256)) * 40)
    elif how == "of another program":
        torch.save({"weights": torch.zeros(3)}, checkpoint)
    elif how == "of another network":
        state = torch.load(checkpoint, weights_only=True)
        state["state_dict"].popitem()
        torch.save(state, checkpoint)
    elif how == "a bad log":
        state = torch.load(checkpoint, weights_only=True)
        state["pixpnet"]["lines"][0]["epoch"] = "one"
        torch.save(state, checkpoint)
    elif how == "hostile":
        state = torch.load(checkpoint, weights_only=True)
        torch.save({**state, "extra": Payload(victim)}, checkpoint)
    else:
        checkpoint.write_bytes(pickle.dumps(Payload(victim)))


@pytest.mark.parametrize(
    "how",
    ["empty", "cut short", "noise", "of another program", "of another network", "a bad log", "hostile", "bare pickle"],
)
def test_a_damaged_or_hostile_checkpoint_is_refused_and_runs_nothing(
    unfinished: Path, how: str, tmp_path: Path
) -> None:
    checkpoint, victim = Run(unfinished).checkpoint, tmp_path / "victim"
    damage(how, checkpoint, victim)
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


@pytest.mark.parametrize("change", ["an image fewer", "an image more", "a class more", "an image of another class"])
def test_data_that_changed_since_the_run_began_are_named_and_nothing_is_called_damaged(
    trained: Trained, unfinished: Path, change: str, tmp_path: Path
) -> None:
    data = Path(shutil.copytree(trained.config.data.removeprefix("folder:"), tmp_path / "squares"))
    config = replace(trained.config, data=f"folder:{data}")
    Run(unfinished).write("config.yaml", config_text(config))
    image = data / "train" / "red" / "7.png"
    if change == "an image fewer":
        image.unlink()
    elif change == "an image more":
        # Not a copy of any other.
        image.with_name("8.png").write_bytes(pixels_of(image, shift=1))
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


# Code of one's own -----------------------------------------------------------------------------------------------

OWN_CODE = """
from pathlib import Path
from torch import nn

Path(__file__).with_suffix(".imported").touch()

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())
"""


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with two modules that leave a file beside them when they are imported."""
    folder = tmp_path / "code"
    folder.mkdir()
    names = ("backbone_of_ones_own", "backbone_of_another")
    for name in names:
        (folder / f"{name}.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in names:
        sys.modules.pop(name, None)


def imported(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.imported")}


def test_resuming_imports_code_that_a_run_names_only_if_that_is_allowed_and_no_other(
    pictures: Path, own_code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = Optimisation(epochs=1, warm_up_epochs=0, batch_size=8, views=1)
    config = small_config(pictures, backbone="backbone_of_ones_own:build", weights="none", optimisation=how)
    run = Run.create(tmp_path / "run", config)
    with pytest.raises(RunError, match=r"backbone_of_ones_own:build.*if you trust the run.*own_code=True"):
        resume(run.path)
    assert main(["train", "--resume", str(run.path)]) == 1
    assert "--own_code" in capsys.readouterr().err
    assert imported(own_code) == set()
    assert main(["train", "--resume", str(run.path), "--own_code"]) == 0
    assert imported(own_code) == {"backbone_of_ones_own"}

    # The model file beside it names other code: that was not allowed.
    (run.path / "metrics.json").unlink()
    model = run.path / "model.safetensors"
    rename_backbone(model, "backbone_of_another:build")
    with pytest.raises(ModelFileError, match=r"backbone_of_another:build.*if you trust the file"):
        resume(run.path, own_code=True)
    assert imported(own_code) == {"backbone_of_ones_own"}
    assert not run.finished
    rename_backbone(model, "backbone_of_ones_own:build")
    assert resume(run.path, own_code=True) is not None


def test_a_model_file_with_code_in_a_run_without_is_not_called(unfinished: Path, own_code: Path) -> None:
    rename_backbone(unfinished / "model.safetensors", "backbone_of_another:build")
    for allowed in (False, True):
        with pytest.raises(ModelFileError, match="backbone_of_another:build"):
            resume(unfinished, own_code=allowed)
    assert imported(own_code) == set()


def rename_backbone(file: Path, name: str) -> None:
    """Writes another backbone on the card of a model file."""
    with safe_open(file, framework="pt") as opened:
        card = json.loads(opened.metadata()["pixpnet"])
    save_file(load_file(file), file, metadata={"pixpnet": json.dumps({**card, "backbone": name})})


# Ends before the beginning ----------------------------------------------------------------------------------------


def test_a_missing_accelerator_is_a_clear_error_before_anything_is_made(pictures: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    config = small_config(pictures)
    config = replace(config, trainer=replace(config.trainer, accelerator="gpu"))
    with pytest.raises(RunError, match=r"cannot do --trainer\.accelerator gpu"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rates_that_are_far_too_high_end_clearly(pictures: Path, tmp_path: Path) -> None:
    how = Optimisation(epochs=3, warm_up_epochs=0, batch_size=8, views=1, backbone_rate=1e38, add_on_rate=1e38)
    config: RunConfig = small_config(pictures, optimisation=how)
    with pytest.raises(TrainingDiverged, match="lower rates"):
        train(config, tmp_path / "run")

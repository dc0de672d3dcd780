"""A run that is killed, stopped or starved ends as if nothing had happened, or says clearly what to do."""

import errno
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from pixpnet.cli import main
from pixpnet.config import read_config
from pixpnet.model import PixPNet
from pixpnet.training import RunError, TrainingDiverged, fitting, resume, train
from pixpnet.training.fitting import Fitting
from tests.training.conftest import Trained
from tests.training.material import in_child, small_config
from tests.training.sameness import same

KILLS = (
    "in the first step",
    "in the middle of an epoch",
    "during the first replacement",
    "during the second replacement",
    "between model and prototypes.json",
    "before the model has its name",
    "before the first manifest has its name",
    "before the last manifest has its name",
    "between manifest and log",
    "between manifest and figures",
    "before the log is written",
    "before a checkpoint",
    "with half a checkpoint",
    "before a checkpoint has its name",
    "after a checkpoint",
    "after the last checkpoint",
    "among the pictures",
    "before the figures are written",
)


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
    output = answer.read_text()
    assert f"pixpnet train --resume {out}" in output
    assert "(the model kept so far is in it)" in output
    assert "Traceback" not in output
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


# Ends before the beginning ----------------------------------------------------------------------------------------


def test_a_missing_accelerator_is_a_clear_error_before_anything_is_made(pictures: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    config = small_config(pictures)
    config = replace(config, trainer=replace(config.trainer, device="gpu"))
    with pytest.raises(RunError, match=r"cannot do --device gpu"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_not_finite_ends_clearly(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss_of, steps = fitting.loss_of, count(1)

    def exploding(*given: Any) -> Any:
        loss = loss_of(*given)
        return replace(loss, total=loss.total * float("inf")) if next(steps) == 5 else loss

    monkeypatch.setattr(fitting, "loss_of", exploding)
    with pytest.raises(TrainingDiverged, match=r"inf in epoch 2, step 2: begin anew with lower rates"):
        train(small_config(pictures), tmp_path / "run")
    # What the first epoch learnt is kept.
    assert PixPNet.load(tmp_path / "run").origins is not None

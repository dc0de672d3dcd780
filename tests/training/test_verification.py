"""A run begins by comparing the fields of a backbone that the tests do not know with the NaN probe."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pixpnet as px
from pixpnet.cli import main
from pixpnet.fields.probe import Verification
from pixpnet.settings import Optimization
from pixpnet.training import Nobody, open_run_data, resume, train
from pixpnet.training.run import Run
from tests.training.material import small_config

OWN_CODE = """
import torch
from torch import nn

class LooksAtItsClass(nn.Module):
    def forward(self, x):
        # No Python code can answer this for a tensor without data, so only the probe finds out.
        return x * 1 if isinstance(x, (torch.FloatTensor, torch.DoubleTensor)) else x.flip(3)

def plain():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())

def deceptive():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), LooksAtItsClass(), nn.ReLU())
"""
SHORT = Optimization(epochs=1, warm_up_epochs=0, batch_size=8, views=1)


@pytest.fixture
def trust_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module with a backbone whose fields are exact, and one whose fields are not."""
    (tmp_path / "backbones_to_verify.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "backbones_to_verify"
    sys.modules.pop("backbones_to_verify", None)


class Verified(Nobody):
    """Remembers what was verified."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Verification]] = []

    def fields_verified(self, backbone: str, verification: Verification) -> None:
        """See `Watcher`."""
        self.seen.append((backbone, verification))


def test_a_backbone_whose_fields_the_probe_does_not_confirm_is_refused_before_anything_is_written(
    pictures: Path, trust_code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small_config(pictures, backbone=f"{trust_code}:deceptive", at="2", weights="none")
    with pytest.raises(px.FieldMismatch, match=f"{trust_code}:deceptive 2 .*layer 'network.1'"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    words = ["--data", config.data, "--backbone", config.backbone, "--at", "2", "--weights", "none", "--size", "32"]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 1
    assert "by the NaN probe" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_backbone_of_own_code_is_verified_as_it_is_cut_and_the_person_is_told(
    pictures: Path, trust_code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{trust_code}:plain"
    words = ["--data", f"folder:{pictures}", "--backbone", name, "--at", "1", "--weights", "none", "--size", "32"]
    short = ["--epochs", "1", "--warm-up-epochs", "0", "--views", "1"]
    assert main(["train", *words, *short, "--out", str(tmp_path / "run")]) == 0
    output = capsys.readouterr().err
    assert f"{name} is not among the tested networks" in output
    assert "at 8 pixels, and all 3 layers agree" in output  # the convolution, the norm at the cut, and the output


def test_tested_backbones_are_not_verified_again_and_edited_ones_are(pictures: Path, tmp_path: Path) -> None:
    plain, edited = Verified(), Verified()
    train(small_config(pictures, optimization=SHORT), tmp_path / "plain", plain)
    assert plain.seen == []
    edits = ("pointwise:features.4",)
    config = small_config(pictures, backbone="squeezenet1_1", at="features.4", weights="none", optimization=SHORT)
    train(config.__class__(**{**vars(config), "edits": edits}), tmp_path / "edited", edited)
    ((name, verification),) = edited.seen
    assert name == "squeezenet1_1"
    assert verification.pixels == 8


def test_a_run_that_goes_on_is_not_verified_again(pictures: Path, trust_code: str, tmp_path: Path) -> None:
    config = small_config(pictures, backbone=f"{trust_code}:plain", weights="none", optimization=SHORT)
    run = Run.create(tmp_path / "run", config, open_run_data(config).listed)
    watcher = Verified()
    resume(run.path, watcher, trust_code=True)
    assert watcher.seen == []

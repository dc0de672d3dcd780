"""The command line as a person meets it: in its own process where that matters."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pixpnet.cli import main


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    # -P: as with the installed script, the current folder is not where modules are looked for first.
    command = [sys.executable, "-P", "-m", "pixpnet", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["fields", "--help"],
        ["data", "check", "--help"],
        ["train", "--help"],
        ["train", "--member", "protopnet", "--help"],
        ["members"],
        ["members", "--json"],
        ["evaluate", "--help"],
        ["predict", "--help"],
        ["explain", "--help"],
        ["audit", "--help"],
        ["goldilocks", "--help"],
        ["measure", "--help"],
        ["compare", "--help"],
        ["--version"],
    ],
)
def test_help_answers_without_importing_torch(words: list[str]) -> None:
    code = (
        "import sys\nfrom pixpnet.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit as end:\n    assert end.code in (None, 0), end.code\n"
        "heavy = {'torch', 'numpy', 'torchvision', 'matplotlib', 'cv2', 'optuna'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pixpnet" in done.stdout


def test_shell_completion_is_printed_without_importing_torch() -> None:
    done = run("--print-completion=shtab-bash")
    assert done.returncode == 0
    assert "complete" in done.stdout
    assert "fields" in done.stdout


def test_the_table_is_plain_when_piped() -> None:
    done = run("fields", "vgg11", "--size", "64")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "layer"
    assert any(line.startswith("features.15 (maxpool4)") for line in lines)
    assert "\x1b" not in done.stdout


def test_json_is_one_object_with_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fields", "vgg16", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["model"] == "vgg16"
    assert record["size"] == [224, 224]
    layer = record["layers"]["features.23"]
    assert set(layer) == {"shape", "mean_fraction", "mean_fraction_union", "solid"}
    assert layer["shape"] == [512, 14, 14]
    assert round(100 * layer["mean_fraction"], 4) == 15.7358  # the reference's figure


def test_one_layer_at_a_size_that_is_not_square(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fields", "vgg16", "--at", "maxpool4", "--size", "320", "480"]) == 0
    out = capsys.readouterr().out
    assert "maxpool4: output 512 x 20 x 30" in out
    assert "corner cell (0, 0) sees (0, 0, 58, 58)" in out
    assert main(["fields", "vgg16", "--at", "maxpool4", "--size", "320", "480", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["size"] == [320, 480]
    assert list(record["layers"]) == ["maxpool4"]


def test_fields_of_an_edited_network(capsys: pytest.CaptureFixture[str]) -> None:
    def seen(*words: str) -> object:
        assert main(["fields", *words, "--at", "stage3", "--size", "64", "--json"]) == 0
        return json.loads(capsys.readouterr().out)["layers"]

    # A 3x3 block at a step of 8 pixels adds 16, and none when it is made 1 x 1.
    assert seen("small-37", "--edits", "pointwise:stage3.wider1") == seen("small-21")
    assert seen("small-37") != seen("small-21")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["vgg61"], "'vgg16'"),
        (["vgg16", "--at", "maxpol4"], "'maxpool4'"),
        (["timm:resnet_18"], "'resnet18'"),
        (["no.such.module:build"], "cannot be imported"),
        (["json:JSONEncoder"], "gave a JSONEncoder"),
        (["json:dumpz"], "'dumps'"),
        (["vgg11", "--size", "8"], "while the receptive fields of VGG were computed"),
        (["vgg11", "--size", "1", "2", "3"], "one number or height and width"),
        (["vgg11", "--size", "64", "--json", "--out", "picture.xyz"], "should end in one of"),
    ],
)
def test_bad_input_gets_an_error_that_says_what_to_do(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fields", *words]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert "Traceback" not in error


def test_wrong_usage_exits_with_2() -> None:
    assert run("fields").returncode == 2
    assert run("feelds").returncode == 2


def test_own_code_is_found_verified_and_drawn(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n"
        "def build():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2))\n"
    )
    words = ["fields", "mine:build", "--size", "24", "--verify", "5", "--out", "pictures/own.png"]
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "verified: 5 pixels" in done.stdout
    assert (tmp_path / "pictures" / "own.png").read_bytes().startswith(b"\x89PNG")


def test_a_disagreement_with_the_probe_is_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pixpnet.fields import Field

    monkeypatch.setattr(Field, "sees", lambda self, *pixel: ~_sees(self, *pixel))
    assert main(["fields", "squeezenet1_1", "--size", "32", "--verify", "1", "--at", "conv1"]) == 1
    assert "disagreements" in capsys.readouterr().out


def _sees(field: object, *pixel: int) -> object:
    import torch

    return torch.zeros(field.shape, dtype=torch.bool)  # type: ignore[attr-defined]


def test_the_demo_runs_and_leaves_its_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pixpnet.commands import demo

    # The real one takes minutes: a tenth of the birds, a third of their size and two epochs show that it all hangs
    # together.
    real = demo.demo_config(0)
    optim = replace(real.optimization, epochs=1, pretraining_epochs=1)
    small = replace(real, backbone="small-21", size=32, birds=240).with_settings(optimization=optim)
    monkeypatch.setattr(demo, "demo_config", lambda seed: small)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    out = capsys.readouterr().out
    assert "15.4 %" in out  # resnet18 @ layer2 of the paper
    assert "agree on all of them" in out
    for name in ("fields.png", "birds.png", "prototypes.png"):
        assert (tmp_path / "demo" / name).stat().st_size > 10_000
    assert "test accuracy" in out
    assert "of the image on average" in out
    # A second time it says what is there instead of training anew.
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    assert "is there already" in capsys.readouterr().out


def test_a_reader_who_has_seen_enough_ends_it_without_a_word() -> None:
    command = [sys.executable, "-m", "pixpnet", "fields", "vgg11", "--size", "64", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 141

"""Odd pictures, absurd numbers, killed workers and failing code end in one line; names are shown, not obeyed."""

import os
import signal
import socket
from pathlib import Path

import pytest

import pixpnet.data.loader as loader_module
from pixpnet.cli import main
from pixpnet.config import RunConfig, TrainerOptions
from pixpnet.data import Loading, open_data, plain_loader
from pixpnet.data.loader import PlainSamples, WorkerError
from pixpnet.goldilocks import SearchOptions
from pixpnet.members.pixpnet import Architecture
from pixpnet.option_names import option_of
from pixpnet.settings import Optimization, Replacement
from tests.training.conftest import Trained

HUGE = 10**12


def one_line(output: str) -> str:
    assert output.startswith("error: "), output
    assert output.count("\n") == 1, output
    return output


# Pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_what_is_no_regular_file_is_refused_at_once(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.png"))
        (tmp_path / "empty").mkdir()
        folder = "no picture in the folder" if command == "predict" else "a folder"  # which stands for its pictures
        kinds = {"pipe.png": "a pipe", "socket.png": "a socket", "empty": folder, "/dev/zero": "a device"}
        for name, kind in kinds.items():
            path = tmp_path / name
            assert main([command, str(trained.path), str(path)]) == 1
            output = one_line(capsys.readouterr().err)
            assert str(path) in output
            assert kind in output


def test_a_picture_whose_name_would_clear_the_screen_is_shown_by_name(
    trained: Trained, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = next((pictures / "test").rglob("*.png"))
    names = ["jay\x1b[2J.png", "jay\u202egnp.png", "jay\nerror: none.png", os.fsdecode(b"jay\xff.png")]
    shown = [r"jay\u001b[2J.png", r"jay\u202egnp.png", r"jay\u000aerror: none.png", r"jay\udcff.png"]
    for name, seen in zip(names, shown, strict=True):
        path = tmp_path / name
        path.write_bytes(picture.read_bytes())
        assert main(["predict", str(trained.path), str(path)]) == 0
        output = capsys.readouterr()
        assert seen in output.out.splitlines()[0]
        path.write_bytes(b"no picture")
        assert main(["predict", str(trained.path), str(path)]) == 1
        assert seen in one_line(capsys.readouterr().err)


def test_tables_of_the_data_check_obey_no_class_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.training.material import draw_pictures

    draw_pictures(tmp_path / "data", ("blue", "green\x1b[31m", "red"))
    main(["data", "check", str(tmp_path / "data")])
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err
    assert r"\x1b[31m" in output.out + output.err


# Numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    [
        *("size", "num_workers", "birds", "trainer.num_devices", "trainer.num_nodes", "architecture.dim"),
        *("architecture.prototypes_per_class", "architecture.prototype_rows", "optimization.epochs"),
        *("optimization.batch_size", "optimization.views", "optimization.pretraining_epochs", "replacement.every"),
        *("replacement.head_epochs", "replacement.start", "optimization.lr_step_epochs"),
        *("optimization.lr_backbone", "optimization.lr_prototypes", "optimization.weight_decay"),
    ],
)
def test_an_absurd_number_is_refused_by_the_name_of_its_option(
    field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, option = tmp_path / "run", option_of(field)
    try:
        code = main(["train", option, str(HUGE), "--out", str(out)])
    except SystemExit as end:  # jsonargparse makes the records as it parses
        code = int(str(end.code))
    assert code in (1, 2)
    output = capsys.readouterr().err
    assert option in output
    assert "is at most" in output
    assert not out.exists()


def test_absurd_numbers_are_refused_by_the_records_too() -> None:
    for make in (
        lambda: Architecture(dim=HUGE),
        lambda: Optimization(epochs=HUGE),
        lambda: Replacement(every=HUGE),
        lambda: RunConfig(num_workers=HUGE),
        lambda: TrainerOptions(num_devices="9999"),
        lambda: SearchOptions("birds", batch=HUGE),
        lambda: Loading(batch_size=HUGE),
        lambda: Loading(num_workers=HUGE),
    ):
        with pytest.raises(ValueError, match="is at most"):
            make()


def test_more_prototypes_than_memory_and_more_processes_than_cores_are_refused_before_the_run_begins(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = f"folder:{pictures}", str(tmp_path / "run")
    large = ["--architecture.prototypes-per-class", "10000", "--architecture.dim", "16384"]
    large += ["--architecture.prototype-rows", "1000", "--architecture.prototype-cols", "1000"]
    assert main(["train", "--data", data, *large, "--out", out]) == 1
    assert "--architecture.prototypes-per-class" in one_line(capsys.readouterr().err)
    many = ["--device", "cpu", "--num-devices", "256", "--size", "32", "--backbone", "small-21"]
    assert main(["train", "--data", data, *many, "--out", out]) == 1
    assert "--num-devices 256" in one_line(capsys.readouterr().err)
    assert not Path(out).exists()


# Workers ----------------------------------------------------------------------------------------------------------


class _Killing(PlainSamples):
    def __getitem__(self, index: int):  # type: ignore[no-untyped-def]
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_ends_in_advice(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_module, "PlainSamples", _Killing)
    data = open_data(f"folder:{pictures}")
    with pytest.raises(WorkerError, match=r"was killed.*--num-workers 0"):
        list(plain_loader(data, data.val, data.preprocessing.scaled_to(32), Loading(2, num_workers=1)))


# Code -------------------------------------------------------------------------------------------------------------

FAILING = """
from torch import nn

def raises():
    raise ZeroDivisionError("no network today")

def leaves():
    raise SystemExit(0)

class InForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=2)

    def forward(self, images):
        raise KeyError("what")

class WhileTraining(InForward):
    def forward(self, images):
        if self.training:
            raise ArithmeticError("late")
        return self.convolution(images)

class Leaving(InForward):
    def forward(self, images):
        if self.training:
            raise SystemExit(0)
        return self.convolution(images)
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises", "cannot be built: ZeroDivisionError: no network today"),
        ("leaves", "cannot be built: SystemExit: 0"),
        ("InForward", "failed: KeyError: 'what'"),
        ("WhileTraining", "failed: ArithmeticError: late"),
        ("Leaving", "failed: SystemExit: 0"),
    ],
)
def test_own_code_that_raises_is_named_with_its_error(
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    says: str,
) -> None:
    (tmp_path / "failing_code.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--data", f"folder:{pictures}", "--size", "32", "--backbone", f"failing_code:{name}", "--weights", "none"]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 1
    # What it says before: the fields of a network that is not among the tested ones were verified.
    output = capsys.readouterr().err
    assert "Traceback" not in output
    assert f"'failing_code:{name}' {says}" in one_line(output.splitlines(keepends=True)[-1])


def test_code_that_cannot_be_imported_is_named_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_code.py").write_text("import sys\nsys.exit(5)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["fields", "broken_code:build"]) == 1
    assert "'broken_code:build' cannot be imported: SystemExit: 5" in one_line(capsys.readouterr().err)


def test_a_transformer_at_another_size_than_its_own_ends_in_one_line(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--backbone", "vit_b_16", "--weights", "none", "--at", "encoder", "--size", "100"]
    assert main(["train", "--data", f"folder:{pictures}", *words, "--out", str(tmp_path / "run")]) == 1
    assert "Expected 224 but got 100" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    "words", [["fields", "vgg11", "--size", str(HUGE)], ["fields", "vgg11", "--channels", str(HUGE), "--size", "32"]]
)
def test_fields_of_absurd_images_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert "--size is at most 8192" in one_line(capsys.readouterr().err)


def test_a_sheet_of_absurdly_many_pictures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--views", str(HUGE)], ["--images", str(HUGE)]):
        assert main(["data", "show", "birds", *words, "--out", str(tmp_path / "x.png")]) == 2
        assert "a sheet has at most" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("seed: abc\n", "seed: expected a value of type int, got 'abc'"),
        ("optimization:\n  epochs: [1]\n", "optimization: epochs: expected a value of type int, got [1]"),
        ("architecture:\n  dim: many\n", "architecture: dim: expected a value of type int, got 'many'"),
    ],
)
def test_a_value_of_the_wrong_type_in_a_configuration_ends_in_one_line(
    text: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit, match="1"):
        main(["train", "--config", str(file), "--out", str(tmp_path / "run")])
    assert capsys.readouterr().err == f"error: {file}: {output}\n"

"""`train` calls code that this command or this caller names, and code that a file names only where that is allowed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pixpnet.cli import main
from pixpnet.config import config_text, read_config
from pixpnet.settings import Optimization
from pixpnet.training import RunError, train
from tests.training.material import small_config

CODE = """
from pathlib import Path
from torch import nn

Path(__file__).with_suffix(".imported").touch()

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())

class Found:
    pass
"""
NAME = "code_of_a_found_file"
ONE_EPOCH = Optimization(epochs=1, warm_up_epochs=0, batch_size=8, views=1)


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that appears when the module is imported."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / f"{NAME}.py").write_text(CODE)
    monkeypatch.syspath_prepend(folder)
    yield folder / f"{NAME}.imported"
    sys.modules.pop(NAME, None)


@pytest.fixture
def config(pictures: Path, tmp_path: Path) -> Path:
    """A configuration file that names that module."""
    path = tmp_path / "found.yaml"
    values = small_config(pictures, backbone=f"{NAME}:build", weights="none", optimization=ONE_EPOCH)
    path.write_text(config_text(values))
    return path


def test_code_that_a_configuration_file_names_is_refused_before_it_is_imported(
    code: Path, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", "--config", str(config), "--out", str(out)]) == 1
    output = capsys.readouterr().err
    assert str(config) in output
    assert f"{NAME}:build" in output
    assert "--trust-code" in output
    assert not code.exists()
    assert not out.exists()


@pytest.mark.parametrize("words", [["--trust-code"], ["--backbone", f"{NAME}:build"], [f"--backbone={NAME}:build"]])
def test_code_that_the_command_allows_or_names_is_called(
    code: Path, config: Path, tmp_path: Path, words: list[str]
) -> None:
    assert main(["train", "--config", str(config), *words, "--out", str(tmp_path / "run")]) == 0
    assert code.exists()


def test_code_named_in_the_command_does_not_allow_other_code_named_in_the_file(
    code: Path, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_here.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--config", str(config), "--backbone", "named_here:build", "--out", str(tmp_path / "run")]
    assert main(["train", *words]) == 0
    assert (tmp_path / "named_here.imported").exists()
    assert not code.exists()
    sys.modules.pop("named_here")


@pytest.mark.parametrize("option", ["--conf", "--rec", "--res"])
def test_a_shortened_option_cannot_bring_a_file_whose_code_the_command_would_then_allow(
    code: Path, config: Path, tmp_path: Path, option: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--backbone", "named_here:build", option, str(config), "--out", str(tmp_path / "run")])
    assert end.value.code == 2
    assert not code.exists()


def test_modules_that_lie_in_the_current_folder_are_not_found_by_libraries(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "tensorboard.py").write_text("open('tensorboard.imported', 'w')")
    (tmp_path / "config.yaml").write_text(config_text(small_config(pictures, optimization=ONE_EPOCH)))
    # -P: as with the installed script, the current folder is not where modules are looked for first.
    command = [sys.executable, "-P", "-m", "pixpnet", "train", "--config", "config.yaml", "--out", "run"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "tensorboard.imported").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"backbone: {NAME}:build\nown_code: true", "cannot allow code"),
        (f"architecture:\n  class_path: {NAME}.Found", "no option 'class_path'"),
        (f"class_path: {NAME}.Found", "no option 'class_path'"),
        ("architecture: other.yaml", "expected options such as dim"),
        ("config: other.yaml", "no option 'config'"),
    ],
)
def test_a_configuration_file_can_neither_allow_code_nor_name_classes_or_other_files(
    code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    path = tmp_path / "found.yaml"
    path.write_text(text)
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(path), "--out", str(tmp_path / "run")])
    assert end.value.code == 1
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1
    assert not code.exists()


def test_variables_of_the_environment_are_no_options(
    code: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JSONARGPARSE_DEFAULT_ENV", "true")
    monkeypatch.setenv("PIXPNET_TRAIN__BACKBONE", f"{NAME}:build")
    with pytest.raises(SystemExit):
        main(["train", "--print-config"])
    assert "\nbackbone: small-37\n" in capsys.readouterr().out


def test_a_caller_who_names_code_needs_no_permission_and_one_who_reads_it_from_a_file_does(
    code: Path, config: Path, pictures: Path, tmp_path: Path
) -> None:
    result = read_config(config)
    with pytest.raises(RunError, match=rf"found\.yaml names code.*{NAME}:build.*trust_code=True"):
        train(result, tmp_path / "refused")
    assert not code.exists()
    made = small_config(pictures, backbone=f"{NAME}:build", weights="none", optimization=ONE_EPOCH)
    assert result == made  # where it was read is no part of what it says
    assert train(made, tmp_path / "named") is not None
    assert train(result, tmp_path / "allowed", trust_code=True) is not None

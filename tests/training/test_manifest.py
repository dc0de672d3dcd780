"""A run is opened when all its files are its own; the message names the one that is not."""

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pixpnet.cli import main
from pixpnet.manifest import Manifest, ManifestError, ManifestWarning
from pixpnet.model import PixPNet
from pixpnet.training import Run, RunError, resume, train
from tests.training.conftest import Trained
from tests.training.material import small_config
from tests.training.sameness import same

PARTS = (
    "config.yaml",
    "model.safetensors",
    "prototypes.json",
    "metrics.json",
    "answers.csv",
    "log.csv",
    "checkpoints/before_replacement.safetensors",
    "prototypes/0.png",
)


@pytest.fixture(scope="module")
def other(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that differs in nothing but its seed; look, do not touch."""
    path = tmp_path_factory.mktemp("other") / "run"
    train(replace(small_config(pictures), seed=1), path)
    return path


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained.path, tmp_path / "run"))


def test_a_finished_run_lists_each_of_its_files_once_and_nothing_that_comes_later(trained: Trained) -> None:
    listed = json.loads((trained.path / "manifest.json").read_text())["files"]
    pictures = {f"prototypes/{number}.{ending}" for number in range(6) for ending in ("png", "jpg")}
    assert set(listed) == {*PARTS, "images.csv", *pictures}
    assert all(len(digests) == 1 for digests in listed.values())
    Run(trained.path).check()


@pytest.mark.parametrize("name", PARTS)
def test_a_file_of_another_run_is_refused_by_name(run: Path, other: Path, name: str) -> None:
    assert (run / name).read_bytes() != (other / name).read_bytes()
    shutil.copy(other / name, run / name)
    for opened in (PixPNet.load, lambda path: Run(path).check()):
        with pytest.raises(ManifestError, match=rf"{name} does not belong to this run.*own file back") as caught:
            opened(run)
        assert str(run / name) in str(caught.value)


def test_every_command_refuses_a_run_with_a_part_of_another(
    run: Path, other: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(other / "metrics.json", run / "metrics.json")
    picture = str(next((pictures / "test").rglob("*.png")))
    commands = (
        *(["evaluate", str(run)], ["predict", str(run), picture], ["explain", str(run), picture]),
        *(["report", str(run)], ["audit", str(run)], ["measure", str(run)], ["train", "--resume", str(run)]),
    )
    for words in commands:
        assert main(words) == 1, words
        output = capsys.readouterr()
        assert f"error: {run / 'metrics.json'} does not belong to this run" in output.err, words
        assert output.out == ""
    assert not (run / "report.html").exists()


def test_what_is_added_to_a_run_later_does_not_matter(run: Path) -> None:
    (run / "report.html").write_text("a page")
    (run / "measure").mkdir()
    (run / "measure" / "table.json").write_text("{}")
    (run / "openings.jsonl").write_text("")
    PixPNet.load(run)


def test_figures_put_into_an_unfinished_run_are_refused(unfinished: Path, trained: Trained) -> None:
    manifest = json.loads((unfinished / "manifest.json").read_text())
    del manifest["files"]["metrics.json"]
    (unfinished / "manifest.json").write_text(json.dumps(manifest))
    shutil.copy(trained.path / "metrics.json", unfinished / "metrics.json")
    with pytest.raises(ManifestError, match=r"metrics\.json does not belong"):
        resume(unfinished)


def test_the_checkpoint_of_another_run_is_refused(unfinished: Path, other: Path) -> None:
    shutil.copy(other / "checkpoints" / "last.ckpt", unfinished / "checkpoints" / "last.ckpt")
    with pytest.raises(RunError, match=r"last\.ckpt does not belong to this run"):
        resume(unfinished)


def test_a_run_of_an_earlier_version_opens_with_one_warning_and_resumes_to_one_with_a_manifest(
    run: Path, trained: Trained, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "manifest.json").unlink()
    with pytest.warns(ManifestWarning, match="has no manifest.json") as warned:
        PixPNet.load(run)
    assert len(warned) == 1
    with warnings.catch_warnings(action="default"):
        assert main(["predict", str(run), str(next((pictures / "test").rglob("*.png")))]) == 0
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    assert output.startswith(f"warning: {run} has no manifest.json")
    (run / "metrics.json").unlink()
    with pytest.warns(ManifestWarning):
        resume(run)
    same(trained.path, run)
    assert (run / "manifest.json").read_bytes() == (trained.path / "manifest.json").read_bytes()


def _cut(text: str) -> str:
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    "change",
    [_cut, lambda text: "[" * 10**5, lambda text: "null", lambda text: text.replace('"format": 1', '"format": 9')],
)
def test_a_damaged_manifest_is_refused(run: Path, change: Callable[[str], str]) -> None:
    path = run / "manifest.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ManifestError, match=r"manifest\.json is damaged"):
        PixPNet.load(run)


def test_a_file_is_announced_before_it_is_there_and_the_old_one_belongs_until_then(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    with manifest.replacing("log.csv") as temporary:
        temporary.write_text("one")
    with pytest.raises(RuntimeError, match="killed"), manifest.replacing("log.csv") as temporary:
        temporary.write_text("two")
        raise RuntimeError("killed")
    manifest.check()
    with manifest.replacing("log.csv") as temporary:
        temporary.write_text("two")
    manifest.check()
    (tmp_path / "log.csv").write_text("one")  # as if the new one had not yet taken its place
    manifest.check()
    (tmp_path / "log.csv").write_text("three")
    with pytest.raises(ManifestError):
        manifest.check()
    (tmp_path / "log.csv").write_text("two")
    manifest.settle(pictures=False)
    (tmp_path / "log.csv").write_text("one")
    with pytest.raises(ManifestError):
        manifest.check()

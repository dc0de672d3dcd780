"""Images of a run are found from any folder, after the project was moved, and where they are said to be now."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from pixpnet import zoo
from pixpnet.cli import main
from pixpnet.config import config_text
from pixpnet.data import DataError
from pixpnet.training import LogLine, Nobody, Run, RunError, resume, train
from pixpnet.training.location import LOCATION_FILE, keep_location, located, located_weights
from pixpnet.training.run_data import open_data_to_resume, open_run_data
from tests.training.conftest import Trained
from tests.training.material import draw_pictures, small_config

FEW = ("--mappings", "field", "--samples", "1", "--prototypes", "1", "--split", "val", "--device", "cpu")


@pytest.fixture
def project(trained: Trained, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with pictures and a run that names them as somebody in that folder would."""
    home = tmp_path / "project"
    shutil.copytree(pictures, home / "squares")
    shutil.copytree(trained.path, home / "runs" / "mine")
    monkeypatch.chdir(home)
    run, config = Run(home / "runs" / "mine"), replace(trained.config, data="folder:squares")
    run.write("config.yaml", config_text(config))
    keep_location(run.path, config)
    run.manifest.settle(pictures=True)
    return home


def audit(run: Path, *words: str) -> int:
    return main(["audit", str(run), "--pixels", "1", "--device", "cpu", "--threshold", "0.6", *words])


def test_a_new_run_writes_down_where_its_images_are(trained: Trained, pictures: Path) -> None:
    remaining = json.loads((trained.path / LOCATION_FILE).read_text())
    assert remaining["absolute"] == str(pictures.resolve())
    assert (trained.path / remaining["from_run"]).resolve() == pictures.resolve()


def test_images_are_found_from_any_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = project / "runs" / "mine"
    assert len(Run(run).data().val) == 9
    assert len(open_data_to_resume(Run(run)).train) == 24
    assert audit(run) == 0
    assert main(["measure", str(run), *FEW]) == 0
    assert main(["evaluate", str(run), "--device", "cpu"]) == 0
    assert main(["report", str(run), "--examples", "1", "--device", "cpu"]) == 0
    assert "not at hand" not in capsys.readouterr().err
    # Also for a new run with the same configuration.
    assert len(open_run_data(Run(run).config).train) == 24


def test_another_folder_of_the_same_name_is_not_taken_for_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    draw_pictures(elsewhere / "squares", ("teal", "pink", "grey"))
    monkeypatch.chdir(elsewhere)
    assert Run(project / "runs" / "mine").data().class_names == ("blue", "green", "red")


def test_images_are_found_after_the_whole_project_was_moved(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project.rename(tmp_path / "archive")
    run = Run(tmp_path / "archive" / "runs" / "mine")
    assert located(run.config, run.path).data == f"folder:{(tmp_path / 'archive' / 'squares').resolve()}"
    assert len(run.data().train) == 24


def test_images_that_were_moved_are_said_to_be_gone_and_found_where_data_says(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, away = project / "runs" / "mine", tmp_path / "away"
    (project / "squares").rename(away)
    assert audit(run) == 4
    output = capsys.readouterr()
    assert f"are gone: they were in {project.resolve() / 'squares'}" in output.err
    assert "--data folder:PATH" in output.err
    assert "✗" not in output.out.replace("✗ does not hold", "")
    assert main(["measure", str(run), *FEW]) == 1
    assert "are gone" in capsys.readouterr().err
    assert main(["report", str(run), "--examples", "1", "--device", "cpu"]) == 0
    assert "are gone" in capsys.readouterr().err
    moved = ("--data", f"folder:{away}")
    assert audit(run, *moved) == 0
    assert main(["measure", str(run), *FEW, *moved]) == 0
    assert main(["report", str(run), "--examples", "1", "--device", "cpu", *moved]) == 0
    assert "gone" not in capsys.readouterr().err
    assert "are gone" not in (run / "report.html").read_text()


@pytest.mark.filterwarnings("default::pixpnet.data.DataWarning")
def test_other_pictures_are_not_the_runs_own(project: Path, tmp_path: Path) -> None:
    other = draw_pictures(tmp_path / "other", ("blue", "green", "red"))
    for number, picture in enumerate(sorted(other.rglob("*.png"))):
        with Image.open(picture) as image:
            changed = image.point([(value + 7 + number) % 256 for value in range(256)] * 3)
        picture.unlink()
        changed.save(picture.with_stem(f"new-{number}"))
    with pytest.raises(DataError, match="none of the images that"):
        Run(project / "runs" / "mine").data(moved_to=f"folder:{other}")


@pytest.mark.filterwarnings("default::pixpnet.data.DataWarning")
def test_a_data_set_with_other_classes_is_refused_by_the_one_check(project: Path) -> None:
    shutil.copytree(project / "squares" / "train" / "red", project / "squares" / "train" / "scarlet")
    run = project / "runs" / "mine"
    with pytest.raises(RunError, match="the model does not know scarlet"):
        Run(run).data()


@pytest.mark.filterwarnings("default::pixpnet.data.DataWarning")
def test_an_image_that_is_gone_is_said_and_fails_no_claim(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = project / "runs" / "mine"
    origins = Run(run).model().origins
    assert origins is not None
    (project / "squares" / origins[0].image).unlink()
    assert audit(run) == 4
    out = capsys.readouterr().out
    assert f"are gone: {origins[0].image} (no longer there)" in out
    assert "✗" not in out.replace("✗ does not hold", "")
    next((project / "squares" / "val").rglob("*.png")).unlink()
    assert audit(run) == 4
    assert "2 images that the run had are gone, 8 are left" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "[]", '{"data": 3}'])
def test_a_damaged_location_only_helps_less(project: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(project / "runs" / "mine")
    (run.path / LOCATION_FILE).write_text(content)
    assert len(run.data().train) == 24
    monkeypatch.chdir("/")
    with pytest.raises(DataError):
        run.data()


def test_a_file_of_weights_is_found_when_a_run_is_resumed_from_another_folder(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of birds, which have no folder of their own, and after the whole project was moved."""
    home = tmp_path / "home"
    home.mkdir()
    torch.save(zoo.build("small-21").state_dict(), home / "small.pth")
    monkeypatch.chdir(home)
    config = small_config(pictures, weights="small.pth")

    class Stopping(Nobody):
        def epoch_ended(self, line: LogLine) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, Path("run"), Stopping())
    moved = tmp_path / "moved"
    shutil.copytree(home, moved)
    monkeypatch.chdir(tmp_path)
    assert resume(home / "run") is not None
    shutil.rmtree(home)
    assert resume(moved / "run") is not None
    # A new run with the configuration of that one finds them too.
    again = Run(moved / "run").config
    assert located_weights(again, moved / "run").weights == str(moved / "small.pth")
    keep_location(moved / "run", replace(again, data="birds", weights=str(moved / "small.pth")))
    assert json.loads((moved / "run" / LOCATION_FILE).read_text())["weights_from_run"] == "../small.pth"

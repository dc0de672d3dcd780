"""A run keeps the list of its images, and nothing that opens its data later tests on what it learnt from."""

import csv
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from pixpnet.cli import main
from pixpnet.config import config_text
from pixpnet.data import DataError, DataWarning, Entry
from pixpnet.training import Run, RunError, open_data_of, resume, train
from tests.training.conftest import Trained
from tests.training.material import draw_pictures, small_config
from tests.training.sameness import same


def noise(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
    return path


@pytest.fixture
def copied(trained: Trained, tmp_path: Path) -> Run:
    """A copy of the run with a copy of its data, to be changed."""
    path = Path(shutil.copytree(trained.path, tmp_path / "run"))
    data = shutil.copytree(trained.config.data.removeprefix("folder:"), tmp_path / "squares")
    (path / "config.yaml").write_text(config_text(replace(trained.config, data=f"folder:{data}")))
    Run(path).manifest.settle(pictures=True)
    return Run(path)


def folder(run: Run) -> Path:
    return Path(run.config.data.removeprefix("folder:"))


def ids_in_test(run: Run, data: str | None = None) -> list[str]:
    return [entry.id for entry in open_data_of(run, data=data).test.open([].append, "to see which they are")]


def pixels(entry: Entry) -> bytes:
    assert entry.path is not None
    return Image.open(entry.path).convert("RGB").tobytes()


def test_the_list_names_every_image_with_its_split_and_tells_pictures_apart(trained: Trained) -> None:
    with (trained.path / "images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [sum(row["split"] == split for row in rows) for split in ("train", "val", "test")] == [24, 9, 12]
    assert {(row["split"], row["class"]) for row in rows} == {tuple(row["id"].split("/")[:2]) for row in rows}
    assert len({row["digest"] for row in rows}) == 45


def test_nothing_is_said_of_data_that_have_not_changed(copied: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(ids_in_test(copied)) == 12


@pytest.mark.filterwarnings("default::pixpnet.data.DataWarning")
def test_a_training_image_that_is_moved_or_copied_into_the_test_folder_is_not_tested_on(
    copied: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    train_folder, test_folder = folder(copied) / "train" / "red", folder(copied) / "test" / "red"
    (train_folder / "0.png").rename(test_folder / "moved.png")
    shutil.copy(train_folder / "1.png", test_folder / "copied.png")
    assert main(["evaluate", str(copied.path), "--device", "cpu"]) == 0
    printed = capsys.readouterr()
    assert "of 12 images" in printed.out
    assert (
        "2 image(s) that the run learnt from or was chosen by would be in the test split now: left out" in printed.err
    )
    assert "test/red/moved.png" in printed.err


def test_a_test_split_that_holds_nothing_but_training_images_is_refused(copied: Run) -> None:
    shutil.rmtree(folder(copied) / "test")
    shutil.copytree(folder(copied) / "train", folder(copied) / "test")
    with pytest.warns(DataWarning), pytest.raises(DataError, match=r"nothing is left to test on\n24 image\(s\) that"):
        ids_in_test(copied)


def test_another_data_set_is_tested_on_without_the_pictures_that_the_run_learnt_from(
    copied: Run, tmp_path: Path
) -> None:
    for number, name in enumerate(("blue", "green", "red")):
        noise(tmp_path / "other" / "train" / name / "x.png", number)
        noise(tmp_path / "other" / "test" / name / "x.png", 10 + number)
    shutil.copy(folder(copied) / "val" / "red" / "0.png", tmp_path / "other" / "test" / "red" / "y.png")
    with pytest.warns(DataWarning, match=r"left out 1 of 7 images.*\(1 of them in the test split\)"):
        result = ids_in_test(copied, f"folder:{tmp_path / 'other'}")
    assert result == [f"test/{name}/x.png" for name in ("blue", "green", "red")]


def test_a_run_without_a_list_says_of_another_data_set_that_it_is_not_compared(copied: Run, tmp_path: Path) -> None:
    (copied.path / "images.csv").unlink()
    copied.manifest.settle(pictures=True)
    other = Path(shutil.copytree(folder(copied), tmp_path / "other"))
    with pytest.warns(DataWarning, match=r"no list of its images.*pictures of other are among .* not checked"):
        open_data_of(copied, data=f"folder:{other}")


@pytest.fixture(scope="module")
def pool_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on a pool of images, of which classes of three must give one for test and one for validation."""
    root = tmp_path_factory.mktemp("pool")
    seed = 0
    for name, count in (("blue", 12), ("green", 3), ("red", 3)):
        for _ in range(count):
            noise(root / "pool" / name / f"{seed}.png", seed := seed + 1)
    train(small_config(root / "pool"), root / "run")
    return Run(root / "run")


@pytest.mark.parametrize("rule", ["pixels", "quota"])
def test_whatever_comes_and_goes_every_image_stays_where_the_run_had_it(
    pool_run: Run, rule: str, tmp_path: Path
) -> None:
    """By quota images at the boundary would move, and by pixels the forced ones of small classes."""
    pool = Path(shutil.copytree(folder(pool_run), tmp_path / "pool"))
    config = replace(pool_run.config, data=f"folder:{pool}", split_rule=rule)
    train(config, tmp_path / "run")
    run = Run(tmp_path / "run")
    before = open_data_of(run)
    learnt = {pixels(entry) for entry in (*before.train, *before.val)}
    test_before = {pixels(entry) for entry in before.test.open([].append, "to compare")}
    for seed in range(100, 160):
        noise(pool / ("blue", "green", "red")[seed % 3] / f"{seed}.png", seed)
    for file in sorted(pool.glob("*/*.png"))[::5]:
        file.rename(file.with_name(f"renamed {file.name}"))
    with pytest.warns(DataWarning, match="has changed since"):
        after = open_data_of(run)
    test_after = {pixels(entry) for entry in after.test.open([].append, "to compare")}
    assert [entry.id for entry in after.train] == [entry.id for entry in before.train]
    assert [entry.id for entry in after.val] == [entry.id for entry in before.val]
    assert {pixels(entry) for entry in (*after.train, *after.val)} == learnt
    assert test_before < test_after
    assert after.preprocessing == before.preprocessing


def test_a_run_of_an_earlier_version_is_opened_by_its_rule_with_a_warning(pool_run: Run, tmp_path: Path) -> None:
    path = Path(shutil.copytree(pool_run.path, tmp_path / "run"))
    (path / "images.csv").unlink()
    (path / "manifest.json").unlink()
    values = yaml.safe_load((path / "config.yaml").read_text())
    del values["split_rule"]
    (path / "config.yaml").write_text(yaml.safe_dump(values))
    with pytest.warns(DataWarning, match=r"no list of its images.*\(quota\)"):
        data = open_data_of(Run(path))
    # Of 12, 3 and 3 images by quota: 2, 1 and 1 for the test, then of 10, 2 and 2 one each for validation.
    assert (len(data.train), len(data.val), len(data.test)) == (11, 3, 4)


def test_a_damaged_list_is_refused_and_not_taken_for_none(copied: Run) -> None:
    (copied.path / "images.csv").write_text("split,class\n")
    with pytest.raises(RunError, match=r"images\.csv is damaged"):
        open_data_of(copied)


def test_a_list_that_was_deleted_is_missed(copied: Run) -> None:
    (copied.path / "images.csv").unlink()
    with pytest.raises(RunError, match=r"images\.csv is missing, and the run had one"):
        open_data_of(copied)


def test_images_that_came_since_do_not_hinder_or_change_a_run_that_is_resumed(tmp_path: Path) -> None:
    data = draw_pictures(tmp_path / "squares")
    metrics = train(small_config(data), tmp_path / "run")
    resumed = Path(shutil.copytree(tmp_path / "run", tmp_path / "resumed"))
    (resumed / "metrics.json").unlink()
    noise(data / "train" / "red" / "new.png", 7)
    noise(data / "val" / "red" / "new.png", 8)
    with pytest.warns(DataWarning, match="2 image.* are new and not in the test split: left out"):
        assert resume(resumed) == metrics
    same(tmp_path / "run", resumed)


def test_drawing_the_pictures_again_elsewhere_gives_the_same_list(trained: Trained, tmp_path: Path) -> None:
    config = small_config(draw_pictures(tmp_path / "again"))
    train(config, tmp_path / "run")
    assert (tmp_path / "run" / "images.csv").read_bytes() == (trained.path / "images.csv").read_bytes()

"""Runs that differ in their seed alone: each in its folder, none trained twice, none of other settings."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pixpnet.cli import main
from pixpnet.config import RunConfig, config_text
from pixpnet.settings import Optimization
from pixpnet.training import Run, RunError
from pixpnet.training import seeds as several
from pixpnet.training.seeds import train_seeds
from pixpnet.views.progress import NowAndThen
from tests.training.material import small_config


def quick(pictures: Path) -> RunConfig:
    optim = Optimization(epochs=1, warm_up_epochs=0, batch_size=8, views=1)
    return small_config(pictures, optimization=optim, evaluate_on_test=False)


def test_each_seed_has_its_run_and_the_same_command_trains_none_again(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NowAndThen, "due", lambda self: True)
    file = tmp_path / "mine.yaml"
    file.write_text(config_text(quick(pictures)))
    words = ["train", "--config", str(file), "--out", str(tmp_path / "runs"), "--seeds", "3", "5"]
    assert main(words) == 0
    said, shown = capsys.readouterr()
    assert "validation accuracy over 2 seeds" in said and " compare " in said
    # Each run is counted from its own beginning.
    of_runs = re.split(r"seed-\d: run (\d) of 2\n", shown)[1:]
    assert of_runs[::2] == ["1", "2"]
    for lines in of_runs[1::2]:
        shares = [int(share) for share in re.findall(r"(\d+) % of the run", lines)]
        assert shares[0] < 50 and shares == sorted(shares) and shares[-1] > 80
    runs = [Run(tmp_path / "runs" / f"seed-{seed}") for seed in (3, 5)]
    assert [run.config.seed for run in runs] == [3, 5] and all(run.finished for run in runs)
    assert runs[0].fingerprint() != runs[1].fingerprint()
    monkeypatch.setattr(several, "train", None)  # would raise if it were called
    assert main(words) == 0
    assert capsys.readouterr().out.count("was finished before") == 2


def test_an_interrupted_seed_goes_on(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[tuple[str, Path]] = []
    monkeypatch.setattr(several, "train", lambda config, folder, *rest: began.append(("train", folder)))
    monkeypatch.setattr(several, "resume", lambda folder, *rest: began.append(("resume", folder)))
    config = quick(pictures)
    half = tmp_path / "runs" / "seed-1"
    half.mkdir(parents=True)
    (half / "config.yaml").write_text(config_text(replace(config, seed=1)))
    assert train_seeds(config, tmp_path / "runs", [0, 1]) == (tmp_path / "runs" / "seed-0", half)
    assert began == [("train", tmp_path / "runs" / "seed-0"), ("resume", half)]
    with pytest.raises(RunError, match="other settings"):
        train_seeds(replace(config, size=24), tmp_path / "runs", [0, 1])


def test_a_seed_that_comes_twice_or_a_run_in_the_place_of_the_folder_is_refused(pictures: Path, tmp_path: Path) -> None:
    config = quick(pictures)
    with pytest.raises(ValueError, match="twice"):
        train_seeds(config, tmp_path, [1, 1])
    (tmp_path / "config.yaml").write_text(config_text(config))
    with pytest.raises(RunError, match="is a run itself"):
        train_seeds(config, tmp_path, [1, 2])

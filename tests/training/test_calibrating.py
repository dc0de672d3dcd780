"""The end of a run: the model learns how certain it may say to be before the test split is opened, and keeps scores."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pixpnet.config import RunConfig
from pixpnet.data import DataSet
from pixpnet.model import PixPNet
from pixpnet.model.calibration import calibrate
from pixpnet.settings import Optimization
from pixpnet.training import Run, RunError, train
from pixpnet.training import folds as by_folds
from pixpnet.training.answers import answers_from_text
from pixpnet.training.kept_scores import SCORES_FILE, SplitScores, read_scores, write_scores
from tests.training.conftest import Trained
from tests.training.material import small_config


def test_the_model_file_keeps_what_validation_says_about_certainty(trained: Trained) -> None:
    model, scores = PixPNet.load(trained.path), read_scores(Run(trained.path))
    assert set(scores) == {"val", "test"}
    assert model.calibration == calibrate(scores["val"].logits, scores["val"].labels, "validation")
    assert model.calibration is not None and model.calibration.images == 9
    # Of 9 images no twentieth can be told.
    assert model.calibration.least_logit is None


def test_the_test_split_is_opened_for_the_model_as_it_is_kept(trained: Trained) -> None:
    (line,) = (trained.path / "openings.jsonl").read_text().splitlines()
    assert json.loads(line)["model"] == Run(trained.path).fingerprint()


def test_kept_scores_are_those_of_the_answers(trained: Trained) -> None:
    model, run = PixPNet.load(trained.path), Run(trained.path)
    lines = answers_from_text((trained.path / "answers.csv").read_text())
    for split, scores in read_scores(run).items():
        own = [line for line in lines if line.split == split]
        assert [model.class_names[label] for label in scores.labels.tolist()] == [line.truth for line in own]
        assert scores.logits.amax(dim=1).tolist() == pytest.approx([line.scores[0] for line in own], rel=1e-6)
        assert ((scores.deciding >= 1) & (scores.deciding <= 6)).all()
        assert (scores.largest_scores <= scores.logits.amax(dim=1)).all()  # of 2 scores that are not negative


def test_files_of_earlier_versions_say_nothing_about_certainty(trained: Trained, tmp_path: Path) -> None:
    with safe_open(trained.path / "model.safetensors", framework="pt") as opened:
        card = json.loads(opened.metadata()["pixpnet"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    del card["calibration"]
    save_file(tensors, tmp_path / "old.safetensors", {"pixpnet": json.dumps(card)})
    assert PixPNet.load(tmp_path / "old.safetensors").calibration is None


def test_few_validation_images_and_kept_features_ask_models_that_did_not_see_an_image(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(by_folds, "FEWEST", 20)  # 9 for validation, 24 to learn from
    learnt: list[DataSet] = []
    prepare = by_folds.prepare

    def noted(config: RunConfig, data: DataSet, *rest: Any) -> Any:
        learnt.append(data)
        return prepare(config, data, *rest)

    monkeypatch.setattr(by_folds, "prepare", noted)
    optim = Optimization(epochs=2, warm_up_epochs=0, batch_size=8, views=1, frozen="all")
    config = small_config(pictures, optimization=optim)
    metrics = train(config, tmp_path / "run")
    assert metrics is not None
    model, scores = PixPNet.load(tmp_path / "run"), read_scores(Run(tmp_path / "run"))
    assert model.calibration == calibrate(scores["folds"].logits, scores["folds"].labels, "folds")
    everything = {entry.id for entry in Run(tmp_path / "run").data().train}
    held_out = [everything - {entry.id for entry in data.train} for data in learnt]
    assert len(held_out) == 5 and sum(map(len, held_out)) == len(everything) == len(scores["folds"]) == 24
    assert set.union(*held_out) == everything
    assert torch.bincount(scores["folds"].labels).tolist() == [8, 8, 8]


@pytest.mark.parametrize("part", ["logits", "labels"])
def test_damaged_scores_are_refused(part: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    good = SplitScores(torch.zeros(2, 3), torch.tensor([0, 2]), torch.zeros(2), torch.tensor([1, -1]))
    write_scores(run, {"val": good})
    assert torch.equal(read_scores(run)["val"].labels, good.labels)
    bad = {"logits": torch.full((2, 3), torch.nan), "labels": torch.tensor([0, 3])}[part]
    write_scores(run, {"val": replace(good, **{part: bad})})
    with pytest.raises(RunError, match="damaged"):
        read_scores(run)
    (tmp_path / SCORES_FILE).unlink()
    assert read_scores(run) == {}

"""The end of a run: the model learns how certain it may say to be before the test split is opened, and keeps scores."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pixpnet.cli import main
from pixpnet.config import RunConfig
from pixpnet.data import DataSet
from pixpnet.manifest import Manifest
from pixpnet.metrics.auditing.conduct import check_conduct
from pixpnet.model import PixPNet
from pixpnet.model.calibration import Calibration, calibrate, fit_temperature, size_correction
from pixpnet.records import to_plain
from pixpnet.settings import Optimization
from pixpnet.training import Run, RunError, calibrating, train
from pixpnet.training import folds as by_folds
from pixpnet.training.answers import answers_from_text
from pixpnet.training.calibrating import RECALIBRATIONS_FILE, calibrate_run, recalibrations
from pixpnet.training.finishing import calibration_of
from pixpnet.training.kept_scores import SCORES_FILE, SplitScores, read_scores, write_scores
from pixpnet.verdicts import Verdict, VerdictLog
from tests.training.conftest import Trained
from tests.training.material import small_config


def test_the_model_file_keeps_what_validation_says_about_certainty(trained: Trained) -> None:
    model, scores = PixPNet.load(trained.path), read_scores(Run(trained.path))
    assert set(scores) == {"val", "test"}
    val = scores["val"]
    assert model.calibration == calibrate(val.logits, val.largest_scores, val.labels, "validation")
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
    known = model.calibration
    assert known is not None and 0 < known.correction < 10
    held = scores["folds"]
    assert known == calibrate(held.logits, held.largest_scores, held.labels, "folds", known.correction)
    everything = {entry.id for entry in Run(tmp_path / "run").data().train}
    held_out = [everything - {entry.id for entry in data.train} for data in learnt]
    assert len(held_out) == 5 and sum(map(len, held_out)) == len(everything) == len(scores["folds"]) == 24
    assert set.union(*held_out) == everything
    assert torch.bincount(scores["folds"].labels).tolist() == [8, 8, 8]

    learnt.clear()
    assert train(replace(config, calibrate_by_folds=False), tmp_path / "quick") == metrics
    model, scores = PixPNet.load(tmp_path / "quick"), read_scores(Run(tmp_path / "quick"))
    assert learnt == [] and "folds" not in scores
    # Afterwards it gets what it would have had, without any test image.
    openings = (tmp_path / "quick" / "openings.jsonl").read_text()
    result = calibrate_run(tmp_path / "quick")
    assert len(learnt) == 5 and result.fold_note == ""
    assert result.after == PixPNet.load(tmp_path / "quick").calibration
    # Up to rounding: validation images pass through the whole network, and not through kept features.
    assert (result.after.source, result.after.images) == (known.source, known.images)
    assert result.after.temperature == pytest.approx(known.temperature, rel=1e-3)
    assert "folds" in read_scores(Run(tmp_path / "quick")) and "test" in read_scores(Run(tmp_path / "quick"))
    assert (tmp_path / "quick" / "openings.jsonl").read_text() == openings
    assert model.calibration is None or model.calibration.source == "validation"


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Run:
    """A copy of a finished run, which opened the test split for its model."""
    return Run(Path(shutil.copytree(trained.path, tmp_path / "run")))


def test_a_run_of_an_earlier_version_is_calibrated_and_the_audit_knows_its_model_again(run: Run) -> None:
    model = run.model()
    expected, model.calibration = model.calibration, None
    run.keep_calibrated(model)
    opening = json.loads(run.openings.read_text().splitlines()[0])
    run.openings.write_text(json.dumps({**opening, "model": run.fingerprint()}) + "\n")
    assert check_conduct(run, None).early == 0
    result = calibrate_run(run)
    assert result.before is None and result.after == run.model().calibration
    assert result.after.images == 9 and expected is not None
    assert result.after.temperature == pytest.approx(expected.temperature, rel=1e-4)
    assert "the backbone learnt" in result.fold_note
    (line,) = recalibrations(run)
    assert line.before == json.loads(run.openings.read_text())["model"] and line.after == run.fingerprint()
    assert check_conduct(run, None).early == 0
    calibrate_run(run, folds=False)  # once more: the chain leads on
    assert check_conduct(run, None).early == 0


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before the model is replaced", "after it is"])
def test_a_calibration_that_is_killed_costs_neither_verdicts_nor_the_audit(
    run: Run, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    model = run.model()
    model.calibration = None
    run.keep_calibrated(model)
    opening = json.loads(run.openings.read_text().splitlines()[0])
    run.openings.write_text(json.dumps({**opening, "model": run.fingerprint()}) + "\n")
    VerdictLog(run.path).append(Verdict(1, "remove"))
    before, keep = run.fingerprint(), Run.keep_calibrated

    def killed(*given: Any) -> None:
        raise Killed

    def kept_and_killed(*given: Any) -> None:
        keep(*given)
        raise Killed

    if moment == "before the model is replaced":
        monkeypatch.setattr(Manifest, "_write", killed)
    else:
        monkeypatch.setattr(Run, "keep_calibrated", kept_and_killed)
    with pytest.raises(Killed):
        calibrate_run(run, folds=False)
    monkeypatch.undo()
    assert (run.fingerprint() == before) == (moment == "before the model is replaced")
    assert len(recalibrations(run)) == 1
    for _ in range(2):
        assert VerdictLog(run.path).removed() == (1,)
        assert check_conduct(run, None).early == 0
        # Once more, to another end, so that lines which lead nowhere lie between those that do.
        monkeypatch.setattr(calibrating, "calibration_of", lambda *given: other_calibration(calibration_of(*given)))
        calibrate_run(run, folds=False)
        monkeypatch.undo()
    assert VerdictLog(run.path).removed() == (1,)
    assert check_conduct(run, None).early == 0


def other_calibration(calibration: Calibration | None) -> Calibration:
    assert calibration is not None
    return replace(calibration, temperature=2 * calibration.temperature)


def test_a_model_that_was_changed_in_more_than_its_calibration_is_not_known_again(run: Run) -> None:
    calibration = run.model().calibration
    assert calibration is not None
    model = run.model()
    model.calibration = replace(calibration, temperature=2 * calibration.temperature)
    run.keep_calibrated(model)
    opening = json.loads(run.openings.read_text().splitlines()[0])
    run.openings.write_text(json.dumps({**opening, "model": run.fingerprint()}) + "\n")
    calibrate_run(run)
    assert check_conduct(run, None).early == 0
    model = run.model()
    with torch.no_grad():
        model.add_on[0].bias[0] += 0.1
    run.keep_calibrated(model)
    assert check_conduct(run, None).early == 1
    # Nor by a line that says so.
    line = replace(recalibrations(run)[-1], after=run.fingerprint())
    (run.path / RECALIBRATIONS_FILE).write_text(json.dumps(to_plain(line)) + "\n")
    assert check_conduct(run, None).early == 1


def test_a_run_that_is_not_finished_is_refused(run: Run) -> None:
    (run.path / "metrics.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        calibrate_run(run)


def test_the_command_says_what_changed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(run.path), "--device", "cpu"]) == 0
    text = capsys.readouterr().out
    assert "Probabilities are calibrated" in text and "9 images are few" in text and "Before: temperature" in text
    assert main(["calibrate", str(run.path), "--no-folds", "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["source"] == "validation"


def test_the_correction_is_one_where_folds_are_as_good_and_shrinks_what_chance_may_have_made() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (40,), generator=generator)
    logits = torch.randn(40, 4, generator=generator) + 3 * torch.nn.functional.one_hot(labels, 4)
    assert size_correction(logits, [logits, logits], labels) == 1.0
    # Twice the logits need twice the temperature, image by image: no chance in it.
    assert size_correction(logits, [2 * logits], labels) == pytest.approx(0.5, rel=1e-3)
    noisy = logits + 2 * torch.randn(40, 4, generator=generator)
    ratio = fit_temperature(logits, labels) / fit_temperature(noisy, labels)
    corrected = size_correction(logits, [noisy], labels)
    assert ratio < corrected < 1  # models that know less need a higher temperature, and part of that may be chance
    assert size_correction(logits[:0], [], labels[:0]) == 1.0


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

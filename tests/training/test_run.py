"""What a run leaves, what it refuses, when the test split is opened and which model is kept."""

import csv
import json
import signal
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pixpnet.config import read_config
from pixpnet.data import Entry, open_data, preprocess
from pixpnet.data.reader import FileReader
from pixpnet.model import PixPNet
from pixpnet.training import LogLine, Nobody, Run, RunError, fitting, open_run_data, replacing, resume, train
from pixpnet.training.evaluation import Evaluation, evaluation_of
from tests.training.conftest import Trained
from tests.training.material import in_child, small_config


def log_of(run: Path) -> list[dict[str, str]]:
    with (run / "log.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_the_files_it_promises(trained: Trained) -> None:
    names = {path.name for path in trained.path.iterdir() if not path.name.startswith(".")}
    assert names - {"tensorboard"} == {
        *("config.yaml", "model.safetensors", "prototypes.json", "prototypes", "metrics.json"),
        *("images.csv", "log.csv", "openings.jsonl", "checkpoints", "manifest.json"),
        *("answers.csv", "scores.safetensors", "location.json", "environment.json"),
    }
    assert not list(trained.path.rglob("*.part"))
    assert read_config(trained.path / "config.yaml") == trained.config
    pictures = {f"{k}.{kind}" for k in range(6) for kind in ("png", "jpg")}
    assert {path.name for path in (trained.path / "prototypes").iterdir()} == pictures


def test_the_log_has_a_line_for_each_epoch_and_every_column(trained: Trained) -> None:
    lines = log_of(trained.path)
    # As in earlier versions; other members have other loss terms.
    assert list(lines[0]) == [
        *("epoch", "stage", "loss", "cross_entropy", "cluster", "separation", "train_accuracy", "val_accuracy"),
        *("val_loss", "replaced_distance", "replacement_stayed", "replacement_proven"),
        *("val_accuracy_after", "val_loss_after", "best", "seconds"),
    ]
    assert [(line["epoch"], line["stage"]) for line in lines] == [("1", "warm_up"), ("2", "joint"), ("3", "joint")]
    (*_, best) = [line for line in lines if line["best"] == "True"]
    assert int(best["epoch"]) == trained.metrics.chosen_epoch
    assert trained.metrics.validation.accuracy == float(best["val_accuracy_after"])
    assert trained.metrics.validation_before.accuracy == float(best["val_accuracy"])


def test_prototypes_json_lists_the_origins_of_the_model(trained: Trained) -> None:
    model, data = PixPNet.load(trained.path), open_data(trained.config.data)
    entries = {entry.id: entry for entry in data.train}
    assert model.origins is not None
    listed = json.loads((trained.path / "prototypes.json").read_text())
    assert [line["prototype"] for line in listed] == list(range(6))
    for line, origin in zip(listed, model.origins, strict=True):
        assert line["class"] == model.class_names[origin.label] == origin.image.split("/")[-2]
        sample = preprocess(data.reader(entries[origin.image]), model.preprocessing)
        assert line["to_source"] == sample.to_source.flatten().tolist()
        assert [tuple(box) for box in line["boxes"]] == [
            tuple(box) for box in model.field.boxes(origin.row, origin.col)
        ]
        # The law, from the files alone: the prototype is the patch of that image.
        with torch.no_grad():
            maps = model(sample.image.as_subclass(torch.Tensor)[None]).matches.distance_maps
        assert float(maps[0, origin.prototype, origin.row, origin.col]) < 1e-6
    assert len({(origin.label, origin.image) for origin in model.origins}) == 6


def test_a_run_is_never_overwritten(trained: Trained, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in trained.path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match="--resume"):
        train(trained.config, trained.path)
    with pytest.raises(RunError, match="is finished"):
        resume(trained.path)
    assert {path: path.read_bytes() for path in trained.path.rglob("*") if path.is_file()} == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        train(trained.config, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_second_process_on_the_same_run_is_refused(trained: Trained, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", trained.config, open_run_data(trained.config).listed)
    with run.locked(), pytest.raises(RunError, match="another process"):
        resume(run.path)
    assert not run.checkpoint.exists()


def test_the_same_seed_gives_the_same_file_and_another_seed_another(trained: Trained, tmp_path: Path) -> None:
    for name, seed in (("same", 0), ("other", 1)):
        config = small_config(Path(trained.config.data.removeprefix("folder:")), seed=seed)
        assert in_child("train", config=config, out=str(tmp_path / name)) == 0
    model = (trained.path / "model.safetensors").read_bytes()
    assert (tmp_path / "same" / "model.safetensors").read_bytes() == model
    other = load_file(tmp_path / "other" / "model.safetensors")
    assert any(
        not torch.equal(other[name], value) for name, value in load_file(trained.path / "model.safetensors").items()
    )


def test_a_run_in_another_thread_than_the_main_one_ends_as_any_other(trained: Trained, tmp_path: Path) -> None:
    ends: list[object] = []

    def carry_out() -> None:
        try:
            ends.append(train(trained.config, tmp_path / "run"))
        except BaseException as error:
            ends.append(error)

    interrupts = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=carry_out)
    thread.start()
    thread.join(120)
    assert ends == [trained.metrics]
    assert signal.getsignal(signal.SIGINT) is interrupts
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained.path / "model.safetensors").read_bytes()


# The test split -----------------------------------------------------------------------------------------------


def test_the_test_split_is_opened_once_on_record(trained: Trained) -> None:
    (line,) = (trained.path / "openings.jsonl").read_text().splitlines()
    opening = json.loads(line)
    assert opening["images"] == 12
    assert f"epoch {trained.metrics.chosen_epoch}" in opening["reason"]


@pytest.mark.parametrize("evaluate_on_test", [True, False])
def test_no_test_image_is_read_before_training_ended(
    trained: Trained, evaluate_on_test: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first opening of a data set looks for copies across splits; `trained` has done that, and it is remembered.
    events: list[str] = []
    read = FileReader.__call__

    def noted(self: FileReader, entry: Entry) -> Any:
        events.append(entry.id)
        return read(self, entry)

    class Watching(Nobody):
        def epoch_ended(self, line: LogLine) -> None:
            events.append(f"end of epoch {line.epoch}")

    monkeypatch.setattr(FileReader, "__call__", noted)
    config = small_config(Path(trained.config.data.removeprefix("folder:")), evaluate_on_test=evaluate_on_test)
    metrics = train(config, tmp_path / "run", Watching())
    assert metrics is not None
    during = events[: events.index("end of epoch 3")]
    assert any(event.startswith("train/") for event in during)
    assert not any(event.startswith("test/") for event in during)
    opened = {event for event in events if event.startswith("test/")}
    assert len(opened) == (12 if evaluate_on_test else 0)
    assert (metrics.test is not None) == evaluate_on_test
    assert (tmp_path / "run" / "openings.jsonl").exists() == evaluate_on_test


# Which model is kept ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "chosen"),
    [
        # Accuracies of ten images before and after replacement, for each epoch. One standard error of 6 right answers
        # is 1.4 (7 of 12, by hand: sqrt(7/12 * 5/12 / 12) = 0.142), of 10 it is 0.8.
        ([0.9, 0.3, 0.2, 0.7, 1.0, 0.5], 2),
        ([0.1, 0.5, 0.1, 0.5, 0.1, 0.5], 3),
        ([0.1, 0.6, 0.1, 0.5, 0.1, 0.4], 2),
        ([0.1, 0.6, 0.1, 0.5, 0.1, 0.5], 3),
        ([0.1, 0.9, 0.1, 1.0, 0.1, 0.9], 2),
    ],
    ids=["after, not before", "the last of equals", "no creeping down", "too few to tell apart", "told apart"],
)
def test_the_last_epoch_within_one_standard_error_of_the_best_after_replacement_is_kept(
    trained: Trained,
    script: list[float],
    chosen: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, prototypes = count(), []
    replace_prototypes = replacing.replace_prototypes

    def scripted(*args: Any, **kwargs: Any) -> Evaluation:
        right = round(10 * script[next(calls)])
        return evaluation_of([[right, 10 - right, 0], [0, 0, 0], [0, 0, 0]], 1.0)

    def noted(model: PixPNet, *args: Any, **kwargs: Any) -> Any:
        origins = replace_prototypes(model, *args, **kwargs)
        prototypes.append(model.prototypes.detach().clone())
        return origins

    monkeypatch.setattr(fitting, "evaluate", scripted)
    monkeypatch.setattr(replacing, "replace_prototypes", noted)
    config = small_config(Path(trained.config.data.removeprefix("folder:")), evaluate_on_test=False)
    metrics = train(config, tmp_path / "run")
    assert metrics is not None
    assert next(calls) == 6
    assert metrics.chosen_epoch == chosen
    assert torch.equal(PixPNet.load(tmp_path / "run").prototypes, prototypes[chosen - 1])
    assert not torch.equal(prototypes[0], prototypes[1])
    assert not torch.equal(prototypes[1], prototypes[2])

"""`pixpnet predict` for many pictures: folders, patterns, tables, and the memory of one batch."""

import csv
import gc
import io
import json
import shutil
import weakref
from pathlib import Path

import pytest
import torch

from pixpnet.cli import main
from pixpnet.commands.picture_files import picture_files
from pixpnet.data import Sample, preprocess, read_sample
from pixpnet.model import PixPNet, predicting
from pixpnet.model.predicting import Prediction, Unreadable, predict_files
from tests.training.conftest import Trained


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_folder_is_answered_picture_by_picture_as_a_table(
    trained: Trained, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answers.csv"
    assert main(["predict", str(trained.path), str(pictures / "test"), "--out", str(out), "--batch-size", "5"]) == 0
    assert capsys.readouterr().out == f"12 answers -> {out}\n"
    rows = table(out.read_text())
    assert list(rows[0]) == [
        "file",
        "class",
        "probability",
        "runner-up",
        "runner-up probability",
        "calibrated",
        "doubt",
        "rare",
    ]
    assert [row["file"] for row in rows] == [str(path) for path in sorted((pictures / "test").rglob("*.png"))]
    model = PixPNet.load(trained.path)
    for row in rows:  # one by one, by hand
        with torch.no_grad():
            image = preprocess(read_sample(row["file"]), model.preprocessing).image
            logits = model(image.as_subclass(torch.Tensor)[None]).logits
        assert model.calibration is not None
        (shares,) = (logits / model.calibration.temperature).softmax(dim=1).tolist()
        # Nine images were too few for a limit of doubt.
        assert (row["calibrated"], row["doubt"], row["rare"]) == ("yes", "", "")
        (first, one), (second, two), _ = sorted(zip(model.class_names, shares, strict=True), key=lambda pair: -pair[1])
        assert (row["class"], row["runner-up"]) == (first, second)
        # The logarithm of a distance near 0 makes much of the rounding by which batches differ.
        assert float(row["probability"]) == pytest.approx(one, abs=1e-3)
        assert float(row["runner-up probability"]) == pytest.approx(two, abs=1e-3)


def test_patterns_are_found_without_the_shell_and_printed_tables_are_the_same(
    trained: Trained, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = str(pictures / "test" / "**" / "[01].png")
    assert main(["predict", str(trained.path), pattern, "--csv"]) == 0
    rows = table(capsys.readouterr().out)
    assert {Path(row["file"]).name for row in rows} == {"0.png", "1.png"}
    assert len(rows) == 6
    assert main(["predict", str(trained.path), pattern, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    for row, record in zip(rows, records, strict=True):
        assert (row["file"], row["class"]) == (record["image"], record["class"])
        assert sum(record["probabilities"].values()) == pytest.approx(1)
        assert float(row["probability"]) == pytest.approx(record["probabilities"][row["class"]], abs=1e-6)
    out = tmp_path / "answers.json"
    assert main(["predict", str(trained.path), pattern, "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == records


def test_nothing_found_is_an_error_and_not_an_empty_answer(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    for name, why in ((str(tmp_path), "no picture in the folder"), (str(tmp_path / "*.jpg"), "no file matches")):
        assert main(["predict", str(trained.path), name]) == 1
        assert why in capsys.readouterr().err


def test_a_file_whose_name_looks_like_a_pattern_is_a_file_and_each_is_answered_once(tmp_path: Path) -> None:
    for name in ("a[1].png", "a1.png", ".hidden.png", "note.txt", "deep/b.JPG"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert picture_files([str(tmp_path / "a[1].png")]) == [tmp_path / "a[1].png"]
    meant = picture_files([str(tmp_path / "a1.png"), str(tmp_path)])
    assert meant == [tmp_path / "a1.png", tmp_path / "a[1].png", tmp_path / "deep" / "b.JPG"]


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_that_is_still_in_training_is_warned_of(
    trained: Trained, pictures: Path, tmp_path: Path, finished: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(trained.path, tmp_path / "run"))
    if not finished:
        (run / "metrics.json").unlink()
    assert main(["predict", str(run), str(pictures / "test" / "red" / "0.png")]) == 0
    warned = "still in training, or was interrupted" in capsys.readouterr().err
    assert warned is not finished


def test_no_more_pictures_are_in_memory_than_a_batch_has(
    trained: Trained, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    alive = most = 0
    model = PixPNet.load(trained.path)
    forward = model.forward

    def read(sample: Sample, preprocessing: object) -> Sample:
        nonlocal alive, most
        made = preprocess(sample, model.preprocessing)
        alive += 1
        most = max(most, alive)
        weakref.finalize(made, gone)
        return made

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def counted(images: torch.Tensor) -> object:
        passes.append(len(images))
        return forward(images)

    monkeypatch.setattr(predicting, "preprocess", read)
    monkeypatch.setattr(model, "forward", counted)
    paths = [*sorted(pictures.rglob("*.png")), Path("missing.png")]
    answers = []
    for answer in predict_files(model, iter(paths), batch_size=4):
        answers.append(answer)
        gc.collect()
    assert [answer.path for answer in answers] == paths
    assert isinstance(answers[-1], Unreadable)
    assert all(isinstance(answer, Prediction) for answer in answers[:-1])
    assert len(paths) == 46
    assert most == 4
    assert passes == [4] * 11 + [1]

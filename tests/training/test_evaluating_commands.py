"""`pixpnet evaluate` and `pixpnet predict` on a small run."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from pixpnet.cli import main
from pixpnet.data import Entry
from pixpnet.data.reader import FileReader
from pixpnet.model import PixPNet
from tests.training.conftest import Trained
from tests.training.material import draw_pictures


def test_evaluate_says_what_training_found_and_records_the_opening(
    trained: Trained, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    metrics = json.loads((trained.path / "metrics.json").read_text())
    for key in ("accuracy", "confusion", "images", "class_accuracy", "interval"):
        assert record[key] == metrics["test"][key]
    assert record["loss"] == pytest.approx(metrics["test"]["loss"], rel=1e-5)
    assert (record["split"], record["images"]) == ("test", 12)
    assert len((run / "openings.jsonl").read_text().splitlines()) == 2
    assert main(["evaluate", str(run), "--split", "val"]) == 0
    out = capsys.readouterr().out
    assert f"{100 * metrics['validation']['accuracy']:.3g} % of 9 images" in out
    assert all(name in out for name in ("blue", "green", "red"))
    assert len((run / "openings.jsonl").read_text().splitlines()) == 2


def test_the_test_split_of_a_run_that_is_not_finished_stays_closed(
    trained: Trained, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "metrics.json").unlink()
    (run / "openings.jsonl").unlink()
    read: list[str] = []
    original = FileReader.__call__

    def noted(self: FileReader, entry: Entry) -> Any:
        read.append(entry.id)
        return original(self, entry)

    monkeypatch.setattr(FileReader, "__call__", noted)
    # Naming the data of the run does not make them other data.
    for words in ([], ["--data", trained.config.data], ["--data", trained.config.data + "/"]):
        assert main(["evaluate", str(run), *words]) == 1, words
        error = capsys.readouterr().err
        assert "is not finished" in error
        assert f"pixpnet train --resume {run}" in error
    assert not (run / "openings.jsonl").exists()
    assert read == []
    assert main(["evaluate", str(run), "--split", "val"]) == 0
    assert len(read) == 9
    assert {id_.split("/")[0] for id_ in read} == {"val"}
    assert not (run / "openings.jsonl").exists()


@pytest.mark.filterwarnings("default::pixpnet.data.DataWarning")
def test_all_images_are_judged_of_other_data_only_and_none_that_the_model_learnt_from(
    trained: Trained, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--data", trained.config.data]):
        assert main(["evaluate", str(run), "--split", "all", *words]) == 1, words
        assert "it goes with --data" in capsys.readouterr().err
    assert len((run / "openings.jsonl").read_text().splitlines()) == 1
    # Other data: the same test images, the same validation images, and training images that are mirrored.
    other = Path(shutil.copytree(trained.config.data.removeprefix("folder:"), tmp_path / "other"))
    for path in (other / "train").rglob("*.png"):
        if int(path.stem) > 1:
            path.unlink()
        else:
            ImageOps.mirror(Image.open(path)).save(path)
    assert main(["evaluate", str(run), "--data", f"folder:{other}", "--split", "all", "--json"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert "left out 9 of 27 images" in printed.err
    assert (record["split"], record["images"]) == ("all", 3 * (2 + 4))
    assert [sum(line) for line in record["confusion"]] == [2 + 4] * 3
    metrics = json.loads((trained.path / "metrics.json").read_text())
    for given, known in zip(record["confusion"], metrics["test"]["confusion"], strict=True):
        for result, before in zip(given, known, strict=True):
            assert 0 <= result - before <= 2  # the rest are the mirrored images
    opening = json.loads((run / "openings.jsonl").read_text().splitlines()[-1])
    assert opening["images"] == 12
    assert str(other) in opening["reason"]


@pytest.mark.filterwarnings("default::pixpnet.data.DataWarning")
def test_evaluate_refuses_other_classes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = draw_pictures(tmp_path / "other", ("blue", "green", "teal"))
    assert main(["evaluate", str(run), "--data", f"folder:{other}"]) == 1
    error = capsys.readouterr().err
    assert "teal" in error
    assert "red" in error
    assert len((run / "openings.jsonl").read_text().splitlines()) == 1


@pytest.fixture
def images(pictures: Path, tmp_path: Path) -> dict[str, Path]:
    """One picture in several forms, and two that are none."""
    whole = Image.open(pictures / "test" / "red" / "0.png").convert("RGB")
    folder = tmp_path / "images"
    folder.mkdir()
    names = ("colour.png", "grey.png", "cmyk.jpg", "broken.png", "missing.png")
    paths = {name.split(".")[0]: folder / name for name in names}
    whole.save(paths["colour"])
    whole.convert("L").save(paths["grey"])
    whole.convert("CMYK").save(paths["cmyk"])
    paths["broken"].write_bytes(paths["colour"].read_bytes()[:60])
    return paths


def test_predict_answers_for_every_picture_it_can_read(
    trained: Trained, images: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    order = ["broken", "colour", "missing", "grey", "cmyk"]
    assert main(["predict", str(trained.path), *(str(images[name]) for name in order), "--json"]) == 1
    output = capsys.readouterr()
    records = json.loads(output.out)
    assert [record["image"] for record in records] == [str(images[name]) for name in ("colour", "grey", "cmyk")]
    assert [line.split(":")[0] for line in output.err.splitlines()] == ["error", "error"]
    assert "broken.png" in output.err
    assert "missing.png" in output.err
    model = PixPNet.load(trained.path)
    for record in records:
        assert set(record["logits"]) == set(model.class_names)
        assert (
            record["class"] == max(record["logits"], key=record["logits"].__getitem__) == next(iter(record["logits"]))
        )
        assert sum(record["probabilities"].values()) == pytest.approx(1)
    # By hand, with Pillow: resize the whole picture, cut out the centre, bring it to size.
    preprocessing = model.preprocessing
    assert preprocessing.shortest_side is not None
    side, left = preprocessing.shortest_side, (preprocessing.shortest_side - preprocessing.crop) // 2
    with Image.open(images["colour"]) as picture:
        resized = picture.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    cut = resized.crop((left, left, left + preprocessing.crop, left + preprocessing.crop)).resize(
        (preprocessing.size, preprocessing.size)
    )
    pixels = torch.from_numpy(np.asarray(cut).copy()).permute(2, 0, 1) / 255
    image = (pixels - torch.tensor(preprocessing.mean)[:, None, None]) / torch.tensor(preprocessing.std)[:, None, None]
    with torch.no_grad():
        logits = model(image[None]).logits[0].tolist()
    named = dict(zip(model.class_names, logits, strict=True))
    # Two resamplings instead of one: near, not equal, and nearer than to any other picture's.
    assert records[0]["logits"] == pytest.approx(named, rel=0.1)


def test_predict_in_words(trained: Trained, images: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(trained.path / "model.safetensors"), str(images["colour"])]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{images['colour']}: ")
    assert "calibrated: temperature" in last


@pytest.mark.parametrize(
    "words", [["evaluate", "RUN", "--device", "cuda"], ["predict", "RUN", "a.png", "--device", "cuda"]]
)
def test_a_missing_device_is_a_clear_error(
    trained: Trained, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert main([str(trained.path) if word == "RUN" else word for word in words]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: this machine cannot compute on --device cuda")
    assert "Traceback" not in error


def test_a_folder_that_is_no_run_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["evaluate", str(tmp_path)],
        ["predict", str(tmp_path), "a.png"],
        ["train", "--resume", str(tmp_path)],
    ):
        assert main(words) == 1, words
        assert capsys.readouterr().err.startswith("error: there is no")

"""`pixpnet train`, `evaluate` and `predict` on a finished run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from pixpnet.cli import main
from pixpnet.config import RunConfig
from pixpnet.model import PixPNet
from pixpnet.recipe import RECIPES
from pixpnet.records import from_plain, to_plain
from tests.training.conftest import Trained
from tests.training.material import draw_pictures


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the run, to which openings may be added."""
    return Path(shutil.copytree(trained.path, tmp_path / "run"))


def test_train_end_to_end_with_the_configuration_of_another_run(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "again"
    assert main(["train", "--config", str(trained.path / "config.yaml"), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert f"epoch {trained.metrics.chosen_epoch} of 3" in said.out
    assert str(out) in said.out
    assert said.err.count("validation") >= 3
    for name in ("config.yaml", "model.safetensors", "metrics.json"):
        assert (out / name).read_bytes() == (trained.path / name).read_bytes()
    assert main(["train", "--config", str(trained.path / "config.yaml"), "--out", str(out)]) == 1
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_printed_configuration_is_the_recipe_and_reads_back(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*words: str) -> RunConfig:
        with pytest.raises(SystemExit) as end:
            main(["train", *words, "--print_config"])
        assert end.value.code in (None, 0)
        values = yaml.safe_load(capsys.readouterr().out)
        return from_plain(RunConfig, {name: values[name] for name in to_plain(RunConfig())})

    config = printed("--recipe", recipe, "--seed", "5")
    assert config.recipe == RECIPES[recipe]
    assert config.seed == 5
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(to_plain(config)))
    assert printed("--config", str(file)) == config
    changed = printed("--config", str(file), "--losses.cluster_weight", "0.25")
    assert changed.losses.cluster_weight == 0.25
    assert changed.recipe == replace(config.recipe, losses=replace(config.losses, cluster_weight=0.25))
    # What comes before the file on the command line changes it as well.
    assert printed("--losses.cluster_weight", "0.25", "--config", str(file)) == changed


@pytest.mark.parametrize(
    "words",
    [
        ["--recipe", "protopnetz", "--out", "run"],
        ["--config", "no-such-file.yaml", "--out", "run"],
        ["--optimisation.epochs", "many", "--out", "run"],
        ["--architecture.head", "sum", "--out", "run"],
    ],
)
def test_wrong_usage_of_train_exits_with_2(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["train", *words])
    assert end.value.code == 2
    assert not (tmp_path / "run").exists()


def test_train_wants_to_know_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"]) == 2
    assert "--out RUN" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["train", "--out", "a", "--resume", "b"])
    assert end.value.code == 2
    assert "--resume takes no other options, and --out came" in capsys.readouterr().err


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
    assert f"{metrics['validation']['accuracy']:.1%} of 9 images" in out
    assert all(name in out for name in ("blue", "green", "red"))
    assert len((run / "openings.jsonl").read_text().splitlines()) == 2


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
    said = capsys.readouterr()
    records = json.loads(said.out)
    assert [record["image"] for record in records] == [str(images[name]) for name in ("colour", "grey", "cmyk")]
    assert [line.split(":")[0] for line in said.err.splitlines()] == ["error", "error"]
    assert "broken.png" in said.err
    assert "missing.png" in said.err
    model = PixPNet.load(trained.path)
    for record in records:
        assert set(record["logits"]) == set(model.class_names)
        assert (
            record["class"] == max(record["logits"], key=record["logits"].__getitem__) == next(iter(record["logits"]))
        )
        assert sum(record["softmax"].values()) == pytest.approx(1)
    # By hand, with Pillow: resize the whole picture, cut out the centre, bring it to size.
    how = model.preprocessing
    assert how.shortest_side is not None
    side, left = how.shortest_side, (how.shortest_side - how.crop) // 2
    with Image.open(images["colour"]) as picture:
        resized = picture.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    cut = resized.crop((left, left, left + how.crop, left + how.crop)).resize((how.size, how.size))
    pixels = torch.from_numpy(np.asarray(cut).copy()).permute(2, 0, 1) / 255
    image = (pixels - torch.tensor(how.mean)[:, None, None]) / torch.tensor(how.std)[:, None, None]
    with torch.no_grad():
        logits = model(image[None]).logits[0].tolist()
    named = dict(zip(model.class_names, logits, strict=True))
    # Two resamplings instead of one: near, not equal, and nearer than to any other picture's.
    assert records[0]["logits"] == pytest.approx(named, rel=0.1)


def test_predict_in_words(trained: Trained, images: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(trained.path / "model.safetensors"), str(images["colour"])]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{images['colour']}: ")
    assert "not a calibrated probability" in last


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

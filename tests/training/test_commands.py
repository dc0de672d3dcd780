"""`pixpnet train`, `evaluate` and `predict` on a finished run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image, ImageOps

from pixpnet.cli import main
from pixpnet.commands.train import complete
from pixpnet.config import RunConfig
from pixpnet.data import Entry
from pixpnet.data.reader import FileReader
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
    assert (
        f"kept: epoch {trained.metrics.chosen_epoch} of 3, the last epoch whose validation accuracy after replacement "
        "is within one standard error of the best so far\n"
    ) in said.out
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


def test_edits_pass_through_the_command_line_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits = ("unstride:layer3.0", "pointwise:layer3.1.conv2")

    def printed(*words: str) -> list[str]:
        with pytest.raises(SystemExit):
            main(["train", *words, "--print_config"])
        text = capsys.readouterr().out
        (tmp_path / "mine.yaml").write_text(text)
        found: list[str] = yaml.safe_load(text)["edits"]
        return found

    assert printed() == []
    assert printed("--edits", f"[{', '.join(edits)}]") == list(edits)
    assert printed("--config", str(tmp_path / "mine.yaml")) == list(edits)
    assert printed("--config", str(tmp_path / "mine.yaml"), "--edits", "[]") == []


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


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        # What is named comes first, in the order in which it came; the later one changes the earlier one.
        (["--seed", "7", "--config", "a.yaml"], ["--config", "a.yaml", "--seed", "7"]),
        (["--seed=7", "--recipe=pixpnet"], ["--recipe=pixpnet", "--seed=7"]),
        (["--config=a.yaml", "--seed", "7", "--recipe", "x"], ["--config=a.yaml", "--recipe", "x", "--seed", "7"]),
        (["--recipe", "x", "--seed=7", "--config=a.yaml"], ["--recipe", "x", "--config=a.yaml", "--seed=7"]),
        # Nothing is added to what is named, whatever the weights.
        (["--weights=imagenet", "--config=a.yaml"], ["--config=a.yaml", "--weights=imagenet"]),
        # Where nothing is named, the weights decide, wherever they stand.
        (["--out", "r", "--weights=imagenet"], ["--recipe", "laptop", "--out", "r", "--weights=imagenet"]),
        (["--out", "r", "--weights", "a.pth"], ["--recipe", "laptop", "--out", "r", "--weights", "a.pth"]),
        (["--weights", "none", "--out", "r"], ["--recipe", "scratch", "--weights", "none", "--out", "r"]),
        (["--weights=none"], ["--recipe", "scratch", "--weights=none"]),
        ([], ["--recipe", "scratch"]),
        # A run that goes on has its own.
        (["--own_code", "--resume", "r"], ["--resume", "r", "--own_code"]),
        (["--resume=r"], ["--resume=r"]),
    ],
)
def test_the_recipe_or_file_comes_first_in_either_spelling(words: list[str], completed: list[str]) -> None:
    assert list(complete(words)) == completed


def test_the_later_of_a_file_and_a_recipe_changes_the_earlier_and_options_change_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 5\noptimisation:\n  epochs: 7\n")

    def printed(*words: str) -> dict[str, Any]:
        with pytest.raises(SystemExit):
            main(["train", *words, "--print_config"])
        values: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
        return values

    for words in (["--recipe=protopnet", "--config", str(file)], ["--recipe", "protopnet", f"--config={file}"]):
        values = printed(*words)
        assert (values["seed"], values["architecture"]["head"]) == (5, "linear")
        assert values["optimisation"]["epochs"] == 7
    values = printed("--optimisation.epochs=9", f"--config={file}", "--recipe=protopnet")
    assert values["optimisation"]["epochs"] == 9
    assert printed(f"--config={file}", "--recipe=protopnet")["optimisation"]["epochs"] == 50


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--resume", "RUN", "--seed", "1"], "--seed"),
        (["--seed=1", "--resume=RUN"], "--seed=1"),
        (["--resume=RUN", "--config", "a.yaml"], "--config"),
        (["--recipe=pixpnet", "--resume", "RUN"], "--recipe=pixpnet"),
        (["--resume", "RUN", "--own_code", "--weights=none"], "--weights=none"),
        (["--out=x", "--resume", "RUN"], "--out=x"),
    ],
)
def test_a_run_goes_on_as_it_began(
    trained: Trained, words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(trained.path.rglob("*"))
    with pytest.raises(SystemExit) as end:
        main(["train", *(word.replace("RUN", str(trained.path)) for word in words)])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert f"--resume takes no other options, and {named} came" in error
    assert sorted(trained.path.rglob("*")) == before


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
        for found, before in zip(given, known, strict=True):
            assert 0 <= found - before <= 2  # the rest are the mirrored images
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

"""What a person sees: the verdict, the contact sheet, and how fast help comes."""

import argparse
import inspect
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pixpnet.commands import data as commands
from pixpnet.data import DataOptions, DrawnBirds, check, guess_spec, open_data
from pixpnet.views.contact_sheet import contact_sheet, one_per_class

SaveNoise = Callable[..., Path]


def spoilt(root: Path, save_noise: SaveNoise) -> Path:
    (root / "jay" / "empty.jpg").touch()
    (root / "jay" / "readme.txt").touch()
    save_noise(root / "owl" / "lonely.png", 77)
    (root / "parts.csv").write_text(
        "file,part,x,y\njay/0.png,wing,3,4\nwren/0.png,wing,300,4\nwren/none.png,wing,1,1\n"
    )
    return root


def test_the_verdict_counts_what_was_made(jays_and_wrens: Path, save_noise: SaveNoise) -> None:
    checked = check(guess_spec(str(spoilt(jays_and_wrens, save_noise))), DataOptions(split_rule="quota"))
    assert [(count.name, count.train, count.val, count.test) for count in checked.counts] == [
        ("jay", 7, 1, 2),
        ("owl", 1, 0, 0),
        ("wren", 7, 1, 2),
    ]
    assert [problem.where for problem in checked.problems] == ["parts.csv, line 4", "jay/empty.jpg"]
    assert checked.ignored == ("jay/readme.txt",)
    assert checked.lonely == ("owl",)
    assert [(part.part, part.fraction) for part in checked.coverage] == [("wing", pytest.approx(1 / 21))]
    assert checked.points_outside == 1
    assert checked.shortest_sides == (40, 40, 40)
    assert not checked.sound


def test_check_prints_every_finding_and_fails(
    jays_and_wrens: Path, save_noise: SaveNoise, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.check(str(spoilt(jays_and_wrens, save_noise))) == 1
    printed = capsys.readouterr().out
    for expected in (
        "jay/empty.jpg: empty file",
        "line 4",
        "single training image",
        "readme.txt",
        "not fine",
        "wing",
    ):
        assert expected in printed
    assert "\x1b" not in printed


def test_check_finds_copies_across_splits(
    tmp_path: Path, save_noise: SaveNoise, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, path in enumerate(["train/jay/1.png", "train/jay/2.png", "train/jay/3.png"]):
        save_noise(tmp_path / path, seed)
    save_noise(tmp_path / "test" / "jay" / "copy.png", 1)
    save_noise(tmp_path / "val" / "jay" / "copy.png", 2)
    assert commands.check(str(tmp_path)) == 1
    printed = capsys.readouterr().out
    assert "test/jay/copy.png (test) is train/jay/2.png (train)" in printed
    assert "val/jay/copy.png (val) is train/jay/3.png (train)" in printed


def test_check_of_a_sound_data_set_passes(
    tmp_path: Path, save_noise: SaveNoise, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(300):
        save_noise(tmp_path / "pool" / ("jay", "wren")[number % 2] / f"{number}.png", number)
    assert commands.check(str(tmp_path / "pool")) == 0
    assert "fine: this data set can be trained on" in capsys.readouterr().out


def test_two_validation_images_are_not_called_fine(
    tmp_path: Path, save_noise: SaveNoise, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = itertools.count()
    for split, count in (("train", 6), ("val", 1), ("test", 2)):
        for name in ("jay", "wren"):
            for number in range(count):
                save_noise(tmp_path / split / name / f"{number}.png", next(seeds))
    assert commands.check(str(tmp_path)) == 0
    output = capsys.readouterr().out
    assert "can be trained on, but: 2 validation images" in output
    assert "fine:" not in output


def test_a_data_set_without_validation_images_is_not_fine(
    tmp_path: Path, save_noise: SaveNoise, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, path in enumerate(("train/jay", "train/wren", "test/jay", "test/wren")):
        save_noise(tmp_path / path / "1.png", number)
    assert commands.check(str(tmp_path)) == 1  # as training would refuse it
    assert "too few for a validation split" in capsys.readouterr().out


def test_the_same_picture_in_two_classes_is_found(
    jays_and_wrens: Path, capsys: pytest.CaptureFixture[str], save_noise: SaveNoise
) -> None:
    save_noise(jays_and_wrens / "jay" / "both.png", 4711)
    shutil.copy(jays_and_wrens / "jay" / "both.png", jays_and_wrens / "wren" / "other name.png")
    shutil.copy(jays_and_wrens / "jay" / "both.png", jays_and_wrens / "jay" / "a copy.png")
    assert commands.check(str(jays_and_wrens)) == 1
    output = capsys.readouterr().out
    assert "pictures that are in more than one class: 1" in output
    assert "jay/a copy.png is jay/both.png is wren/other name.png" in output
    assert "which one it shows" in output


def test_ignored_and_misplaced_files_are_counted_once(jays_and_wrens: Path, save_noise: SaveNoise) -> None:
    (jays_and_wrens / "notes.txt").touch()
    save_noise(jays_and_wrens / "stray.png", 12)
    checked = check(guess_spec(str(jays_and_wrens)))
    assert checked.ignored == ("notes.txt",)
    assert [problem.where for problem in checked.problems] == ["stray.png"]


def test_what_is_no_data_set_ends_with_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.check(str(tmp_path / "none")) == 2
    assert commands.show(str(tmp_path / "none"), str(tmp_path / "grid.png")) == 2
    assert capsys.readouterr().err.count("there is no folder") == 2


def test_show_writes_a_picture_and_says_what_it_left_out(
    jays_and_wrens: Path, tmp_path: Path, save_noise: SaveNoise, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grid.png"
    assert commands.show(str(spoilt(jays_and_wrens, save_noise)), str(out), images=3, views=1) == 0
    assert "2 unusable file(s) left out" in capsys.readouterr().out
    with Image.open(out) as image:
        assert min(image.size) > 300
    assert commands.show(str(jays_and_wrens), str(tmp_path / "none" / "grid.png")) == 2


def test_the_sheet_draws_each_keypoint_where_the_sample_says() -> None:
    """The markers' centres in the panel's own coordinates, against the data set."""
    data = open_data("birds", DataOptions(birds=DrawnBirds(train=24, test=0, size=64)))
    entries = one_per_class(data, 2)
    sheet = contact_sheet(data, entries, data.augmentation, views=1, seed=0)
    assert len(sheet.axes) == 2 * 3
    for entry, axis in zip(entries, sheet.axes[::3], strict=True):
        sample = data.reader(entry)
        drawn = np.array([line.get_xydata()[0] for line in axis.lines[::2]])
        np.testing.assert_allclose(drawn, sample.keypoints[sample.visible].numpy(), atol=1e-5)
    assert [text.get_text() for text in sheet.legends[0].get_texts()] == list(data.part_names)


def test_parts_are_told_apart_by_color_and_shape() -> None:
    from pixpnet.views.contact_sheet import _style

    assert len({_style(part) for part in range(15)}) == 15


def test_classes_take_turns_on_the_sheet() -> None:
    data = open_data("birds", DataOptions(birds=DrawnBirds(train=48, test=0, size=48)))
    labels = [entry.label for entry in one_per_class(data, 14)]
    assert labels == [*range(12), 0, 1]


def test_arguments_match_the_functions() -> None:
    for add, function in (
        (commands.add_check_arguments, commands.check),
        (commands.add_show_arguments, commands.show),
    ):
        parser = argparse.ArgumentParser()
        add(parser)
        arguments = vars(parser.parse_args(["somewhere"]))
        parameters = inspect.signature(function).parameters
        defaults = {name: parameter.default for name, parameter in list(parameters.items())[1:]}
        assert arguments == {"path": "somewhere", **defaults}


def test_importing_the_commands_imports_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "rich", "cv2", "matplotlib"}
    code = f"import sys, pixpnet.commands.data; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_class_names_with_brackets_and_dollars_are_shown_as_they_are(
    tmp_path: Path, save_noise: SaveNoise, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate(("[red]", "a$_{b$") * 5):
        save_noise(tmp_path / "pool" / name / f"{number}.png", number)
    assert commands.check(str(tmp_path / "pool")) == 0
    assert "[red]" in capsys.readouterr().out
    assert commands.show(str(tmp_path / "pool"), str(tmp_path / "sheet.png"), images=2, views=1) == 0
    assert commands.show(str(tmp_path / "pool"), str(tmp_path / "sheet.png"), views=-1) == 2


def test_images_that_are_all_one_color_are_not_called_fine(tmp_path: Path) -> None:
    for name in ("jay", "wren"):
        for number in range(4):
            path = tmp_path / "black" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20 + number, 20 + len(name))).save(path)
    checked = check(guess_spec(str(tmp_path / "black")))
    assert checked.blank
    assert not checked.sound

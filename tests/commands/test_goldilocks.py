"""`pixpnet goldilocks` as a person meets it."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import split

import pytest
from jsonargparse import ArgumentParser
from PIL import Image

from pixpnet.cli import main
from pixpnet.commands.goldilocks import add_arguments, command_words, without_password
from pixpnet.commands.goldilocks_text import train_words
from pixpnet.commands.train import config_of
from pixpnet.commands.train_options import prepare
from pixpnet.goldilocks import Candidate, FinishedTrial, Method, Survey, methods, with_windows
from pixpnet.goldilocks.bench import Bench, Outcome
from pixpnet.goldilocks.result import evaluated_cuts, recommended_run
from pixpnet.goldilocks.settings import SearchSettings

SMALL = ("--backbones", "small-21", "small-29", "--layers", "stage[123]", "--size", "32")
QUICK = ("--views", "1", "--batch-size", "8", "--zone", "0.01", "0.6", "--device", "cpu", "--heartbeat", "1")


@pytest.fixture
def words(pictures: Path, tmp_path: Path) -> list[str]:
    return ["goldilocks", "--data", f"folder:{pictures}", *SMALL, *QUICK, "--out", str(tmp_path / "search")]


def test_the_table_of_fields_needs_no_data_and_says_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--backbones", "resnet18", "--size", "64", "--out", str(tmp_path))
    assert main(["goldilocks", "--fields-only", *more]) == 0
    out = capsys.readouterr().out
    assert "resnet18 @ layer1 64 x 16 x 16" in " ".join(out.split())
    assert "left out: resnet18 @ fc: its output (1000) is flat" in out
    assert "7 cuts of 1 networks at 64 x 64 pixels" in out
    record = json.loads((tmp_path / "fields.json").read_text())
    assert [cut["at"] for cut in record["candidates"]][:2] == ["conv1", "maxpool"]
    with (tmp_path / "fields.csv").open() as file:
        assert [line["shape"] for line in csv.DictReader(file)][2] == "64 x 16 x 16"
    assert main(["goldilocks", "--fields-only", *more[:4], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == record


def test_a_search_prints_the_front_and_train_takes_its_configuration_as_it_is(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--want", "0.13"]) == 0
    output = capsys.readouterr()
    lines = output.err.splitlines()
    assert len(lines) == 6 and lines[-1].startswith("[6/6] small-29 @ stage")
    assert "validation accuracy" in lines[0] and lines[0].endswith(" s")
    assert "For parts of about 13 % of the image, cut small-" in output.out
    assert "Accuracy: of a linear probe" in output.out
    assert "9 validation images: an accuracy is known to about ±" in output.out
    assert "A field of 13 % is wanted by --want." in output.out
    folder = tmp_path / "search"
    assert {"front.json", "front.csv", "front.png", "train.yaml", "search.json"} <= {p.name for p in folder.iterdir()}
    with Image.open(folder / "front.png") as picture:
        assert picture.width > 1500
    budget = ("--epochs", "1", "--pretraining-epochs", "0", "--architecture.dim", "8")
    out = tmp_path / "run"
    assert main(["train", "--config", str(folder / "train.yaml"), "--out", str(out), *budget]) == 0
    capsys.readouterr()
    assert (out / "model.safetensors").exists()
    # Nothing is done twice, and JSON is all there is on stdout.
    assert main([*words, "--json"]) == 0
    output = capsys.readouterr()
    record = json.loads(output.out)
    assert output.err == ""
    assert set(record) >= {"settings", "zone", "evaluated", "advice", "recommended", "agreements", "left_out"}
    assert sum(cut["on_front"] for cut in record["evaluated"]) >= 1


def test_ctrl_c_keeps_what_was_found_and_says_how_to_go_on(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def stopped(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
        calls.append(candidates)
        if len(calls) == 3:
            raise KeyboardInterrupt
        yield Outcome(candidates[0], 0.5, 9)

    monkeypatch.setitem(methods.METHODS, "finetune", Method(stopped, together=False))  # type: ignore[arg-type]
    assert main([*words, "--method", "finetune"]) == 130
    output = capsys.readouterr().err
    assert "The same command goes on" in output
    record = json.loads((tmp_path / "search" / "front.json").read_text())
    assert len(record["evaluated"]) == 2 and len(record["waiting"]) == 4
    (command,) = (split(line) for line in output.splitlines() if " goldilocks --data" in line)
    assert main(command[command.index("goldilocks") :]) == 0
    assert len(calls) == 3 + 4
    assert "no result yet" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (["--zone", "0.6", "0.05"], 1, "write --zone 0.05 0.6"),
        (["--zone", "0.0001", "0.0002"], 1, "the nearest are small-21 @ stage1"),
        (["--backbones", "resnet18", "--layers", "conv1"], 1, "no weights for resnet18: give --weights resnet18=FILE"),
        (["--backbones", "small-22"], 1, "the nearest is 'small-21' or 'small-29'"),
        (["--storage", "nonsense"], 1, "write sqlite:///FILE"),
    ],
)
def test_what_a_person_can_mend_is_said_in_words(
    change: list[str], code: int, message: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *change]) == code
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


def test_the_command_that_goes_on_has_every_choice_but_no_password() -> None:
    given = ["--data", "birds", "--out", "here", "--target-field", "0.2", "--layers", "a", "b", "--want", "0.3"]
    address = "postgresql://me:se:cr@t@server:5432/searches"
    parser = ArgumentParser()
    add_arguments(parser)
    words = command_words(parser.parse_args([*given, "--storage", address]))
    assert words[0] == "goldilocks" and not any("cr@t" in word for word in words)
    again = parser.parse_args(words[1:])
    assert again.storage == "postgresql://me:***@server:5432/searches"
    assert (again.target_field, again.layers, again.want, again.out) == (0.2, ["a", "b"], 0.3, Path("here"))
    assert without_password("sqlite:///a:b@c") == "sqlite:///a:b@c"


def test_a_search_needs_data_and_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["goldilocks"]) == 2
    assert "needs --data" in capsys.readouterr().err
    assert main(["goldilocks", "--data", "birds"]) == 2
    assert "needs --out" in capsys.readouterr().err


def test_the_command_that_is_advised_for_windows_makes_the_run_of_train_yaml() -> None:
    settings = SearchSettings("folder:photos", "", 4800, "frozen", 384, None, None, None, 3)
    (cut,) = with_windows(Survey(384, (), ()), ["resnet18"], [72]).candidates
    (evaluated,) = evaluated_cuts([(cut, FinishedTrial(cut.name, 0.9, 36, 1.0, None, 0.7))], {"resnet18": "imagenet"})
    config = recommended_run(settings, evaluated)
    words = train_words(config)
    assert " ".join(words) == (
        "train --preset frozen --data folder:photos --backbone resnet18 --at layer4 --weights imagenet --size 384 "
        "--window 72 --window-stride 40 --window-from layer1 --views 2 --seed 3 --out RUN"
    )
    prepared = prepare(words[1:])
    parser = ArgumentParser(exit_on_error=False)
    prepared.add_arguments(parser)
    assert config_of(parser.parse_args(list(prepared.words))) == config
    # Several sizes, and a stride that is left to the default.
    for window, stride, options in (
        ("72,144", "40,80", "--window 72,144 --window-stride 40,80 --window-from"),
        (0.25, None, "--window 0.25 --window-from"),
    ):
        assert options in " ".join(train_words(replace(config, window=window, window_stride=stride)))
    # Other presets have no such command, only the file.
    assert train_words(recommended_run(replace(settings, method="probe"), replace(evaluated, windows=None))) == []

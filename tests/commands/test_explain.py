"""`pixpnet explain` as a person meets it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

import pixpnet.mapping
from pixpnet.cli import main
from pixpnet.explanation import Explanation, explain
from pixpnet.fields import Field
from pixpnet.model import PixPNet
from tests.explanation.toys import photo, real


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "model.safetensors"
    real().save(path)
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("a.png", "b.png")]
    for seed, path in enumerate(paths):
        Image.fromarray(photo(seed)).save(path)
    return paths


def test_text_goes_to_stdout_and_says_what_explain_says(
    run: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(run), *map(str, pictures), "--device", "cpu"]) == 0
    said = capsys.readouterr()
    model = PixPNet.load(run)
    assert said.out == "".join(f"{explain(model, path)}\n\n" for path in pictures)
    assert said.err == ""


def test_one_picture_gives_one_record_and_several_a_list(
    run: Path, pictures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "x.json"
    model = PixPNet.load(run)
    expected = [explain(model, path, classes=["wren", "jay"]) for path in pictures]
    asked = ["--why-not", "wren", "--why-not", "jay", "--device", "cpu"]
    assert main(["explain", str(run), str(pictures[0]), *asked, "--out", str(out)]) == 0
    assert capsys.readouterr().out.endswith(f"written: {out}\n")
    assert Explanation.from_json(out.read_text()) == expected[0]
    assert main(["explain", str(run), *map(str, pictures), *asked, "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed == out.read_text()
    assert [Explanation.from_json(json.dumps(record)) for record in json.loads(printed)] == expected
    assert [file.name for file in out.parent.iterdir()] == ["x.json"]


def test_a_broken_picture_is_said_and_the_others_go_on(
    run: Path, pictures: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff")
    missing = tmp_path / "missing.jpg"
    words = [str(pictures[0]), str(broken), str(missing), str(pictures[1])]
    assert main(["explain", str(run), *words, "--json", "--device", "cpu"]) == 1
    said = capsys.readouterr()
    assert [record["image"] for record in json.loads(said.out)] == [str(path) for path in pictures]
    assert [line.split(": ")[1] for line in said.err.splitlines()] == [str(broken), str(missing)]
    assert main(["explain", str(run), str(broken), "--json", "--out", str(tmp_path / "x.json")]) == 1
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "x.json").exists()


def test_a_proof_that_fails_is_an_exit_code(
    run: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["explain", str(run), str(pictures[0]), "--prove", "--device", "cpu"]
    assert main(words) == 0
    assert "4 of 4 claims hold" in capsys.readouterr().out
    original = Field.boxes
    # Whatever the engine claims, here a pixel less: the proof does not ask it.
    monkeypatch.setattr(
        Field, "boxes", lambda self, *cell: [box._replace(y1=box.y1 - 1) for box in original(self, *cell)]
    )
    assert main(words) == 1
    assert "0 of 4 claims hold" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--why-not", "wern"], "did you mean wren?"),
        (["--out", "x.gif"], "should end in one of .png, .html, .json"),
        (["--mapping", "prp"], "goes with --out x.png"),
        (["--mapping", "upsampling", "--out", "x.html"], "goes with --out x.png"),
        (["--top", "0"], "top=0"),
        (["--device", "teapot"], "use cpu or auto"),
    ],
)
def test_what_cannot_be_done_is_said(
    run: Path, pictures: list[Path], words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(run), str(pictures[0]), *words]) == 1
    assert says in capsys.readouterr().err


def test_a_figure_shows_one_picture(run: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(run), *map(str, pictures), "--out", "x.png"]) == 1
    assert "use --out x.html" in capsys.readouterr().err
    assert not Path("x.png").exists()


def test_a_page_gets_all_explanations(
    run: Path, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explanation_page(explanations: Sequence[Explanation]) -> str:
        return " ".join(each.image for each in explanations)

    monkeypatch.setitem(sys.modules, "pixpnet.views.page", SimpleNamespace(explanation_page=explanation_page))
    out = tmp_path / "x.html"
    out.write_text("old")
    assert main(["explain", str(run), *map(str, pictures), "--out", str(out), "--device", "cpu"]) == 0
    assert out.read_text() == " ".join(map(str, pictures))


def test_a_figure_gets_the_heat_maps_of_the_answer(
    run: Path, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def heatmaps(model: PixPNet, image: torch.Tensor, prototypes: Sequence[int], mapping: str) -> str:
        asked.update(shape=tuple(image.shape), prototypes=list(prototypes), mapping=mapping)
        return "heat"

    def explanation_figure(explanation: Explanation, maps: str) -> object:
        asked["expected"] = [term.prototype for term in explanation.predicted.terms]
        return SimpleNamespace(savefig=lambda path, **how: path.write_text(f"{how['format']} {maps}"))

    monkeypatch.setattr(pixpnet.mapping, "heatmaps", heatmaps, raising=False)
    stand_in = SimpleNamespace(explanation_figure=explanation_figure)
    monkeypatch.setitem(sys.modules, "pixpnet.views.explanation_figure", stand_in)
    out = tmp_path / "x.png"
    words = ["--out", str(out), "--mapping", "upsampling", "--device", "cpu"]
    assert main(["explain", str(run), str(pictures[0]), *words]) == 0
    assert (asked["shape"], asked["mapping"]) == ((3, 48, 48), "upsampling")
    assert asked["prototypes"] == asked["expected"] != []
    assert out.read_text() == "png heat"

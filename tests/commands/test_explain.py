"""`pixpnet explain` as a person meets it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from pixpnet.cli import main
from pixpnet.explanation import Explanation, explain
from pixpnet.explanation.explaining import as_the_network_sees
from pixpnet.fields import Field
from pixpnet.mapping import heatmaps
from pixpnet.model import PixPNet
from pixpnet.views import explanation_figure as figures
from pixpnet.views.slide import heat_layer
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
    output = capsys.readouterr()
    model = PixPNet.load(run)
    assert output.out == "".join(f"{explain(model, path)}\n\n" for path in pictures)
    assert output.err == ""


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
    output = capsys.readouterr()
    assert [record["image"] for record in json.loads(output.out)] == [str(path) for path in pictures]
    assert [line.split(": ")[1] for line in output.err.splitlines()] == [str(broken), str(missing)]
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
        (["--out", "x.gif"], "should end in one of .png, .svg, .pdf, .html, .json"),
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


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_figure_is_written_in_the_format_of_its_name_without_heat_maps(
    run: Path, pictures: list[Path], tmp_path: Path, ending: str, begins: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []
    original = figures.explanation_figure

    def watched(explanation: Any, heatmaps: Any = None, shown: str = "") -> Any:
        given.append(heatmaps)
        return original(explanation, heatmaps, shown)

    monkeypatch.setattr(figures, "explanation_figure", watched)
    out = tmp_path / f"x.{ending}"
    assert main(["explain", str(run), str(pictures[0]), "--out", str(out), "--device", "cpu"]) == 0
    assert out.read_bytes().startswith(begins)
    assert given == [None]


def test_a_page_gets_all_explanations(run: Path, pictures: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    out.write_text("old")
    assert main(["explain", str(run), *map(str, pictures), "--out", str(out), "--device", "cpu"]) == 0
    page = out.read_text()
    assert all(str(path) in page for path in pictures)
    assert page.count("<article") == 2


@pytest.mark.parametrize(
    ("mapping", "says"), [("field", "receptive-field"), ("upsampling", "not what the cells see"), ("prp", "PRP")]
)
def test_a_figure_has_the_heat_maps_of_the_answer_and_says_which(
    run: Path, pictures: list[Path], tmp_path: Path, mapping: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []

    def kept(figure: Figure, *where: object, **preprocessing: object) -> None:
        drawn.append(figure)
        save(figure, *where, **preprocessing)

    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", kept)
    out = tmp_path / "x.png"
    words = ["--out", str(out), "--mapping", mapping, "--device", "cpu"]
    assert main(["explain", str(run), str(pictures[0]), *words]) == 0
    with Image.open(out) as picture:
        assert picture.format == "PNG"
    (figure,) = drawn
    assert says in " ".join(text.get_text() for text in figure.findobj(Text))
    model = PixPNet.load(run)
    answer = [term.prototype for term in explain(model, pictures[0]).predicted.terms]
    image = as_the_network_sees(model, pictures[0]).image
    expected = [heat_layer(item.double().numpy()) for item in heatmaps(model, image, answer, mapping).maps]
    layers = [item.get_array() for item in figure.axes[0].images if item.get_array().shape[-1] == 4]
    assert len(layers) == len(expected) > 0
    for layer, heat in zip(layers, expected, strict=True):
        np.testing.assert_allclose(layer, heat, atol=1e-2)


@pytest.mark.parametrize("command", ["explain", "report"])
def test_a_file_that_cannot_be_written_is_said_before_anything_is_computed(
    run: Path, pictures: list[Path], tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    words = ["explain", str(run), str(pictures[0])] if command == "explain" else ["report", str(tmp_path)]
    for out, says in (("folder.html", "is a folder"), ("file/x.html", "cannot be written"), ("x.gif", "should end in")):
        assert main([*words, "--out", str(tmp_path / out)]) == 1
        output = capsys.readouterr()
        assert says in output.err
        assert str(tmp_path / out) in output.err
        assert output.out == ""

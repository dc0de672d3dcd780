"""The record: JSON and back, why not, coordinates, and what people read."""

import base64
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pixpnet.box import Box
from pixpnet.explanation import ClassExplanation, Explanation, Term, UnknownClass, explain, explanation_size, prove
from pixpnet.explanation.contrast import contrast
from pixpnet.explanation.text import WIDTH, location
from pixpnet.parts import ClassSum, Decision, Linear, OneClassEach, OwnClass
from pixpnet.records import BadRecord
from tests.explanation.test_explain import HEADS
from tests.explanation.toys import PICTURE, as_sample, origins_of, photo, real, similarity, toy, write_pictures


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    model = toy()
    model.origins = origins_of(model)
    return explain(model, as_sample(PICTURE))


# JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_json_gives_back_an_equal_record(head: str) -> None:
    model = real(head)
    model.origins = origins_of(model)
    explanation = explain(model, as_sample(photo(), "a \udcff\n<b>.jpg"), classes=[0, 1, 2], top=3)
    assert Explanation.from_json(explanation.to_json()) == explanation
    proven = prove(model, as_sample(photo()), explanation, draws=1)
    assert proven != explanation
    assert Explanation.from_json(proven.to_json()) == proven


def test_the_pixels_in_json_are_a_png_of_the_image(explanation: Explanation) -> None:
    values = json.loads(explanation.to_json())
    with Image.open(io.BytesIO(base64.b64decode(values["pixels"]))) as image:
        assert image.format == "PNG"
        assert np.array_equal(np.asarray(image), PICTURE)


def _png(height: int, width: int) -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = path

    def change(values: Any) -> None:
        for step in way:
            values = values[step]
        values[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_set("format", 2), "format 1"),
        (lambda values: values.pop("head"), "head"),
        (_set("more", 1), "more"),
        (_set("pixels", "no base64!"), "pixels"),
        (_set("pixels", None), "pixels"),
        (_set("pixels", base64.b64encode(b"GIF89a").decode()), "PNG"),
        (_set("pixels", _png(8, 8)[:60]), "pixels"),
        (_set("pixels", _png(4, 16)), "pixels"),
        (_set("size", [4, 16]), "pixels"),
        (_set("size", [-8, -8]), "-8"),
        (_set("logits", 0, math.inf), "finite"),
        (_set("logits", [1.0]), "1 logits"),
        (_set("classes", []), "at least one"),
        (_set("head", 1), "head"),
        (_set("classes", 0, "terms", 0, "grid", 1), "a term of grid 1, and there are 1"),
        (_set("classes", 0, "terms", 0, "grid", -1), "a term of grid -1"),
        (_set("classes", 0, "terms", 0, "also", ["lukewarm"]), "'lukewarm' too, which is no class"),
        (_set("classes", 0, "terms", 0, "label", -1), "class -1"),
        (_set("classes", 0, "label", 7), "class 7"),
        (_set("classes", 0, "label", -1), "class -1"),
        (_set("classes", 0, "class_name", "<b>"), "'<b>'"),
        (_set("classes", 0, "logit", 99.0), "not the one in the list"),
        (_set("classes", 0, "terms", 0, "label", 1), "class 1"),
        (_set("classes", 0, "terms", 0, "region", [[0, 0, 9, 9]]), "reaches out"),
        (_set("classes", 0, "terms", 0, "region", [[4, 4, 4, 4]]), "is empty"),
        (_set("classes", 0, "terms", 0, "region", [[0, 0, 4]]), "4 values"),
        (_set("classes", 0, "terms", 0, "score", True), "score"),
        (lambda values: values["classes"].reverse(), "largest logit"),
        (lambda values: values["classes"].append(values["classes"][0]), "twice"),
    ],
)
def test_json_that_is_no_explanation_is_refused(
    explanation: Explanation, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    values = json.loads(explanation.to_json())
    change(values)
    with pytest.raises(BadRecord, match=says):
        Explanation.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "1", "{", "[" * 100_000, '{"format": 1}', "9" * 5000])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadRecord):
        Explanation.from_json(text)


def test_json_of_a_version_without_grids_still_loads() -> None:
    """The file was written by the last version before there were grids, from this very model and image."""
    text = Path(__file__).with_name("explanation_before_grids.json").read_text(encoding="utf-8")
    loaded = Explanation.from_json(text)
    model, sample = toy(head="linear"), as_sample(PICTURE, "four.png")
    model.origins = origins_of(model)
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[2.0, 1.0, -0.5, 0.25], [0.0, -0.5, 1.0, 1.0]]))
    # It could not yet say which scores decide.
    again = replace(prove(model, sample, explain(model, sample, top=2), draws=2), deciding=None)
    assert loaded.details() == again.details()
    assert loaded._repr_html_() == again._repr_html_()
    assert Explanation.from_json(loaded.to_json()) == loaded
    assert (loaded.head, loaded.weighted, loaded.score_note) == ("linear", True, None)
    assert loaded.sights == (loaded.sight,)
    assert {(term.grid, term.also) for explained in loaded.classes for term in explained.terms} == {(0, ())}
    assert {explained.constant for explained in loaded.classes} == {0.0}


# Why not ---------------------------------------------------------------------------------------------------


def test_the_toy_side_by_side(explanation: Explanation) -> None:
    result = explanation.why_not("cold")
    assert result.difference == pytest.approx(similarity(0) - similarity(1), abs=1e-6)
    assert [pair.difference for pair in result.pairs] == pytest.approx([0.0, similarity(0) - similarity(1)], abs=1e-6)
    assert [(pair.predicted.prototype, pair.other.prototype) for pair in result.pairs][1][1] == 3
    assert result.rest == 0
    with pytest.raises(ValueError, match="warm is the predicted class"):
        explanation.why_not("warm")


@given(
    st.lists(st.floats(-1e3, 1e3), max_size=6),
    st.lists(st.floats(-1e3, 1e3), max_size=6),
    st.floats(-1e3, 1e3),
    st.floats(-1e3, 1e3),
)
def test_pairs_and_the_rest_add_up_to_the_difference(
    mine: list[float], theirs: list[float], rest: float, other_rest: float
) -> None:
    def explained(label: int, contributions: list[float], rest: float) -> ClassExplanation:
        terms = tuple(Term(0, 0, "", 1.0, c, 0.0, c, (0, 0), (), None, None, None) for c in contributions)
        return ClassExplanation(label, str(label), math.fsum([*contributions, rest]), 0.5, terms, rest, 1)

    result = contrast(explained(0, mine, rest), explained(1, theirs, other_rest))
    assert math.fsum(pair.difference for pair in result.pairs) + result.rest == pytest.approx(
        result.difference, abs=1e-6
    )
    assert len(result.pairs) == max(len(mine), len(theirs))


def test_a_class_that_was_not_asked_for_says_how_to(explanation: Explanation) -> None:
    assert explanation.explained("cold") is explanation.explained(1) is explanation.classes[1]
    three = explain(real(), as_sample(photo()))
    missing = next(
        name for name in three.class_names if name not in {explained.class_name for explained in three.classes}
    )
    with pytest.raises(UnknownClass, match=f"classes=\\['{missing}'\\]"):
        three.explained(missing)


# Coordinates, size -----------------------------------------------------------------------------------------


def test_an_origin_leads_back_to_its_own_file(explanation: Explanation) -> None:
    # Rows 1 to 3 and columns 2 to 4, twice as large, from (10, 20).
    assert explanation.predicted.terms[0].origin_in_source() == (((14, 22), (18, 22), (18, 26), (14, 26)),)
    assert replace(explanation.predicted.terms[0], origin=None).origin_in_source() == ()


CUB = OneClassEach(torch.arange(200).repeat_interleave(10), 200)


@pytest.mark.parametrize(
    ("decision", "positive", "both"),
    [
        (ClassSum(CUB), 10, 10),
        (Linear(CUB, 1.0, -0.5, learns=True), 20, 4000),
        (Linear(CUB, 1.0, -0.5, learns=False), 20, 4000),
        (OwnClass(CUB, 1.0), 20, 20),
    ],
)
def test_explanation_size_on_cub_is_that_of_the_paper(decision: Decision, positive: int, both: int) -> None:
    assert decision.size() == (positive, both)


def test_explanation_size_of_a_model_is_in_its_explanations() -> None:
    model = real("linear")
    assert explanation_size(model) == (4, 12) == explain(model, as_sample(photo())).explanation_size


# Words -----------------------------------------------------------------------------------------------------


def test_the_text_says_sum_parts_contrast_and_sight(explanation: Explanation) -> None:
    text = explanation.details()
    assert text.splitlines()[0] == "a picture: warm  (logit 1.39; softmax 50.6 %, not calibrated)"
    assert "warm: logit 1.39, the sum of 2 scores" in text
    words = " ".join(text.split())
    assert "0.69 0:4, 0:4 25 % 1:3, 2:4 of train/0.jpg" in words
    assert "Why not cold? Its logit is 0.03 lower than that of warm." in words
    assert "Of 2 x 2 cells, one sees 25 % of the picture on average, at most 25 %." in words
    assert "A cell's similarity depends on the pixels of its part and on nothing else." in words
    assert "may move when other pixels change, because another cell may win" in words
    assert "Proof" not in text


@pytest.mark.parametrize("head", HEADS)
def test_the_text_fits_a_terminal_whatever_the_names(head: str) -> None:
    model = real(head)
    model.origins = tuple(replace(origin, image="a/" * 80 + origin.image) for origin in origins_of(model))
    explanation = explain(model, as_sample(photo(), "b/" * 80 + "jay.jpg"), top=3)
    for shown in (explanation, prove(model, as_sample(photo()), explanation, draws=1)):
        assert max(map(len, str(shown).splitlines())) <= WIDTH
        lines = shown.details().splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert "jay.jpg: " + explanation.predicted.class_name in lines[0]
        assert sum(".jpg" in line for line in lines) == 1 + sum(
            len(explained.terms) for explained in explanation.classes
        )
    if head == "linear":
        assert "more" in explanation.details()


def test_names_cannot_command_the_terminal() -> None:
    model = toy()
    model.class_names = ("wa\x1b[2Jrm", "co\nld")
    text = str(explain(model, as_sample(PICTURE, "\x1b]0;x\x07.jpg")))
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert text.splitlines()[0].startswith("?]0;x?.jpg: wa?[2Jrm")


def test_gaps_are_marked() -> None:
    assert location([Box(0, 0, 1, 1), Box(4, 6, 5, 7)]) == "0:5, 0:7*"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _tags(html: str) -> _Tags:
    parser = _Tags()
    parser.feed(html)
    parser.close()
    return parser


def test_a_notebook_shows_picture_outlines_and_crops(tmp_path: Path) -> None:
    model = toy()
    model.origins, model.pictures = origins_of(model), tmp_path / "prototypes"
    write_pictures(model.pictures, ("0.png", "2.png"))
    (model.pictures / "3.png").write_bytes(b"no picture")
    tags = _tags(explain(model, as_sample(PICTURE))._repr_html_())
    outlines = [attributes["d"] for tag, attributes in tags.seen if tag == "path" and attributes["class"] == "edge"]
    assert sorted(outlines) == ["M0 0H4V4H0Z", "M0 4H4V8H0Z", "M4 0H8V4H4Z", "M4 0H8V4H4Z"]
    sources = [
        attributes.get("href") or attributes.get("src") for tag, attributes in tags.seen if tag in ("image", "img")
    ]
    # The picture for each class; of each of four terms this part, and where there is a file that part too.
    assert len(sources) == 2 + 4 + 3
    assert all(source is not None and source.startswith("data:image/jpeg;base64,") for source in sources)
    assert "its picture is not here" in "".join(tags.words)


def test_a_notebook_escapes_every_name() -> None:
    model = toy()
    evil = "</td><script>alert('\"')</script>"
    model.class_names = (evil, f"cold{evil}")
    model.origins = tuple(replace(origin, image=evil) for origin in origins_of(model))
    tags = _tags(explain(model, as_sample(PICTURE, evil))._repr_html_())
    assert "script" not in {tag for tag, _ in tags.seen}
    assert not any(name.startswith("on") for _, attributes in tags.seen for name in attributes)
    assert evil in "".join(tags.words)

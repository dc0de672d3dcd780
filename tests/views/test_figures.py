"""Figures: what they say, and that no words overlap or leave the slide, for whatever there is to explain."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.text import Text

from pixpnet.box import Box
from pixpnet.explanation.answer import Certainty, Deciding
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.mapping.scene import Heatmaps
from pixpnet.metrics.doubt import DoubtResult
from pixpnet.model.doubt import Doubt, Source
from pixpnet.views.explanation_figure import explanation_figure
from pixpnet.views.tags import tag_places
from pixpnet.views.trust_figures import doubt_figure
from tests.views.material import HOSTILE, SIZE, comb, explained, explanation, proof, term

LONG = "Northern long-tailed Schrenck's bittern of the eastern marshes " * 3


def words_of(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def said(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in words_of(figure))


def assert_readable(figure: Figure) -> None:
    """No two texts overlap, none leaves the figure, and none is too small."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in words_of(figure)]
    for (one, first), (two, second) in combinations(boxes, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across <= 0.5 or down <= 0.5, f"{one!r} overlaps {two!r}"
    for words, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0, words
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, words
    assert min(text.get_fontsize() for text in words_of(figure)) >= 9


def maps(count: int, regions: int | None = None) -> Heatmaps:
    box = (Box(20, 20, 50, 50),)
    return Heatmaps(torch.rand(count, SIZE, SIZE), (box,) * (count if regions is None else regions))


names = st.sampled_from(["jay", LONG, HOSTILE, "Ä", "W" * 80])


@settings(max_examples=15)
@given(
    counts=st.lists(st.integers(1, 14), min_size=1, max_size=3),
    name=names,
    other=names,
    head=st.sampled_from(["class_sum", "linear"]),
    weight=st.sampled_from([1.0, -0.5]),
    proven=st.sampled_from([None, True, False]),
    everything=st.sampled_from([0.0, 0.3, 1.0]),
    same=st.booleans(),
    rest=st.integers(0, 2000),
    heat=st.booleans(),
    grids=st.sampled_from([1, 2]),
)
def test_no_words_of_an_explanation_overlap(
    counts: list[int],
    name: str,
    other: str,
    head: str,
    weight: float,
    proven: bool | None,
    everything: float,
    same: bool,
    rest: int,
    heat: bool,
    grids: int,
) -> None:
    region = (Box(0, 0, 40, 40),) if same else None
    classes = []
    for label, count in enumerate(counts):
        called = name if label == 0 else other
        terms = [
            term(k, label, called, weight, region, proven=None if proven is None else proof(proven))
            for k in range(count)
        ]
        classes.append(explained(label, called, terms, -1234.5 if rest else 0.0, rest))
    record = explanation(classes, head, everything, image=f"{other}.jpg")
    if grids > 1:
        seen = [replace(record.sight, layer=layer) for layer in (other, "")]
        classes = [replace(c, terms=tuple(replace(t, grid=n % 2) for n, t in enumerate(c.terms))) for c in classes]
        record = replace(record, classes=tuple(classes), sight=seen[0], more_sights=(seen[1],), score_note=name)
    figure = explanation_figure(record, maps(counts[0]) if heat else None)
    assert_readable(figure)
    assert figure.get_figwidth() / figure.get_figheight() == pytest.approx(16 / 9, rel=0.01)


def test_the_sum_of_the_terms_is_on_the_figure() -> None:
    # 3.2 and 3.0, as the fixture makes them.
    figure = explanation_figure(explanation([explained(0, "jay", [term(0), term(1)])]))
    assert {"3.20", "3.00", "6.20 shown", "logit 6.20"} <= set(said(figure).split("\n"))


@pytest.mark.parametrize("heat", [False, True])
def test_the_scores_that_decide_are_said_in_full(heat: bool) -> None:
    known = explanation([explained(0, "jay", [term(0), term(1)]), explained(1, "wren", [term(2, 1, "wren")])])
    known = replace(known, deciding=Deciding(tuple(range(29)), 120, 1.5, 0.66))
    count = len(known.predicted.terms)
    figure = explanation_figure(known, maps(count) if heat else None, "some heat" if heat else "")
    assert deciding_text(known) in " ".join(text.get_text() for text in words_of(figure))
    assert_readable(figure)


@pytest.mark.parametrize("source", ["validation", "folds", None])
@pytest.mark.parametrize("numbers", [(12.3, 0.9), (123456.7, 0.4), (12.3, 0.4)])
def test_doubt_is_said_on_one_line_whichever_sign_is_rare(source: Source | None, numbers: tuple[float, float]) -> None:
    doubtful = Doubt(numbers[0], 31.0, 0.05, 360, numbers[1], 0.6, source)
    certainty = Certainty(1.3, source or "validation", 360, doubtful)
    figure = explanation_figure(replace(explanation([explained(0, "jay", [term(0), term(1)])]), certainty=certainty))
    assert_readable(figure)
    (warned,) = [text.get_text() for text in words_of(figure) if "looks like nothing" in text.get_text()]
    assert warned.endswith(".") and "…" not in warned
    assert ("no class gets as much evidence" in warned) == ("logit" in doubtful.rare)
    assert ("no part matches" in warned) == ("score" in doubtful.rare)


def test_the_limits_of_both_signs_are_on_the_figure_of_doubt() -> None:
    numbers = (1.0, 2.0, 3.0)
    result = DoubtResult("noise", "test", (), 0.5, 1.5, numbers, numbers, 0.4, numbers, numbers)
    figure = doubt_figure([result, replace(result, against="folder:/some/where/else")])
    text = said(figure)
    assert text.count("doubt below") == 2 and "largest logit" in text and "largest score" in text and "else" in text
    earlier = doubt_figure([result, replace(result, known_scores=(), other_scores=(), score_limit=None)])
    assert said(earlier).count("doubt below") == 1 and "largest score" not in said(earlier)


def test_terms_that_do_not_fit_are_summed_up() -> None:
    terms = [term(k) for k in range(14)]
    left = sum(item.contribution for item in terms[10:]) + 2.5
    figure = explanation_figure(explanation([explained(0, "jay", terms, rest=2.5, rest_terms=7)]))
    assert f"and 11 more, sum {left:.2f}" in said(figure)


def test_numbers_of_prototypes_are_never_cut_off_among_thousands() -> None:
    terms = [replace(term(number), prototype=1990 + number, contribution=-13.82) for number in range(10)]
    classes = [explained(label, name, terms) for label, name in enumerate(("jay", "wren"))]
    figure = explanation_figure(explanation(classes))
    assert_readable(figure)
    small = [line for line in said(figure).splitlines() if "#" in line]
    assert {line.split("#")[1] for line in small} == {"1993", "1994", "1995", "1996"}
    assert all(line.split("#")[0].strip(" ·") in ("−13.82", "−13.8", "−14") for line in small)


def test_weights_are_shown_where_the_head_has_them() -> None:
    classes = [explained(0, "jay", [term(0, weight=-0.5)])]
    assert "= −0.50 × 3.20" in said(explanation_figure(explanation(classes, "linear")))
    assert "×" not in said(explanation_figure(explanation([explained(0, "jay", [term(0)])])))


def test_proofs_are_marked_as_held_or_failed_with_the_largest_deviation() -> None:
    words = said(
        explanation_figure(explanation([explained(0, "jay", [term(0, proven=proof()), term(1, proven=proof(False))])]))
    )
    assert "✓ held, moved 0" in words
    assert "✗ failed, moved 0.25" in words


def test_a_model_whose_cells_see_everything_gets_no_box_but_a_sentence() -> None:
    figure = explanation_figure(explanation([explained(0, "jay", [term(0)])], everything=1.0))
    assert not figure.findobj(PathPatch)
    assert "sees the whole image" in " ".join(said(figure).split("\n"))


def test_regions_that_are_empty_or_full_of_holes_are_drawn() -> None:
    figure = explanation_figure(explanation([explained(0, "jay", [term(0, region=()), term(1, region=comb())])]))
    assert_readable(figure)
    assert "sees padding only" in said(figure)
    rings = max(int((patch.get_path().codes == 1).sum()) for patch in figure.findobj(PathPatch))
    assert rings == len(comb())


def test_pictures_of_prototypes_are_used_where_they_are(tmp_path: Path) -> None:
    with_pictures = explanation_figure(explanation([explained(0, "jay", [term(0, pictures=tmp_path)])]))
    without = explanation_figure(explanation([explained(0, "jay", [term(0)])]))
    shown = [
        [np.ptp(image.get_array()[..., 0]) for image in figure.axes[0].images] for figure in (with_pictures, without)
    ]
    assert min(shown[0]) > 20
    assert shown[1].count(0) == 2  # two grey canvases


def test_letters_that_no_font_has_are_replaced_and_percentages_are_left_alone() -> None:
    figure = explanation_figure(explanation([explained(0, "jay\x1b[2J\udcff", [term(0)])]), maps(1), "a sentence")
    words = said(figure)
    assert "jay?[2J?" in words
    assert "softmax 70 %" in words.replace("\xa0", " ")
    assert "Heat maps: a sentence." in words
    assert_readable(figure)


def test_heat_maps_must_match_the_terms() -> None:
    with pytest.raises(ValueError, match="3 heat maps for 2 terms"):
        explanation_figure(explanation([explained(0, "jay", [term(0), term(1)])]), maps(3))


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 36), st.integers(1, 36)),
        min_size=1,
        max_size=10,
    )
)
def test_tags_stay_on_the_image_and_apart(corners: list[tuple[int, int, int, int]]) -> None:
    hulls = [Box(y, x, y + height, x + width) for y, x, height, width in corners]
    placed = tag_places(hulls, [(9.0, 6.0)] * len(hulls), (96, 96))
    for x, y in placed:
        assert 0 <= x <= 96 - 9 and 0 <= y <= 96 - 6
    for (x0, y0), (x1, y1) in combinations(placed, 2):
        assert abs(x0 - x1) >= 9 or abs(y0 - y1) >= 6

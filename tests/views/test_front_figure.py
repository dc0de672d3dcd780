"""The figure of a front: readable with four cuts and with sixty, and labels that never overlap."""

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pixpnet.goldilocks import Candidate, SearchResult
from pixpnet.goldilocks.result import evaluated_cuts, recommendation
from pixpnet.goldilocks.settings import SearchSettings
from pixpnet.goldilocks.study import FinishedTrial
from pixpnet.views.front_figure import front_figure
from pixpnet.views.labels import Rect, Spot, nearest_edge, place_labels
from pixpnet.windows import Windows
from pixpnet.zoo import PAPER_LAYERS
from tests.views.test_figures import LONG, assert_readable, said, words_of

AREA = Rect(0, 0, 8, 5)
SPOTS = st.lists(st.builds(Spot, st.floats(0, 8), st.floats(0, 5)), min_size=1, max_size=40)


@given(SPOTS)
def test_labels_stay_inside_and_never_overlap(anchors: list[Spot]) -> None:
    sizes = [(1.2 + 0.1 * (index % 4), 0.2) for index in range(len(anchors))]
    result = place_labels(anchors, sizes, AREA, anchors)
    rects = [rect for rect in result if rect is not None]
    assert result[0] is not None  # there is room for the first
    assert all(AREA.holds(rect) for rect in rects)
    assert not any(one.overlaps(other) for one, other in combinations(rects, 2))
    for rect, (width, height) in zip(result, sizes, strict=True):
        if rect is not None:
            assert rect.x1 - rect.x0 == pytest.approx(width) and rect.y1 - rect.y0 == pytest.approx(height)
    assert place_labels(anchors, sizes, AREA, anchors) == result


def test_a_label_stands_beside_its_point_and_hides_no_other_where_there_is_room() -> None:
    anchor, neighbor = Spot(4, 2.5), Spot(4.6, 2.5)
    (rect,) = place_labels([anchor], [(1.0, 0.2)], AREA, [anchor, neighbor])
    assert rect is not None
    edge = nearest_edge(rect, anchor)
    assert abs(edge.x - anchor.x) + abs(edge.y - anchor.y) < 0.5
    assert not rect.overlaps(Rect(4.55, 2.45, 4.65, 2.55))
    assert nearest_edge(rect, Spot((rect.x0 + rect.x1) / 2, rect.y0)).y == rect.y0


def result(cuts: int, all_on_front: bool = False, zone: tuple[float, float] = (0.05, 0.6)) -> SearchResult:
    random = Random(cuts)
    names = [(backbone, layer) for backbone, layers in PAPER_LAYERS.items() for layer in layers]
    pairs = []
    for index, (backbone, layer) in enumerate(random.sample(names, cuts)):
        field = 0.05 * 12 ** (index / max(1, cuts - 1)) if all_on_front else random.uniform(0.02, 0.9)
        accuracy = 0.4 + 0.5 * index / max(1, cuts - 1) if all_on_front else round(random.uniform(0.2, 0.9), 2)
        cut = Candidate(backbone, layer, index, field, field, (64, 8, 8))
        pairs.append((cut, FinishedTrial(cut.name, accuracy, 60, 3.0, None)))
    evaluated = evaluated_cuts(pairs, dict.fromkeys(PAPER_LAYERS, "imagenet"))
    best, advice = recommendation(evaluated, 0.17)
    settings = SearchSettings("cub:data/cub12", "", 0, "finetune", 224, 10, 32, None, 0)
    return SearchResult(settings, zone, 0.17, evaluated, (), (), (), best.name if best else None, advice, ())


def drawn(result: SearchResult) -> Figure:
    """The figure with its axis labels where drawing puts them."""
    figure = front_figure(result)
    FigureCanvasAgg(figure).draw()
    return figure


@pytest.mark.parametrize("cuts", [0, 1, 4, 60])
def test_the_figure_is_readable_and_names_the_front(cuts: int) -> None:
    actual = result(cuts)
    figure = drawn(actual)
    assert_readable(figure)
    labels = {text.get_text() for text in words_of(figure) if text.get_gid() == "label"}
    assert labels == {f"{cut.backbone} {cut.at}" for cut in actual.front}
    for cut in actual.evaluated:
        assert cut.backbone in said(figure)


def test_a_front_of_forty_names_what_there_is_room_for_the_recommended_one_first() -> None:
    actual = result(40, all_on_front=True)
    assert len(actual.front) == 40
    figure = drawn(actual)
    assert_readable(figure)
    labels = {text.get_text() for text in words_of(figure) if text.get_gid() == "label"}
    assert (actual.recommended or "").replace(" @ ", " ") in labels
    assert len(labels) >= 10


def test_a_star_at_a_modified_cut_is_explained() -> None:
    cut = Candidate("resnet18", "layer3", 0, 0.2, 0.2, (4, 8, 8), edits=("drop:layer3.1",))
    evaluated = evaluated_cuts([(cut, FinishedTrial("", 0.5, 7, 1.0, None))], {"resnet18": "imagenet"})
    actual = replace(result(4), evaluated=evaluated, recommended=cut.name)
    figure = drawn(actual)
    assert_readable(figure)
    assert "resnet18 layer3 *" in said(figure) and "* modified" in said(figure)
    assert "*" not in said(drawn(result(4)))


@pytest.mark.parametrize("cuts", [4, 60])
def test_accuracies_of_probes_are_drawn_beside_those_of_prototypes_and_explained(cuts: int) -> None:
    found = result(cuts)
    plain = drawn(found)
    evaluated = [replace(cut, probe=0.95, windows=Windows(72, 40, "layer1")) for cut in found.evaluated]
    figure = drawn(replace(found, evaluated=tuple(evaluated)))
    assert_readable(figure)
    assert "hollow: linear probe" in said(figure) and "after replacement, %" in said(figure)
    assert "windows of 72 px" in said(figure) and "hollow" not in said(plain)
    hollow = [line for line in figure.findobj(Line2D) if line.get_fillstyle() == "none" and line.get_markersize() == 8]
    assert [float(line.get_ydata()[0]) for line in hollow] == [95.0] * cuts
    assert max(axes.get_ylim()[1] for axes in figure.axes) > 95  # none is cut off


def test_long_names_and_a_zone_from_nothing_are_no_trouble() -> None:
    cut = Candidate(f"my.module:{LONG}", LONG, 0, 0.01, 0.01, (4, 8, 8))
    evaluated = evaluated_cuts([(cut, FinishedTrial("", 0.5, 7, 1.0, None))], {cut.backbone: None})
    figure = drawn(
        SearchResult(
            SearchSettings(f"folder:{LONG}", "", 0, "probe", 32, None, None, None, 0),
            (0.0, 1.0), 0.17, evaluated, (), (), (), cut.name, recommendation(evaluated, 0.17)[1], (),
        )
    )  # fmt: skip
    assert_readable(figure)

"""Views of models with several grids, of prototypes that several classes share, and of scores that are more."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.patches import PathPatch

from pixpnet.cli import main
from pixpnet.explanation import Explanation, explain, prove
from pixpnet.mapping import heatmaps
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import PixPNet
from pixpnet.training import train
from pixpnet.views.explanation_figure import explanation_figure
from pixpnet.views.page import explanation_page
from pixpnet.views.prototype_sheet import prototype_sheet
from tests.explanation.toys import as_sample, origins_of, photo, real_with_two_grids, seen
from tests.training.material import small_config
from tests.views.material import explained, explanation, term
from tests.views.test_figures import assert_readable, said
from tests.views.test_pages import Tags, assert_self_contained

NOTE = "the mean similarity of all cells is subtracted from it"


@pytest.fixture(scope="module")
def model() -> PixPNet:
    model = real_with_two_grids()
    model.origins = origins_of(model)
    return model


@pytest.fixture(scope="module")
def record(model: PixPNet) -> Explanation:
    return prove(model, as_sample(photo()), explain(model, as_sample(photo())), draws=1)


@pytest.fixture(scope="module")
def run_with_two_grids(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a backbone that is cut at two stages; look, do not touch."""
    path = tmp_path_factory.mktemp("runs") / "two grids"
    config = small_config(pictures, at="stage1,stage2", architecture=Architecture(dim=8, prototypes_per_class=4))
    assert train(config, path) is not None
    return path


def test_a_figure_says_which_grid_each_term_is_from(model: PixPNet, record: Explanation) -> None:
    result = heatmaps(model, seen(model, photo()), [term.prototype for term in record.predicted.terms])
    figure = explanation_figure(record, result, "a sentence")
    assert_readable(figure)
    words = said(figure)
    # Of the three terms of each class that are shown large.
    counts = [words.count(f"\n{layer} (") for layer in ("stage2", "stage3")]
    assert sum(counts) == 6 and min(counts) > 0
    assert "What a cell sees of the image on average (at most): stage2 " in words and "%), stage3 " in words
    assert "more than" not in words


def test_a_page_says_which_grid_each_term_is_from(record: Explanation) -> None:
    page = explanation_page([record])
    assert_self_contained(page)
    text = Tags(page).text
    assert text.count("stage2 (") == text.count("stage3 (") == 4
    assert "What a cell sees of the image on average (at most): stage2 " in text


def test_one_grid_is_not_named() -> None:
    one = explanation([explained(0, "jay", [term(0)])])
    one = replace(one, sight=replace(one.sight, layer="layer2"))
    assert "layer2" not in said(explanation_figure(one))
    assert "layer2" not in explanation_page([one])


def test_only_the_cells_of_a_grid_that_sees_everything_are_not_outlined() -> None:
    terms = [term(0), replace(term(1), grid=1)]
    one = explanation([explained(0, "jay", terms)])
    both = replace(one, more_sights=(explanation([explained(0, "jay", terms)], everything=1.0).sight,))
    neither = replace(one, more_sights=(one.sight,))
    # Each region is outlined on the image, and each prototype's on its training image: twice, for the halo.
    assert [len(explanation_figure(shown).findobj(PathPatch)) for shown in (neither, both)] == [8, 4]
    assert [explanation_page([shown]).count('class="edge') for shown in (neither, both)] == [4, 2]
    assert "grid 2 of 2 (100\xa0%)" in Tags(explanation_page([both])).text
    assert "grid 1 of 2 27\xa0% (40\xa0%), grid 2 of 2 100\xa0% (100\xa0%)." in said(explanation_figure(both))


def test_a_score_that_is_more_than_its_cell_is_said_to_be() -> None:
    one = replace(explanation([explained(0, "jay", [term(0)])]), score_note=NOTE)
    sentence = f"A score is more than the similarity of its cell: {NOTE}."
    figure = explanation_figure(one)
    assert_readable(figure)
    assert sentence in said(figure)
    assert sentence in Tags(explanation_page([one])).text


def test_a_constant_is_no_term() -> None:
    why = replace(explained(0, "jay", [term(0)], rest=3.0, rest_terms=2), constant=1.0)
    for words in (said(explanation_figure(explanation([why]))), Tags(explanation_page([explanation([why])])).text):
        assert "3.20 shown, and 2 more, sum 2.00, and 1.00 for every image" in words
        assert "logit 6.20" in words


def test_prototypes_of_several_classes_name_the_others() -> None:
    shared = replace(term(0), also=("wren", "robin"))
    nobodys = replace(term(1), label=-1, class_name="")
    one = explanation([explained(0, "jay", [shared, nobodys])])
    for words in (said(explanation_figure(one)), Tags(explanation_page([one])).text):
        assert "also of wren, robin" in words
        assert "prototype 1" in words and "prototype 1 of" not in words


def test_the_report_of_a_run_with_two_grids(run_with_two_grids: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(run_with_two_grids), "--examples", "1", "--out", str(out)]) == 0
    page = out.read_text()
    assert_self_contained(page)
    text = Tags(page).text
    assert "a cell of stage1 sees, on average" in text and "a cell of stage2 sees, on average" in text
    assert "a class's logit is the sum of the scores of its own prototypes." in text
    assert "12 prototypes" in text
    assert text.count(" of stage1 · moved") == text.count(" of stage2 · moved") == 6
    assert "claims that held" in text and "✗ failed" not in text


def test_the_prototypes_of_a_run_with_two_grids_are_shown(run_with_two_grids: Path) -> None:
    model = PixPNet.load(run_with_two_grids)
    sheet = prototype_sheet(model.class_names, model.origins or (), run_with_two_grids / "prototypes")
    assert sum(len(axis.images) for axis in sheet.axes) == 12


def test_explain_writes_a_figure_of_a_run_with_two_grids(
    run_with_two_grids: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = pictures / "test" / "red" / "0.png"
    for mapping in ("field", "upsampling"):
        out = tmp_path / f"{mapping}.png"
        arguments = [
            "explain",
            str(run_with_two_grids),
            str(picture),
            "--prove",
            "--all",
            "--mapping",
            mapping,
            "--out",
            str(out),
        ]
        assert main(arguments) == 0
        assert out.stat().st_size > 10_000
    assert "Grid 2 (stage2)" in capsys.readouterr().out

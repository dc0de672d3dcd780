"""Figures of trust: a point for each image at its value, words that do not overlap, nothing drawn of nothing."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from pixpnet.metrics.doubt import DoubtResult
from pixpnet.metrics.misalignment import AttackedImage, AttackedPrototype, AttackSettings, Misalignment, summarize
from pixpnet.views.trust_figures import deciding_figure, doubt_figure, misalignment_figure
from tests.views.test_figures import assert_readable, said


def measured(attack: str, protected: str, *after: float) -> Misalignment:
    images = {
        str(number): AttackedImage((AttackedPrototype(0, 1.0, value, 1.0, 1.0, False, 0, 0, 1.0),), 0.5, True, True)
        for number, value in enumerate(after)
    }
    return summarize(images, attack, protected, AttackSettings())  # type: ignore[arg-type]


def test_each_image_is_a_point_at_its_change_and_the_mean_is_a_line() -> None:
    figure = misalignment_figure([measured("pgd", "field", 1.0, 1.25), measured("pgd", "box", 0.5, 0.75, 0.7)])
    FigureCanvasAgg(figure).draw()
    assert_readable(figure)
    field, box = figure.axes[0].collections
    assert sorted(field.get_offsets()[:, 0]) == pytest.approx([0, 25])
    assert sorted(box.get_offsets()[:, 0]) == pytest.approx([-50, -30, -25])
    means = [float(line.get_xdata()[0]) for line in figure.axes[0].lines[1:]]
    assert means == pytest.approx([12.5, -35])
    assert "gradient descent outside\nthe exact field" in said(figure)
    # The box, which others draw, stands above.
    assert box.get_offsets()[:, 1].min() > field.get_offsets()[:, 1].max()


def test_undefined_images_are_not_drawn_and_nothing_is_refused() -> None:
    empty = summarize({}, "noise", "box", AttackSettings())
    assert len(misalignment_figure([empty]).axes[0].collections[0].get_offsets()) == 0
    with pytest.raises(ValueError, match="no image was attacked"):
        misalignment_figure([])


def test_known_images_of_each_split_are_drawn_apart() -> None:
    def result(against: str, split: str, known: tuple[float, ...]) -> DoubtResult:
        return DoubtResult(against, split, (), 0.5, 1.0, known, (0.5, 2.0))

    figure = doubt_figure([result("noise", "validation", (2.0, 3.0)), result("photos", "test", (4.0, 5.0))])
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]  # type: ignore[union-attr]
    assert words == ["validation images of its own kind", "test images of its own kind", "noise", "photos"]


def test_wrong_answers_alone_have_their_lists_drawn() -> None:
    legend = deciding_figure([], [3, 4]).axes[0].get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["2 wrong answers"]

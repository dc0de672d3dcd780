"""Figures of trust: a point for each image at its value, words that do not overlap, nothing drawn of nothing."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from pixpnet.metrics.misalignment import AttackedImage, AttackedPrototype, AttackSettings, Misalignment, summarize
from pixpnet.views.trust_figures import misalignment_figure
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

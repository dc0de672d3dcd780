"""The figure of curves: readable whatever was measured."""

from dataclasses import replace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pixpnet.config import RunConfig
from pixpnet.metrics import AnswerPlaces, Distinctiveness
from pixpnet.metrics.bootstrap import DefinedMean, Estimate
from pixpnet.metrics.health import Background, Coverage, Deciding, Duplicates, PrototypeHealth, Twins
from pixpnet.metrics.sizes import Sizes
from pixpnet.metrics.suite import Accuracy, ClassDraw, MappingRow, MeasureSettings, Places, Table
from pixpnet.metrics.suite.band import GRID, median_band
from pixpnet.views.curve_figure import curve_figure
from tests.views.test_figures import LONG, assert_readable, said

NOBODY = Twins(None, None, None)
HEALTH = PrototypeHealth(
    count=120,
    background=Background(None, None, 120, "nothing", 0.1, ()),
    duplicates=Duplicates(NOBODY, NOBODY, 0.01, 120),
    deciding=Deciding(None, (0,) * 120, 0, "val"),
    coverage=Coverage(None, 12, ()),
    replacement=None,
)
NOT_MEASURED = DefinedMean(None, 0)
PLACES = Places(
    AnswerPlaces(NOT_MEASURED, None, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, "nothing", 0),
    Distinctiveness(NOT_MEASURED, NOT_MEASURED, 31, 5, 0),
    purity=None,
    prototypes=None,
)
SIZES = Sizes(120, 120, NOT_MEASURED, NOT_MEASURED, "", 120, 120, 0.1, 0)
ALL = ("field", "field_flat", "upsampling", "prp", "random")


def row(mapping: str, power: float, undefined: int = 2) -> MappingRow:
    curves = [[fraction**power for fraction in GRID], [min(1.0, 3 * fraction) for fraction in GRID]]
    return MappingRow(
        mapping=mapping,
        window=None,
        claimed=None,
        area=Estimate(0.93, 0.9, 0.96, 12, 5),
        median_area=0.94,
        recovery=Estimate(0.19, None, None, 12, 1),
        pairs=14,
        undefined=undefined,
        curve=median_band(curves, ["a", "b"], seed=0),
        method="stepped",
        notes=(),
    )


def table(mappings: tuple[str, ...] = ALL, mean_field: float = 0.285, name: str = "small-61") -> Table:
    rows = tuple(row(mapping, 0.2 + 0.3 * index) for index, mapping in enumerate(mappings))
    return Table(
        run="runs/birds",
        model="0",
        backbone=name,
        data="drawn birds",
        config=RunConfig(),
        settings=MeasureSettings(mappings=mappings),
        accuracy=Accuracy(0.9, 0.8, 0.95, 600),
        mean_field=mean_field,
        prototypes=120,
        samples=5,
        part_draw=ClassDraw(12, 600, 50, 50.0, 0),
        window=31,
        threshold=0.8,
        noise=0.2,
        stated_error=None,
        rows=rows,
        health=HEALTH,
        places=PLACES,
    )


def dashed(figure: Figure) -> list[float]:
    """Where vertical lines stand."""
    lines = [line for line in figure.axes[1].lines if len(set(line.get_xdata())) == 1 and line.is_dashed()]
    return [float(line.get_xdata()[0]) for line in lines]


@pytest.mark.parametrize("mean_field", [0.004, 0.285, 0.6, 0.61, 1.0])
@pytest.mark.parametrize("mappings", [ALL, ("field",)])
@pytest.mark.parametrize("name", ["small-61", LONG])
def test_no_words_overlap_and_the_mean_field_is_a_dashed_line(
    mean_field: float, mappings: tuple[str, ...], name: str
) -> None:
    figure = curve_figure(table(mappings, mean_field, name))
    FigureCanvasAgg(figure).draw()  # labels of axes find their places now
    assert_readable(figure)
    assert dashed(figure) == [pytest.approx(100 * mean_field)]
    assert f"mean field {100 * mean_field:.3g} %" in said(figure)


def test_no_two_mappings_share_color_or_dashes() -> None:
    lines = curve_figure(table()).axes[1].lines[: len(ALL)]
    assert len({line.get_color() for line in lines}) == len(ALL)
    assert len({str(line._dash_pattern) for line in lines}) == len(ALL)


def test_numbers_stand_beside_the_curves_and_what_is_undefined_is_a_dash_with_its_count() -> None:
    given = table(("field", "prp"))
    empty = replace(given.rows[1], area=None, median_area=None, recovery=None, curve=None, pairs=0, undefined=0)
    words = said(curve_figure(replace(given, rows=(given.rows[0], empty)))).split("\n")
    # Beside a median curve stands its median: one pair that hardly rises ruins a mean.
    assert "AUSC 0.94 (median)" in words
    assert "0.93" not in words
    assert "%2R 19.0" in words
    assert "2 of 14 curves do not rise" in words
    assert "AUSC –" in words
    assert "not possible for this network" in words


def test_the_plot_leaves_room_for_curves_above_1() -> None:
    given = table(("field",))
    curve = given.rows[0].curve
    assert curve is not None
    high = replace(curve, median=tuple(1.5 * value for value in curve.median))
    figure = curve_figure(replace(given, rows=(replace(given.rows[0], curve=high),)))
    assert figure.axes[1].get_ylim()[1] > 1.5


def test_bands_have_room_up_to_a_limit_and_curves_below_0_are_shown() -> None:
    given = table(("field",))
    curve = given.rows[0].curve
    assert curve is not None

    def limits(factor: float, below: float = 0.0) -> tuple[float, float]:
        made = replace(
            curve,
            median=(below, *curve.median[1:]),
            low=curve.median,
            high=tuple(factor * value for value in curve.median),
        )
        low, high = curve_figure(replace(given, rows=(replace(given.rows[0], curve=made),))).axes[1].get_ylim()
        return float(low), float(high)

    # The median ends at 1. A band up to 1.3 is whole; one up to 9 would press the curves flat, and is cut at 1.5.
    assert limits(1.3)[1] > 1.3
    assert limits(9.0)[1] == 1.5
    assert limits(1.0, below=-0.4)[0] < -0.4

"""The curves of the relevance ordering test: how fast similarity comes back under each mapping, on one slide."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pixpnet.colors import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, SKY
from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.suite import MappingRow, Table
from pixpnet.views.slide import HEIGHT, WIDTH, Slide, label_axes
from pixpnet.wording import percent

_MARGIN = 0.45
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 1.15, 1.45, 7.7, 4.95  # inches
_LIST, _LIST_WIDTH, _LIST_HEIGHT = 9.35, 3.55, 4.2
# A band may be as high as this times the highest median; the rest of it is cut off, or curves would lie flat below it.
_ROOM = 1.5
_Dashes = tuple[float, Sequence[float]]
# Told apart by colour and by dashes.
_STYLES: Mapping[str, tuple[str, _Dashes]] = {
    "field": (BLUE, (0, ())),
    "field_flat": (SKY, (0, (5, 1))),
    "upsampling": (ORANGE, (0, (6, 2))),
    "prp": (GREEN, (0, (1, 1))),
    "random": (PURPLE, (0, (4, 1.5, 1, 1.5))),
}
_NAMES = {
    "field": "receptive field",
    "field_flat": "receptive field, flat",
    "upsampling": "upsampling",
    "prp": "PRP",
    "random": "random",
}


def curve_figure(table: Table) -> Figure:
    """Draws the median curve of each mapping with its band, and the mean field as a dashed line."""
    slide = Slide()
    across = WIDTH - 2 * _MARGIN
    slide.words(_MARGIN, 0.36, "Which pixels bring the similarity back?", across, 22, bold=True)
    split = "test" if table.settings.split == "test" else "validation"
    about = f"{table.backbone}  ·  {table.data}, {table.samples} {split} samples  ·  {table.settings.method} curves"
    slide.words(_MARGIN, 0.84, about, across, 11, MUTED)
    _plot(slide.figure, table)
    _listing(slide, table)
    caption = (
        "Each pixel of an image is put back into a random one, the most relevant first. Lines are medians "
        "over samples and prototypes of their class, the bands hold 95 of 100 medians of other such samples. AUSC is a "
        "median too, because curves that hardly rise ruin its mean; %2R is a mean, with a 95 % interval."
    )
    slide.paragraph(_LIST, HEIGHT - 1.75, caption, _LIST_WIDTH, 9.5, MUTED)
    return slide.figure


def _plot(figure: Figure, table: Table) -> None:
    bounds = (_LEFT / WIDTH, 1 - (_TOP + _PLOT_HEIGHT) / HEIGHT, _PLOT_WIDTH / WIDTH, _PLOT_HEIGHT / HEIGHT)
    axes = figure.add_axes(bounds)
    lowest, highest, top = 0.0, 1.0, 1.0
    for row in table.rows:
        if row.curve is None:
            continue
        color, dashes = _STYLES[row.mapping]
        across = [100 * fraction for fraction in row.curve.fractions]
        if row.curve.low is not None and row.curve.high is not None:
            axes.fill_between(across, row.curve.low, row.curve.high, color=color, alpha=0.16, linewidth=0)
            top = max(top, *row.curve.high)
        axes.plot(across, row.curve.median, color=color, linestyle=dashes, linewidth=2.6)
        lowest, highest = min(lowest, *row.curve.median), max(highest, *row.curve.median)
    axes.axhline(1, color=MUTED, linewidth=0.8)
    axes.axvline(100 * table.mean_field, color=INK, linestyle=(0, (3, 3)), linewidth=1.6)
    axes.set(
        xlim=(0, 100), ylim=(1.05 * lowest, max(1.14 * highest, min(1.04 * top, _ROOM * highest))), autoscale_on=False
    )
    right = table.mean_field > 0.6
    axes.text(
        100 * table.mean_field + (-1.2 if right else 1.2),
        0.985,  # above the curves, most of which end at 1
        f"mean field {percent(table.mean_field)}",
        transform=axes.get_xaxis_transform(),
        ha="right" if right else "left",
        va="top",
        fontsize=11,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
    )
    label_axes(axes, "pixels put back, %", "similarity: 0 random image, 1 whole image")


def _listing(slide: Slide, table: Table) -> None:
    """What stands beside the curves: which is which, and the two numbers of each."""
    y = _TOP
    for row in table.rows:
        color, dashes = _STYLES[row.mapping]
        line = Line2D(
            [_LIST / WIDTH, (_LIST + 0.5) / WIDTH],
            [1 - (y + 0.11) / HEIGHT] * 2,
            transform=slide.figure.transFigure,
            color=color,
            linestyle=dashes,
            linewidth=2.6,
        )
        slide.figure.add_artist(line)
        slide.words(_LIST + 0.65, y, _NAMES[row.mapping], _LIST_WIDTH - 0.65, 13, bold=True)
        middle = "–" if row.median_area is None else f"{row.median_area:.2f} (median)"
        slide.words(_LIST + 0.65, y + 0.26, f"AUSC {middle}", _LIST_WIDTH - 0.65, 10.5)
        slide.words(_LIST + 0.65, y + 0.46, f"%2R {_numbers(row.recovery, 100, 1)}", _LIST_WIDTH - 0.65, 10.5)
        if row.undefined or row.area is None:
            slide.words(_LIST + 0.65, y + 0.66, _undefined(row), _LIST_WIDTH - 0.65, 9.5, MUTED)
        y += min(1.0, _LIST_HEIGHT / len(table.rows))


def _numbers(estimate: Estimate | None, factor: float, digits: int) -> str:
    if estimate is None:
        return "–"
    mean = f"{factor * estimate.mean:.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return mean
    return f"{mean}   ({factor * estimate.low:.{digits}f} to {factor * estimate.high:.{digits}f})"


def _undefined(row: MappingRow) -> str:
    if not row.pairs:
        return "not possible for this network"
    return f"{row.undefined} of {row.pairs} curves do not rise"

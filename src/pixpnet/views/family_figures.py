"""The family at a glance: accuracy against what cells see, and who satisfies which of the three desiderata."""

from collections.abc import Sequence
from math import hypot

from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from pixpnet.colors import BLUE, GREEN, INK, MUTED, ORANGE, SERIES
from pixpnet.metrics.family_table import FamilyRow
from pixpnet.views.slide import HEIGHT, WIDTH, Slide, label_axes

_MARGIN = 0.45
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 1.15, 1.5, 7.6, 5.1  # inches
_LIST, _LINE = 9.2, 0.29
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_TICKS = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
# Middles of the circles and what lies in each region, in inches on a slide.
_CIRCLES = {
    "D1  prototypes are patches": (5.3, 3.2),
    "D2  they see parts": (8.0, 3.2),
    "D3  simple reasoning": (6.65, 5.0),
}
_RADIUS = 1.95
_MOST_NAMES = 4
_REGIONS = {
    (True, False, False): (4.3, 2.75),
    (False, True, False): (9.0, 2.75),
    (False, False, True): (6.65, 6.15),
    (True, True, False): (6.65, 2.25),
    (True, False, True): (5.35, 4.45),
    (False, True, True): (7.95, 4.45),
    (True, True, True): (6.65, 3.75),
    (False, False, False): (11.3, 5.6),
}


def accuracy_figure(rows: Sequence[FamilyRow]) -> Figure:
    """A point for each member: test accuracy against the mean field, with the deviation over seeds.

    Raises:
        ValueError: if no run was evaluated on its test split.
    """
    shown = [(row, accuracy) for row in rows if (accuracy := row.accuracy) is not None]
    if not shown:
        raise ValueError("none of these runs was evaluated on its test split: pixpnet evaluate RUN")
    slide = Slide()
    across = WIDTH - 2 * _MARGIN
    slide.words(_MARGIN, 0.36, "Accuracy, and how much of the image a part is", across, 22, bold=True)
    data = ", ".join(dict.fromkeys(row.data for row, _ in shown))
    images = ", ".join(dict.fromkeys(str(row.facts[0].images) for row, _ in shown))
    about = f"{data}  ·  {images} test images  ·  bars: standard deviation over seeds, where there are several"
    slide.words(_MARGIN, 0.84, about, across, 11, MUTED)
    bounds = (_LEFT / WIDTH, 1 - (_TOP + _PLOT_HEIGHT) / HEIGHT, _PLOT_WIDTH / WIDTH, _PLOT_HEIGHT / HEIGHT)
    axes = slide.figure.add_axes(bounds, zorder=-1)
    fields = [100 * row.facts[0].mean_field for row, _ in shown]
    accuracies = [100 * accuracy.mean for _, accuracy in shown]
    left, right = 0.8 * min(fields), min(125.0, 1.25 * max(fields))
    margin = max(3.0, 0.15 * (max(accuracies) - min(accuracies)))
    axes.set_xscale("log")
    axes.set(xlim=(left, right), ylim=(min(accuracies) - margin, min(101.0, max(accuracies) + margin)))
    for number, ((row, accuracy), field, percentage) in enumerate(zip(shown, fields, accuracies, strict=True)):
        color, marker = SERIES[number % len(SERIES)], _MARKERS[number % len(_MARKERS)]
        axes.errorbar(
            field,
            percentage,
            yerr=None if accuracy.deviation is None else 100 * accuracy.deviation,
            marker=marker,
            color=color,
            markersize=11,
            markeredgecolor="white",
            capsize=4,
            linestyle="none",
        )
        y = _TOP + number * _LINE
        axes_marker = slide.figure.add_axes(((_LIST) / WIDTH, 1 - (y + 0.2) / HEIGHT, 0.2 / WIDTH, 0.2 / HEIGHT))
        axes_marker.set_axis_off()
        axes_marker.plot(0, 0, marker=marker, color=color, markersize=9)
        deviation = "" if accuracy.deviation is None else f" ± {100 * accuracy.deviation:.1f}"
        words = f"{row.title}: {percentage:.1f}{deviation} %, field {field:.1f} %"
        slide.words(_LIST + 0.3, y, words, WIDTH - _LIST - 0.3 - _MARGIN, 10)
    ticks = [tick for tick in _TICKS if left <= tick <= right]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticklabels([f"{tick:g}" for tick in ticks])
    label_axes(axes, "mean field of a cell, % of the image", "test accuracy, %")
    return slide.figure


def venn_figure(rows: Sequence[FamilyRow]) -> Figure:
    """Three circles, and each member where its audit puts it (App. M); what was not checked is not granted."""
    slide = Slide()
    across = WIDTH - 2 * _MARGIN
    slide.words(_MARGIN, 0.3, "Which desiderata each network satisfies, by audit", across, 22, bold=True)
    about = "A desideratum that fails, or could not be checked, for any seed is not granted."
    slide.words(_MARGIN, 0.78, about, across, 11, MUTED)
    axes = slide.figure.axes[0]
    middle = (6.65, 3.8)
    for (name, (x, y)), color in zip(_CIRCLES.items(), (BLUE, ORANGE, GREEN), strict=True):
        axes.add_patch(Circle((x, y), _RADIUS, facecolor=color, alpha=0.13, edgecolor="none", zorder=0.5))
        axes.add_patch(Circle((x, y), _RADIUS, fill=False, edgecolor=color, linewidth=1.8, zorder=0.6))
        length = hypot(x - middle[0], y - middle[1])
        away = ((x - middle[0]) / length, (y - middle[1]) / length)
        at = (x + away[0] * (_RADIUS + 1.6), y + away[1] * (_RADIUS + 0.25))
        slide.words(at[0] - 1.5, at[1] - 0.1, name, 3.0, 12, INK, bold=True, align="center")
    members: dict[tuple[bool, ...], list[str]] = {}
    for row in rows:
        granted = tuple(verdict == "holds" for verdict in row.desiderata)
        members.setdefault(granted, []).append(row.title)
    listed = _MARGIN
    for granted, names in members.items():
        x, y = _REGIONS[granted]  # type: ignore[index]
        names = list(dict.fromkeys(names))
        if len(names) > _MOST_NAMES:
            # More do not fit where circles meet, so they are listed beside them.
            title = " and ".join(code for code, holds in zip(("D1", "D2", "D3"), granted, strict=True) if holds)
            slide.words(listed, 3.0, title or "none of the three", 2.2, 11, bold=True)
            for number, name in enumerate(names):
                slide.words(listed, 3.28 + 0.22 * number, name, 2.2, 10.5)
            listed = 10.6
            names = [f"{len(names)} networks"]
        top = y - len(names) * 0.11
        for number, name in enumerate(names):
            slide.words(x - 1.1, top + 0.22 * number, name, 2.2, 10.5, INK, align="center")
    if (False, False, False) in members:
        slide.words(10.2, 4.9, "none of the three", 2.2, 11, MUTED, align="center")
    return slide.figure

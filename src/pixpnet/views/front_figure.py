"""The Pareto front of a search: accuracy against the mean field on a log axis, on one slide (paper, Fig. 3, App. B)."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import hypot, log10

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator

from pixpnet.colors import INK, MUTED, SERIES
from pixpnet.goldilocks import EvaluatedCut, SearchResult
from pixpnet.views.labels import Rect, Spot, nearest_edge, place_labels
from pixpnet.views.slide import HEIGHT, POINT, WIDTH, Slide, label_axes
from pixpnet.wording import percent

_MARGIN = 0.45
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 1.15, 1.5, 8.15, 5.1  # inches
_LIST, _LIST_WIDTH, _LIST_BOTTOM = 9.65, 3.25, 5.0
_LABEL = 10.5  # points
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100)
_ZONE = "#f2f6fa"
_ROW = 0.27
_KINDS = ("filled: prototypes after replacement", "hollow: linear probe on the same features")
_MARKER = 0.1  # from the middle of a marker to where the line to its label begins
_SPACING = 0.2


def front_figure(result: SearchResult) -> Figure:
    """Draws every evaluated cut, the front as steps, and the names of the cuts on it."""
    slide = Slide()
    across = WIDTH - 2 * _MARGIN
    slide.words(_MARGIN, 0.36, "How much must a part see to decide?", across, 22, bold=True)
    done = [cut for cut in result.evaluated if cut.accuracy is not None]
    settings = result.settings
    about = (
        f"{settings.data_name}, {settings.size} x {settings.size} pixels  ·  method {settings.method}  ·  "
        f"{len(done)} cuts, {len(result.front)} on the front  ·  validation images{_how_many(done)}"
    )
    about += "  ·  * modified before it is cut" if any(cut.edits for cut in result.front) else ""
    slide.words(_MARGIN, 0.84, about, across, 11, MUTED)
    axes = slide.figure.add_axes(
        (_LEFT / WIDTH, 1 - (_TOP + _PLOT_HEIGHT) / HEIGHT, _PLOT_WIDTH / WIDTH, _PLOT_HEIGHT / HEIGHT), zorder=-1
    )
    styles = _styles(done)
    _plot(axes, result, done, styles)
    _write_names(slide, axes, result, done)
    _mark_zone(slide, axes, result)
    kinds = _KINDS if any(cut.probe is not None for cut in done) else ()
    bottom = _LIST_BOTTOM - _ROW * len(kinds)
    _legend(slide, styles, bottom)
    for row, kind in enumerate(kinds):
        slide.words(_LIST, bottom + _ROW * row, kind, _LIST_WIDTH, 9.5, MUTED)
    slide.paragraph(_LIST, _LIST_BOTTOM + 0.25, result.advice, _LIST_WIDTH, 9.5, INK, lines=10)
    return slide.figure


def family(backbone: str) -> str:
    """The kind of network: what a name begins with.

    >>> [family(name) for name in ("resnext101_32x8d", "wide_resnet50_2", "inception_v3", "small-61", "timm:resnet18")]
    ['resnext', 'wide_resnet', 'inception', 'small', 'resnet']
    """
    plain = backbone.removeprefix("timm:").rsplit(":", 1)[-1]
    match = re.match(r"[A-Za-z]+(_[A-Za-z]{3,})*", plain)
    return match[0] if match else plain


def _styles(cuts: Sequence[EvaluatedCut]) -> dict[str, tuple[str, str]]:
    """A color for each family, a marker for each network of a family."""
    backbones = sorted({cut.backbone for cut in cuts}, key=lambda name: (family(name), len(name), name))
    families = list(dict.fromkeys(map(family, backbones)))
    styles = {}
    for name in backbones:
        relatives = [other for other in backbones if family(other) == family(name)]
        color = SERIES[families.index(family(name)) % len(SERIES)]
        styles[name] = (color, _MARKERS[relatives.index(name) % len(_MARKERS)])
    return styles


def _plot(axes: Axes, result: SearchResult, cuts: Sequence[EvaluatedCut], styles: dict[str, tuple[str, str]]) -> None:
    low, high = (100 * share for share in result.zone)
    fields = [100 * cut.mean_field for cut in cuts] + [share for share in (low, high) if share]
    probes = [100 * cut.probe for cut in cuts if cut.probe is not None]
    accuracies = [*(100 * (cut.accuracy or 0.0) for cut in cuts), *probes] or [0.0, 100.0]
    left, right = max(0.05, 0.85 * min(fields)), min(125.0, 1.25 * max(fields))
    margin = max(2.0, 0.12 * (max(accuracies) - min(accuracies)))
    axes.set_xscale("log")
    axes.set(xlim=(left, right), ylim=(min(accuracies) - margin, max(accuracies) + margin), autoscale_on=False)
    axes.axvspan(max(left, low), min(right, high), color=_ZONE, zorder=0, linewidth=0)
    for cut in cuts:
        color, marker = styles[cut.backbone]
        if cut.probe is not None:
            _plot_probe(axes, cut, cut.probe, color, marker)
        axes.plot(
            *_data_place(cut),
            marker=marker,
            color=color,
            markersize=11 if cut.on_front else 8,
            markeredgecolor="white",
            markeredgewidth=0.9,
            alpha=1.0 if cut.on_front else 0.5,
            zorder=4 if cut.on_front else 3,
            linestyle="none",
        )
    front = [_data_place(cut) for cut in result.front]
    if front:
        # From each cut on, its accuracy can be had; so the front is a staircase.
        steps = [*front, (right, front[-1][1])]
        axes.plot(*zip(*steps, strict=True), drawstyle="steps-post", color=INK, linestyle=(0, (4, 3)), linewidth=1.6)
    for cut in cuts:
        if cut.name == result.recommended:
            axes.plot(*_data_place(cut), marker="o", markersize=20, fillstyle="none", color=INK, markeredgewidth=1.8)
    axes.axvline(100 * result.want, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    ticks = [tick for tick in _TICKS if left <= tick <= right]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticklabels([f"{tick:g}" for tick in ticks])
    bottom, top = axes.get_ylim()
    levels = MaxNLocator(nbins=8, steps=[1, 2, 5, 10]).tick_values(bottom, top)
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in levels if bottom <= tick <= min(top, 100.0)]))
    after = " after replacement" if probes else ""
    label_axes(axes, "mean field of a cell, % of the image", f"validation accuracy{after}, %")


def _plot_probe(axes: Axes, cut: EvaluatedCut, probe: float, color: str, marker: str) -> None:
    """A hollow marker for the linear probe on the same features, tied to the accuracy of the prototypes."""
    x, y = _data_place(cut)
    axes.plot([x, x], [y, 100 * probe], color=color, linewidth=0.9, alpha=0.6, zorder=2)
    axes.plot(x, 100 * probe, marker=marker, color=color, fillstyle="none", markersize=8, zorder=3, linestyle="none")


def _write_names(slide: Slide, axes: Axes, result: SearchResult, cuts: Sequence[EvaluatedCut]) -> None:
    """Names beside the cuts on the front; the recommended one chooses its place first."""
    named = sorted(result.front, key=lambda cut: cut.name != result.recommended)
    font = FontProperties(size=_LABEL)
    words = [_short_name(cut) for cut in named]
    sizes = [(slide.width_of(word, font) + 0.08, 1.35 * _LABEL * POINT) for word in words]
    spots = [_on_slide(axes, cut) for cut in cuts]
    spots += [_on_slide(axes, replace(cut, accuracy=cut.probe)) for cut in cuts if cut.probe is not None]
    anchors = [_on_slide(axes, cut) for cut in named]
    inner = Rect(_LEFT + 0.03, _TOP, _LEFT + _PLOT_WIDTH, _TOP + _PLOT_HEIGHT - 0.3)
    spots += _along([_on_slide(axes, cut) for cut in result.front])
    for word, anchor, rect in zip(words, anchors, place_labels(anchors, sizes, inner, spots), strict=True):
        if rect is None:
            continue
        edge = nearest_edge(rect, anchor)
        start = _towards(anchor, edge, _MARKER)
        line = Line2D(
            [start.x / WIDTH, edge.x / WIDTH],
            [1 - start.y / HEIGHT, 1 - edge.y / HEIGHT],
            transform=slide.figure.transFigure,
            color=MUTED,
            linewidth=0.7,
            zorder=-0.5,
        )
        slide.figure.add_artist(line)
        text = slide.words(rect.x0 + 0.04, rect.y0 + 0.02, word, rect.x1 - rect.x0, _LABEL)
        text.set_gid("label")
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8})


def _short_name(cut: EvaluatedCut) -> str:
    windows = "" if cut.windows is None else f", windows of {cut.windows.size} px"
    return f"{cut.backbone} {cut.at}".strip() + windows + " *" * bool(cut.edits)


def _mark_zone(slide: Slide, axes: Axes, result: SearchResult) -> None:
    """What the shade and the dotted line are."""
    low, high = result.zone
    left = _across(axes, max(100 * low, axes.get_xlim()[0]))
    slide.words(left, _TOP - 0.22, f"zone: {percent(low)} to {percent(high)}", 3, 9.5, MUTED)
    want = _across(axes, 100 * result.want)
    if _LEFT < want < _LEFT + _PLOT_WIDTH:
        slide.words(want + 0.06, _TOP + _PLOT_HEIGHT - 0.24, f"wanted: {percent(result.want)}", 2, 9.5, MUTED)


def _along(front: Sequence[Spot]) -> list[Spot]:
    """Points on the staircase, for labels to keep clear of."""
    corners = [corner for left, right in pairwise(front) for corner in (left, Spot(right.x, left.y))]
    spots = []
    for start, end in pairwise([*corners, *front[-1:]]):
        steps = int(hypot(end.x - start.x, end.y - start.y) / _SPACING)
        for step in range(1, steps + 1):
            share = step / (steps + 1)
            spots.append(Spot(start.x + share * (end.x - start.x), start.y + share * (end.y - start.y)))
    return spots


def _towards(start: Spot, end: Spot, length: float) -> Spot:
    """So far from the start to the end, or the end."""
    distance = hypot(end.x - start.x, end.y - start.y)
    share = min(1.0, length / distance) if distance else 0.0
    return Spot(start.x + share * (end.x - start.x), start.y + share * (end.y - start.y))


def _legend(slide: Slide, styles: dict[str, tuple[str, str]], bottom: float) -> None:
    names = list(styles)
    rows = int((bottom - _TOP) / _ROW)
    columns = -(-len(names) // rows) if names else 1
    shown = names if columns <= 2 else names[: 2 * rows - 1]
    width = _LIST_WIDTH / min(2, columns)
    for index, name in enumerate(shown):
        x, y = _LIST + (index // rows) * width, _TOP + (index % rows) * _ROW
        color, marker = styles[name]
        _marker(slide, x + 0.08, y + 0.09, color, marker)
        slide.words(x + 0.26, y, name, width - 0.3, 10.5 if columns == 1 else 9)
    if len(shown) < len(names):
        y = _TOP + ((2 * rows - 1) % rows) * _ROW
        slide.words(_LIST + width, y, f"and {len(names) - len(shown)} more", width, 9, MUTED)


def _marker(slide: Slide, x: float, y: float, color: str, marker: str) -> None:
    dot = Line2D(
        [x / WIDTH],
        [1 - y / HEIGHT],
        transform=slide.figure.transFigure,
        color=color,
        marker=marker,
        markersize=9,
        markeredgecolor="white",
        linestyle="none",
    )
    slide.figure.add_artist(dot)


def _data_place(cut: EvaluatedCut) -> tuple[float, float]:
    return 100 * cut.mean_field, 100 * (cut.accuracy or 0.0)


def _on_slide(axes: Axes, cut: EvaluatedCut) -> Spot:
    """Where a cut is drawn, in inches from the top left corner."""
    x, y = _data_place(cut)
    bottom, top = map(float, axes.get_ylim())  # of numpy's type
    return Spot(_across(axes, x), _TOP + _PLOT_HEIGHT * (top - y) / (top - bottom))


def _across(axes: Axes, field: float) -> float:
    left, right = map(float, axes.get_xlim())
    return _LEFT + _PLOT_WIDTH * (log10(field) - log10(left)) / (log10(right) - log10(left))


def _how_many(cuts: Sequence[EvaluatedCut]) -> str:
    counts = {cut.images for cut in cuts}
    return f" ({counts.pop()})" if len(counts) == 1 else ""

"""Figures of certainty: are probabilities honest, what is known and what is not, and how many scores decide."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pixpnet.colors import BLUE, GRID, INK, MUTED, ORANGE, SERIES, VERMILION
from pixpnet.metrics.certainty import CertaintyTable, Reliability
from pixpnet.metrics.doubt import DoubtResult
from pixpnet.metrics.misalignment import Misalignment
from pixpnet.wording import percent

_WIDTH, _HEIGHT = 5.2, 3.8
_STEPS = 30


def reliability_figure(table: CertaintyTable) -> Figure:
    """How often answers are right, against how probable the model says they are, before and after calibration."""
    figure, axes = _axes("probability that the model states, %", f"share of right answers, {table.split} images, %")
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, zorder=1)
    axes.text(3, 8, "honest", color=MUTED, fontsize=9, rotation=0)
    for reliability, color, name in (
        (table.before, ORANGE, "softmax"),
        (table.after, BLUE, f"calibrated, temperature {table.temperature:.3g}"),
    ):
        _bins(axes, reliability, color, f"{name}: expected error {percent(reliability.error.mean)}")
    axes.set_xlim(0, 101)
    axes.set_ylim(0, 103)
    _legend(axes)
    return figure


def doubt_figure(results: Sequence[DoubtResult]) -> Figure:
    """The largest logits and scores of known images and of others, and the limits below which there is doubt.

    Scores have no axes where results of an earlier version are among these, which lack them.

    Raises:
        ValueError: without any result.
    """
    if not results:
        raise ValueError("nothing was measured against other data: pixpnet doubt RUN noise")
    first, up = results[0], "share of images, %"
    both = all(result.known_scores for result in results)
    figure = Figure(figsize=(_WIDTH, _HEIGHT * (1.8 if both else 1)), layout="constrained", dpi=160)
    above, *below = figure.subplots(2 if both else 1, 1, squeeze=False)[:, 0]
    # Known images of several splits, where some results are from before the test split was opened.
    known = list({result.known_split: result for result in results}.values())
    names = [f"{result.known_split} images of its own kind" for result in known]
    names += [result.against.rpartition("/")[2] for result in results]
    others = [color for color in SERIES if color != BLUE]
    colors = [BLUE, *(others[number % len(others)] for number in range(len(names) - 1))]

    def draw(axes: Axes, across: str, values: Sequence[Sequence[float]], limit: float | None) -> None:
        _styled(axes, across, up)
        _histograms(axes, list(zip(names, values, colors, strict=True)))
        if limit is not None:
            axes.axvline(limit, color=VERMILION, linewidth=1.5, linestyle=(0, (4, 2)))
            axes.text(limit, axes.get_ylim()[1], " doubt below", color=VERMILION, fontsize=9, va="top", ha="right")

    logits = [*(result.known_logits for result in known), *(result.other_logits for result in results)]
    draw(above, "largest logit of an image", logits, first.limit)
    for axes in below:
        scores = [*(result.known_scores for result in known), *(result.other_scores for result in results)]
        draw(axes, "largest score of an image", scores, first.score_limit)
    _legend(above)
    return figure


def deciding_figure(right: Sequence[int], wrong: Sequence[int]) -> Figure:
    """How many of the largest scores decide, for right answers and for wrong ones."""
    figure, axes = _axes("scores that decide the answer", "share of images, %")
    groups = [
        (f"{len(lengths)} {name} answers", [float(length) for length in lengths], color)
        for lengths, name, color in ((right, "right", BLUE), (wrong, "wrong", VERMILION))
        if lengths
    ]
    _histograms(axes, groups)
    _legend(axes)
    return figure


_PROTECTED = {"box": "published box", "field": "exact field"}
_ATTACKED = {"noise": "noise", "pgd": "gradient descent"}


def misalignment_figure(measured: Sequence[Misalignment]) -> Figure:
    """By how much the best score of each image falls when only pixels outside of its part change.

    Raises:
        ValueError: where nothing was measured.
    """
    if not measured:
        raise ValueError("no image was attacked: pixpnet measure RUN --attacks noise pgd")
    rows = sorted(measured, key=lambda one: (one.protected, one.attack))
    figure, axes = _axes("change of the best prototype's score, %", "")
    axes.axvline(0, color=MUTED, linewidth=1, zorder=1)
    for height, one in enumerate(reversed(rows)):
        color = BLUE if one.protected == "field" else VERMILION
        falls = [-100 * change for change in one.changes if change is not None]
        # Points of one row stand above each other in a fixed pattern, so that equal ones can be told apart.
        offsets = [0.09 * (number % 7 - 3) for number in range(len(falls))]
        axes.scatter(
            falls, [height + offset for offset in offsets], s=22, color=color, alpha=0.6, edgecolors="white", zorder=2
        )
        if one.pac.estimate is not None:
            mean = -100 * one.pac.estimate.mean
            axes.plot([mean, mean], [height - 0.38, height + 0.38], color=color, linewidth=2.5, zorder=3)
    labels = [f"{_ATTACKED[one.attack]} outside\nthe {_PROTECTED[one.protected]}" for one in reversed(rows)]
    axes.set_yticks(range(len(rows)), labels, color=INK, fontsize=9)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.margins(x=0.06)
    low, high = axes.get_xlim()
    low, high = min(low, -5.0), max(high, 5.0)
    axes.set_xlim(low, high)
    axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
    return figure


def as_image(figure: Figure) -> str:
    """A figure as the address of an image that is in the page itself."""
    content = io.BytesIO()
    with rc_context({"svg.hashsalt": "pixpnet", "svg.fonttype": "path"}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(content.getvalue()).decode()


def _axes(across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained", dpi=160)
    axes = figure.add_subplot()
    _styled(axes, across, up)
    return figure, axes


def _styled(axes: Axes, across: str, up: str) -> None:
    axes.set_xlabel(across, color=INK, fontsize=10)
    axes.set_ylabel(up, color=INK, fontsize=10)
    axes.tick_params(colors=MUTED, labelsize=9)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(axes: Axes) -> None:
    """Above the axes, where it hides nothing that was measured."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.3, frameon=False, fontsize=9)


def _bins(axes: Axes, reliability: Reliability, color: str, name: str) -> None:
    """A point for each bin with images, as large as they are many."""
    held = [some for some in reliability.bins if some.probability is not None and some.accuracy is not None]
    total = sum(some.images for some in held)
    points = [(100 * some.probability, 100 * some.accuracy) for some in held]  # type: ignore[operator]
    across, up = zip(*points, strict=True)
    sizes = [20 + 260 * some.images / total for some in held]
    axes.plot(across, up, color=color, linewidth=1.2, zorder=2)
    axes.scatter(across, up, s=sizes, color=color, alpha=0.75, zorder=3, label=name, edgecolors="white")


def _histograms(axes: Axes, groups: Sequence[tuple[str, Sequence[float], str]]) -> None:
    everything = np.concatenate([np.asarray(values, dtype=np.float64) for _, values, _ in groups])
    low, high = float(everything.min()), float(everything.max())
    edges = np.linspace(low, high if high > low else low + 1, _STEPS + 1).tolist()
    for name, values, color in groups:
        weights = np.full(len(values), 100 / max(1, len(values)))
        axes.hist(values, edges, weights=weights, color=color, alpha=0.28)
        axes.hist(values, edges, weights=weights, color=color, histtype="step", linewidth=1.6, label=name)

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
from pixpnet.wording import percent

_WIDTH, _HEIGHT = 6.4, 4.0
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
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    return figure


def doubt_figure(results: Sequence[DoubtResult]) -> Figure:
    """The largest logits of known images and of others, and the limit below which there is doubt.

    Raises:
        ValueError: without any result.
    """
    if not results:
        raise ValueError("nothing was measured against other data: pixpnet doubt RUN noise")
    figure, axes = _axes("largest logit of an image", "share of images, %")
    first = results[0]
    groups = [(f"{first.known_split} images of its own kind", first.known_logits, BLUE)]
    colors = [color for color in SERIES if color != BLUE]
    groups += [
        (result.against.rpartition("/")[2], result.other_logits, colors[number % len(colors)])
        for number, result in enumerate(results)
    ]
    _histograms(axes, groups)
    if first.limit is not None:
        axes.axvline(first.limit, color=VERMILION, linewidth=1.5, linestyle=(0, (4, 2)))
        axes.text(first.limit, axes.get_ylim()[1], " doubt below", color=VERMILION, fontsize=9, va="top", ha="right")
    axes.legend(loc="upper right", frameon=False, fontsize=9)
    return figure


def deciding_figure(right: Sequence[int], wrong: Sequence[int]) -> Figure:
    """How many of the largest scores decide, for right answers and for wrong ones."""
    figure, axes = _axes("scores that decide the answer", "share of images, %")
    groups = [(f"{len(right)} right answers", [float(length) for length in right], BLUE)]
    if wrong:
        groups.append((f"{len(wrong)} wrong answers", [float(length) for length in wrong], VERMILION))
    _histograms(axes, groups)
    axes.legend(loc="upper right", frameon=False, fontsize=9)
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
    axes.set_xlabel(across, color=INK, fontsize=10)
    axes.set_ylabel(up, color=INK, fontsize=10)
    axes.tick_params(colors=MUTED, labelsize=9)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


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

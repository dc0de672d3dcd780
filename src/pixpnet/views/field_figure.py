"""A figure of the fields of a network: what a few cells see, and how the field grows with depth."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pixpnet.colors import BLUE, GRID, INK, MUTED, ORANGE, VERMILION
from pixpnet.data.birds import BirdOptions, draw_bird
from pixpnet.fields import Field, Fields
from pixpnet.wording import percent, times

# The size of a part: where a person who names no layer most likely wants to look.
_TYPICAL = 0.15


def save_field_figure(fields: Fields, path: Path, title: str, layer: str | None = None) -> None:
    """Draws the fields of a corner, an edge and a centre cell of one layer, and the mean field of all layers.

    Args:
        fields: of an image, so with rows and columns.
        path: where to; the ending chooses the format (png, pdf, svg).
        title: what the network is called.
        layer: whose cells to show; by default the one whose mean field is nearest to the size of a part.

    Raises:
        ValueError: the ending of ``path`` names no picture format, or the input is not an image.
    """
    check_path(path)
    figure = Figure(figsize=(12.8, 5.4), dpi=150)
    if len(fields.input_shape) != 3:
        raise ValueError(f"only the fields of images can be drawn, not of an input of shape {fields.input_shape}")
    layer = _typical_layer(fields) if layer is None else layer
    with matplotlib.rc_context({"font.size": 11, "text.color": INK, "axes.labelcolor": INK, "svg.fonttype": "none"}):
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.35))
        figure.subplots_adjust(left=0.03, right=0.975, top=0.83, bottom=0.2, wspace=0.14)
        _draw_cells(left, fields[layer])
        _draw_depth(right, fields, layer)
        height, width = fields.input_shape[1:]
        heading = f"{title} at {layer}, input {height} x {width}"
        figure.suptitle(heading, x=0.035, y=0.965, ha="left", fontsize=15, fontweight="bold")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def check_path(path: Path) -> None:
    """Raises ValueError if the ending of ``path`` names no picture format."""
    formats = Figure().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in formats:
        raise ValueError(f"'{path}' should end in one of {', '.join(sorted(formats))}")


def _typical_layer(fields: Fields) -> str:
    """The stage of the network, of those with rows and columns, whose mean field is nearest to a part's size."""
    stages = [name for name in _stages(fields, 1).values() if len(fields[name].shape) == 3]
    return min(stages or fields, key=lambda name: (abs(fields[name].mean_fraction_union - _TYPICAL), len(name)))


def _draw_cells(axes: Axes, field: Field) -> None:
    """The image plane with the exact fields of three cells."""
    height, width = field.space
    # The picture is only there to give the fields a scale; a network's field does not depend on it.
    still = BirdOptions(rotation=0, crop=0, occlusion=0, clutter=0.3)
    size = (max(height, 16), max(width, 16))
    backdrop = draw_bird(seed=7, index=12, species=6, size=size, options=still).image[:height, :width]
    axes.imshow(backdrop, extent=(0, width, height, 0), alpha=0.8)
    for (name, cell), color in zip(field.landmark_cells().items(), (BLUE, ORANGE, VERMILION), strict=False):
        region = field.region(*cell)
        members = region.mask.numpy()
        tint = np.zeros((height, width, 4))
        tint[members] = (*matplotlib.colors.to_rgb(color), 0.28)
        axes.imshow(tint, extent=(0, width, height, 0), interpolation="nearest")
        label = f"{name} cell: {percent(region.fraction)} of the image"
        hull = [region.hull] if region.hull is not None else []
        for position, (y0, x0, y1, x1) in enumerate(region.boxes if len(region.boxes) <= 60 else hull):
            xs, ys = [x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0]
            axes.plot(xs, ys, color=color, lw=2.0, label=label if position == 0 else None, clip_on=False)
    axes.set(xlim=(0, width), ylim=(height, 0), xticks=[0, width], yticks=[0, height], aspect="equal")
    axes.tick_params(length=0, labelcolor=MUTED)
    for side in axes.spines.values():
        side.set_edgecolor(GRID)
    axes.set_title("What single cells see", loc="left", fontsize=12, pad=10)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.06), frameon=False, fontsize=9.5, handlelength=1.4)


def _draw_depth(axes: Axes, fields: Fields, layer: str) -> None:
    """The mean field of every layer in the order of execution."""
    names = list(fields)
    united = np.array([100 * field.mean_fraction_union for field in fields.values()])
    neurons = np.array([100 * field.mean_fraction for field in fields.values()])
    steps = np.arange(len(names))
    axes.plot(steps, united, color=BLUE, lw=2.2, drawstyle="steps-mid", label="a cell (channels united)")
    if np.abs(united - neurons).max() > 0.05:
        axes.plot(steps, neurons, color=ORANGE, lw=1.6, drawstyle="steps-mid", label="a neuron (the paper's mean)")
        axes.legend(frameon=False, loc="lower right", fontsize=9.5)
    chosen = next(k for k, name in enumerate(names) if fields[name] is fields[layer])
    axes.plot(chosen, united[chosen], "o", ms=9, color=VERMILION, mec="white", mew=1.5, zorder=5, clip_on=False)
    caption = f"{layer}: {percent(united[chosen] / 100)}, at most {times(fields[layer].size)} pixels"
    axes.text(0, 1.03, f"\u25cf {caption}", transform=axes.transAxes, color=VERMILION, fontsize=11, fontweight="bold")
    ticks = _landmarks(fields)
    axes.set_xticks(list(ticks), list(ticks.values()), rotation=38, ha="right", rotation_mode="anchor", fontsize=9.5)
    axes.set(ylim=(0, 102), xlim=(-0.5, len(names) - 0.5))
    axes.yaxis.set_major_formatter("{x:.0f} %")
    axes.set_title("Mean share of the image that one cell sees, layer by layer", loc="left", fontsize=12, pad=26)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=MUTED)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_edgecolor(GRID)


def _landmarks(fields: Fields) -> dict[int, str]:
    """A few layers to find one's way by, by their place in the network, far enough apart for their names."""
    apart = max(len(fields) / 14, 1.0)
    landmarks: dict[int, str] = {}
    for depth in range(4):
        landmarks = {}
        for k, name in sorted(_stages(fields, depth).items(), reverse=True):
            if not landmarks or min(landmarks) - k >= apart:
                landmarks[k] = name
        if len(landmarks) >= 5:
            break
    return dict(sorted(landmarks.items()))


def _stages(fields: Fields, depth: int) -> dict[int, str]:
    """The modules down to a depth, under the paper's names where they have one."""
    by_path = {path: name for name, path in fields.names.items()}
    places = enumerate(fields)
    return {k: by_path.get(n, n) for k, n in places if n in by_path or (n and n.count(".") <= depth and "#" not in n)}

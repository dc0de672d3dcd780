"""A page of pictures before and after augmentation, with their parts drawn on.

Whoever looks at it sees whether keypoints, masks and boxes follow the image. Parts are told apart by colour
and by shape, because no twelve colours are safe for everybody's eyes.
"""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from pixpnet.colors import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION, YELLOW
from pixpnet.data import (
    Augmentation,
    DataSet,
    Entry,
    Preprocessing,
    Sample,
    augment,
    draw,
    preprocess,
    view_generator,
)
from pixpnet.data.preprocessing import to_uint8
from pixpnet.data.resample import pixels_of, resized

COLORS = (ORANGE, SKY, GREEN, YELLOW, VERMILION, PURPLE, BLUE)  # brightest first
SHAPES = ("o", "s", "^", "D")
_STYLES = tuple((color, shape) for shape, color in product(SHAPES, COLORS))
_OVERLAY_SIDE = 240  # about the pixels of a panel, so that outlines are thin and unbroken
_LEGEND_ROW = 10
# In inches; so many images are shown in large panels, one under the other.
_PANEL, _SMALL_PANEL, _GAP, _HEAD, _LEAST_WIDTH = 2.2, 1.1, 0.3, 0.85, 7.5
_LARGE_UP_TO = 20
_ABOVE_NAMES = 15  # points; names of classes are wider than a small panel
_DOTS = 110  # per inch


def contact_sheet(data: DataSet, entries: Sequence[Entry], augmentation: Augmentation, views: int, seed: int) -> Figure:
    """Draws one row per image: the file, what the network sees at test time, and augmented views.

    Args:
        data: the data set.
        entries: which images.
        augmentation: the paper's by default.
        views: augmented views per image.
        seed: of the augmentation.
    """
    layout = _Layout(len(entries), 2 + views, math.ceil(len(data.part_names) / _LEGEND_ROW))
    figure = Figure(figsize=layout.size, facecolor="white")
    FigureCanvasAgg(figure)
    for number, entry in enumerate(entries):
        source = data.reader(entry)
        shown = [source, preprocess(source, data.preprocessing)]
        for view in range(views):
            choices = draw(augmentation, view_generator(seed, view, number))
            shown.append(augment(source, choices, data.preprocessing, augmentation))
        axes = [figure.add_axes(layout.panel(number, column)) for column in range(len(shown))]
        for axis, sample in zip(axes, shown, strict=True):
            _panel(axis, sample, data, layout.pixels)
        axes[0].set_title(
            data.class_names[entry.label], fontsize=9, color=INK, fontweight="bold", loc="left", parse_math=False, pad=3
        )
        if number % layout.rows == 0:
            for axis, title in zip(axes[1:], ["test time", *["augmented"] * views], strict=True):
                axis.set_title(title, fontsize=9, color=INK, loc="left", pad=_ABOVE_NAMES)
    size = data.preprocessing.size
    heading = figure.text(
        0.05 / layout.size[0],
        1 - 0.25 / layout.size[1],
        f"{data.name}: {len(entries)} of {len(data.train)} training images,\n"
        f"as in the file and as the network sees them ({size} x {size})",
        fontsize=11,
        color=INK,
        ha="left",
        va="center",
    )
    heading.set_parse_math(False)
    if data.part_names:
        figure.legend(
            handles=[_legend_entry(part, name) for part, name in enumerate(data.part_names)],
            loc="lower center",
            ncols=math.ceil(len(data.part_names) / math.ceil(len(data.part_names) / _LEGEND_ROW)),
            frameon=False,
            fontsize=9,
            handletextpad=0.2,
            columnspacing=1.2,
        )
    return figure


class _Layout:
    """Where panels lie, in inches: by hand, because finding it out takes minutes for a thousand of them.

    Up to a certain number of images there is one under the other, and large; more of them are smaller, in blocks side
    by side, so that the sheet has a size that can be drawn.
    """

    def __init__(self, images: int, columns: int, legend_rows: int) -> None:
        many = images > _LARGE_UP_TO
        self.panel_side = _SMALL_PANEL if many else _PANEL
        self.columns = columns
        self.rows = math.ceil(images / math.ceil(images / _LARGE_UP_TO / 2)) if many else images
        blocks = math.ceil(images / self.rows)
        self._foot = 0.1 + 0.25 * legend_rows
        width = max(blocks * columns * self._across + (blocks - 1) * _GAP + _GAP / 2, _LEAST_WIDTH)
        self.size = width, self.rows * self._down + self._foot + _HEAD

    @property
    def pixels(self) -> int:
        """Of a panel, at the resolution that sheets are written with."""
        return round(self.panel_side * _DOTS)

    @property
    def _across(self) -> float:
        return self.panel_side + 0.06

    @property
    def _down(self) -> float:
        return self.panel_side + 0.22  # a line of text

    def panel(self, image: int, column: int) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of a panel, as shares of the figure."""
        block, row = divmod(image, self.rows)
        left = _GAP / 4 + block * (self.columns * self._across + _GAP) + column * self._across
        bottom = self._foot + (self.rows - 1 - row) * self._down
        width, height = self.size
        return left / width, bottom / height, self.panel_side / width, self.panel_side / height


def one_per_class(data: DataSet, count: int) -> tuple[Entry, ...]:
    """Training images to show: class after class, a second round only when every class had its turn."""
    if count < 1:
        raise ValueError(f"a contact sheet shows at least one image, got {count}")
    rank: dict[int, int] = {}
    ranked = []
    for entry in data.train:
        rank[entry.label] = rank.get(entry.label, -1) + 1
        ranked.append((rank[entry.label], entry.label, entry.id, entry))
    return tuple(entry for *_, entry in sorted(ranked, key=lambda item: item[:3])[:count])


def _panel(axis: Axes, sample: Sample, data: DataSet, pixels: int) -> None:
    height, width = sample.size
    axis.set_anchor("NW")
    axis.imshow(_picture(sample, data.preprocessing, pixels), interpolation="antialiased", extent=(0, width, height, 0))
    axis.set(xticks=[], yticks=[], xlim=(0, width), ylim=(height, 0))
    for spine in axis.spines.values():
        spine.set_visible(False)
    if sample.masks is not None:
        axis.imshow(_overlay(sample), interpolation="nearest", extent=(0, width, height, 0))
    if sample.box is not None:
        y0, x0, y1, x1 = sample.box
        frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor="white", linewidth=1.0)
        frame.set_path_effects([patheffects.withStroke(linewidth=2.2, foreground=INK)])
        axis.add_patch(frame)
    for (x, y), seen, part in zip(sample.keypoints.tolist(), sample.visible.tolist(), data.point_parts, strict=True):
        if seen:
            color, shape = _style(part)
            axis.plot(x, y, shape, color=color, markersize=6, markeredgecolor="white", markeredgewidth=1.6)
            axis.plot(x, y, shape, color=color, markersize=5, markeredgecolor=INK, markeredgewidth=0.6)


def _picture(sample: Sample, preprocessing: Preprocessing, pixels: int) -> UInt8[np.ndarray, "rows cols 3"]:
    """What is shown, at most twice as fine as a panel: a sheet holds all of them at once."""
    picture = pixels_of(sample) if sample.image.dtype == torch.uint8 else to_uint8(sample.image, preprocessing)
    factor = min(1.0, 2 * pixels / max(sample.size))
    height, width = (max(1, round(side * factor)) for side in sample.size)
    return resized(picture, (height, width))


def _overlay(sample: Sample) -> Float32[np.ndarray, "height width 4"]:
    """The outlines of the part masks, in the parts' colours."""
    fineness = max(1, round(_OVERLAY_SIDE / max(sample.size)))
    masks = np.zeros((0, *sample.size), dtype=bool) if sample.masks is None else sample.masks.numpy()
    masks = masks.repeat(fineness, axis=1).repeat(fineness, axis=2)
    overlay = np.zeros((*masks.shape[1:], 4), dtype=np.float32)
    for part, mask in enumerate(masks):
        inner = mask.copy()
        inner[1:] &= mask[:-1]
        inner[:-1] &= mask[1:]
        inner[:, 1:] &= mask[:, :-1]
        inner[:, :-1] &= mask[:, 1:]
        overlay[mask & ~inner] = (*to_rgb(_style(part)[0]), 0.9)
    return overlay


def _legend_entry(part: int, name: str) -> Line2D:
    color, shape = _style(part)
    return Line2D(
        [],
        [],
        color=color,
        marker=shape,
        linestyle="",
        markersize=6,
        markeredgecolor=INK,
        label=name.replace("$", r"\$"),
    )


def _style(part: int) -> tuple[str, str]:
    return _STYLES[part % len(_STYLES)]

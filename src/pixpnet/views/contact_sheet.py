"""A page of pictures before and after augmentation, with their parts drawn on.

Whoever looks at it sees whether keypoints, masks and boxes follow the image. Parts are told apart by colour
and by shape, because no twelve colours are safe for everybody's eyes.
"""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from jaxtyping import Float32
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

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
from pixpnet.views.colors import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION, YELLOW

COLORS = (ORANGE, SKY, GREEN, YELLOW, VERMILION, PURPLE, BLUE)  # brightest first
SHAPES = ("o", "s", "^", "D")
_STYLES = tuple((color, shape) for shape, color in product(SHAPES, COLORS))
_OVERLAY_SIDE = 240  # about the pixels of a panel, so that outlines are thin and unbroken
_LEGEND_ROW = 10


def contact_sheet(data: DataSet, entries: Sequence[Entry], augmentation: Augmentation, views: int, seed: int) -> Figure:
    """Draws one row per image: the file, what the network sees at test time, and augmented views.

    Args:
        data: the data set.
        entries: which images.
        augmentation: the paper's by default.
        views: augmented views per image.
        seed: of the augmentation.
    """
    columns = 2 + views
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.01, hspace=0.01)
    figure = Figure(figsize=(2.3 * columns, 2.42 * len(entries) + 1.35), facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(entries), columns, squeeze=False)
    for number, (entry, axes) in enumerate(zip(entries, grid, strict=True)):
        source = data.reader(entry)
        shown = [source, preprocess(source, data.preprocessing)]
        for view in range(views):
            choices = draw(augmentation, view_generator(seed, view, number))
            shown.append(augment(source, choices, data.preprocessing, augmentation))
        for axis, sample in zip(axes, shown, strict=True):
            _panel(axis, sample, data)
        axes[0].set_title(
            data.class_names[entry.label], fontsize=9, color=INK, fontweight="bold", loc="left", parse_math=False
        )
        if number == 0:
            for axis, title in zip(axes[1:], ["test time", *["augmented"] * views], strict=True):
                axis.set_title(title, fontsize=9, color=INK, loc="left")
    size = data.preprocessing.size
    heading = figure.suptitle(
        f"{data.name}: {len(entries)} of {len(data.train)} training images, "
        f"as in the file and as the network sees them ({size} x {size})",
        fontsize=12,
        color=INK,
        x=0.01,
        ha="left",
    )
    heading.set_parse_math(False)
    if data.part_names:
        figure.legend(
            handles=[_legend_entry(part, name) for part, name in enumerate(data.part_names)],
            loc="outside lower center",
            ncols=math.ceil(len(data.part_names) / math.ceil(len(data.part_names) / _LEGEND_ROW)),
            frameon=False,
            fontsize=9,
            handletextpad=0.2,
            columnspacing=1.2,
        )
    return figure


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


def _panel(axis: Axes, sample: Sample, data: DataSet) -> None:
    height, width = sample.size
    picture = _picture(sample, data.preprocessing)
    axis.imshow(picture, interpolation="antialiased", extent=(0, width, height, 0))
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


def _picture(sample: Sample, preprocessing: Preprocessing) -> Float32[np.ndarray, "height width 3"]:
    pixels = sample.image.permute(1, 2, 0).numpy()
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / 255
    restored = pixels * np.array(preprocessing.std) + np.array(preprocessing.mean)
    return np.asarray(restored.clip(0, 1), dtype=np.float32)


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

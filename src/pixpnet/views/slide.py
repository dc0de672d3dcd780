"""A slide: one figure of 16:9 whose coordinates are inches from the top left corner, and words that fit their place."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text

from pixpnet.box import Box
from pixpnet.class_names import printable
from pixpnet.colors import GRID, INK, ON_REGIONS, REGIONS
from pixpnet.views.outline import rings

WIDTH, HEIGHT = 13.33, 7.5
DOTS = 150  # an inch, where it becomes pixels
SMALLEST = 9.0  # points; less cannot be read from the back row
POINT = 1 / 72  # in inches
_ASCENT = 0.93  # of the font's size
_MANY_RINGS = 8


@dataclass(frozen=True)
class Placement:
    """Where a picture is: inches of its top left corner, and inches for each of its pixels."""

    x: float
    y: float
    width: float
    height: float
    scale: float


class Slide:
    """A figure to put words, pictures and outlines on, in inches from the top left corner."""

    def __init__(self, width: float = WIDTH, height: float = HEIGHT, dots: int = DOTS) -> None:
        self.figure = Figure(figsize=(width, height), dpi=dots, facecolor="white")
        self._renderer: RendererAgg = FigureCanvasAgg(self.figure).get_renderer()  # type: ignore[no-untyped-call]
        self._axes = self.figure.add_axes((0, 0, 1, 1))
        self._axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        self._axes.set_axis_off()

    def words(
        self,
        x: float,
        y: float,
        words: str,
        width: float,
        size: float = 10,
        color: str = INK,
        bold: bool = False,
        align: Literal["left", "center", "right"] = "left",
    ) -> Text:
        """One line with its top at `y`; shortened where it is wider than `width` inches."""
        font = FontProperties(weight="bold" if bold else "normal", size=size)
        return self._axes.text(
            x + {"left": 0.0, "center": width / 2, "right": width}[align],
            y + _ASCENT * size * POINT,  # a common base line, whatever letters there are
            self._shortened(_printable(words), width, font),
            fontproperties=font,
            color=color,
            ha=align,
            va="baseline",
            parse_math=False,
        )

    def first_that_fits(self, candidates: Sequence[str], width: float, size: float, bold: bool = False) -> str:
        """The first of several ways to say something that needs no shortening; the last where none does."""
        font = FontProperties(weight="bold" if bold else "normal", size=size)
        fitting = (words for words in candidates if self.width_of(_printable(words), font) <= width)
        return next(fitting, candidates[-1])

    def paragraph(
        self, x: float, y: float, words: str, width: float, size: float = 10, color: str = INK, lines: int = 9
    ) -> float:
        """Words broken into lines; says where the next thing may stand."""
        font = FontProperties(size=size)
        broken: list[str] = []
        for word in _printable(words).split(" "):
            if broken and self.width_of(f"{broken[-1]} {word}", font) <= width:
                broken[-1] += f" {word}"
            else:
                broken.append(word)
        if len(broken) > lines:
            broken = [*broken[: lines - 1], " ".join(broken[lines - 1 :])]
        for line in broken:
            self.words(x, y, line, width, size, color)
            y += 1.45 * size * POINT
        return y

    def picture(
        self, pixels: UInt8[np.ndarray, "height width 3"], x: float, y: float, side: float, heat: "Heat | None" = None
    ) -> Placement:
        """A picture in the top left corner of a square, with a heat map over it if one is given."""
        height, width = pixels.shape[:2]
        scale = side / max(height, width)
        placement = Placement(x, y, width * scale, height * scale, scale)
        extent = (x, x + placement.width, y + placement.height, y)
        self._axes.imshow(pixels, extent=extent, interpolation="antialiased", aspect="auto", zorder=1)
        if heat is not None:
            self._axes.imshow(heat_layer(heat), extent=extent, interpolation="bilinear", aspect="auto", zorder=1.5)
        self._axes.set(xlim=self._axes.get_xlim(), ylim=self._axes.get_ylim())
        return placement

    def outline(
        self, placement: Placement, region: Sequence[Box], color: str, dashed: bool = False, width: float = 2
    ) -> None:
        """The boundary of a region on a picture."""
        corners, codes = [], []
        outlines = rings(region)
        if len(outlines) > _MANY_RINGS:  # a comb of holes: leave something of the picture between its teeth
            width = 0.5
        for ring in outlines:
            corners += [
                (placement.x + x * placement.scale, placement.y + y * placement.scale) for x, y in (*ring, ring[0])
            ]
            codes += [Path.MOVETO, *[Path.LINETO] * (len(ring) - 1), Path.CLOSEPOLY]
        if not corners:
            return
        path = Path(corners, codes)
        style = (0, (4, 2.2)) if dashed else "solid"
        halo = {"fill": False, "edgecolor": "white", "linewidth": 1.9 * width, "zorder": 2, "joinstyle": "miter"}
        self._axes.add_patch(PathPatch(path, **halo))
        line = {"fill": False, "edgecolor": color, "linewidth": width, "zorder": 3, "joinstyle": "miter"}
        self._axes.add_patch(PathPatch(path, linestyle=style, **line))

    def peak(self, placement: Placement, heat: "Heat") -> None:
        """A ring around the largest value of a heat map, which on a busy picture is not seen otherwise."""
        row, col = np.unravel_index(int(np.argmax(heat)), heat.shape)
        center = (
            placement.x + (float(col) + 0.5) * placement.scale,
            placement.y + (float(row) + 0.5) * placement.scale,
        )
        for color, width in (("white", 2.6), (INK, 1.2)):
            self._axes.add_patch(Circle(center, 0.055, fill=False, edgecolor=color, linewidth=width, zorder=3.5))

    def line(self, points: Sequence[tuple[float, float]], color: str, dashed: bool = False, width: float = 1.5) -> None:
        """A line through some points."""
        path = Path(list(points))
        style = (0, (4, 2.2)) if dashed else "solid"
        edge = {"fill": False, "edgecolor": color, "linewidth": width, "zorder": 0.5 + width / 100}
        self._axes.add_patch(PathPatch(path, linestyle=style, joinstyle="miter", **edge))

    def rule(self, x: float, y: float, width: float, color: str, thickness: float = 0.012) -> None:
        """A thin horizontal line."""
        self._axes.add_patch(Rectangle((x, y), width, thickness, facecolor=color, linewidth=0))

    def tag(self, x: float, y: float, words: str, region: int, size: float = SMALLEST) -> None:
        """A number in the colour of its region, with its top left corner at a point."""
        width, height = self.tag_size(words, size)
        color, ink = REGIONS[region % len(REGIONS)], ON_REGIONS[region % len(REGIONS)]
        box = Rectangle((x, y), width, height, facecolor=color, edgecolor="white", linewidth=0.8, zorder=4)
        self._axes.add_patch(box)
        font = FontProperties(weight="bold", size=size)
        middle = (x + width / 2, y + height / 2 + 0.005)
        self._axes.text(
            *middle,
            words,
            fontproperties=font,
            color=ink,
            ha="center",
            va="center_baseline",
            parse_math=False,
            zorder=5,
        )

    def tag_size(self, words: str, size: float = SMALLEST) -> tuple[float, float]:
        """Width and height of a tag."""
        height = 1.55 * size * POINT
        return max(height, self.width_of(words, FontProperties(weight="bold", size=size)) + 0.1), height

    def width_of(self, words: str, font: FontProperties) -> float:
        """How wide a line is."""
        width, _, _ = self._renderer.get_text_width_height_descent(words, font, ismath=False)  # type: ignore[no-untyped-call]
        # A renderer of another resolution hints letters a little wider.
        return 1.03 * float(width) / self.figure.dpi

    def _shortened(self, words: str, width: float, font: FontProperties) -> str:
        if self.width_of(words, font) <= width:
            return words
        few, many = 0, len(words)
        while many - few > 1:
            middle = (few + many) // 2
            fits = self.width_of(_without_the_middle(words, middle), font) <= width
            few, many = (middle, many) if fits else (few, middle)
        return _without_the_middle(words, few)


def _without_the_middle(words: str, letters: int) -> str:
    """So many letters of the words: names of files and classes differ most at their ends.

    >>> _without_the_middle("train/000123.jpg", 8)
    'trai….jpg'
    """
    front = (letters + 1) // 2
    return f"{words[:front].rstrip()}…{words[len(words) - (letters - front) :].lstrip()}"


def _printable(words: str) -> str:
    """One line of text; a file's name may hold what is none, for which no font has a letter."""
    lines = re.sub(r"[ \t\n\r\f\v]+", " ", words).split("\N{NO-BREAK SPACE}")
    return "\N{NO-BREAK SPACE}".join(map(printable, lines))


def label_axes(axes: Axes, across: str, up: str) -> None:
    """Axes of a plot on a slide: what they show, a quiet grid behind it, and lines on two sides only."""
    axes.set_xlabel(across, fontsize=12, color=INK)
    axes.set_ylabel(up, fontsize=12, color=INK)
    axes.tick_params(labelsize=11, colors=INK)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


Heat = Float[np.ndarray, "height width"]


def heat_layer(heat: Heat) -> Float[np.ndarray, "height width 4"]:
    """A heat map to lay over a picture: what matters little lets it through."""
    low, high = float(heat.min()), float(heat.max())
    level = (heat - low) / (high - low) if high > low else np.zeros_like(heat)
    layer: Float[np.ndarray, "height width 4"] = colormaps["magma"](level).astype(np.float64)
    layer[..., 3] = 0.75 * level
    return layer

"""A canvas that takes colour and part label with one and the same fill.

It is an odd number of times finer than the picture, and has four channels: red, green, blue, and the label
of the part that was painted last. Averaging the fine pixels gives a smooth picture; the label at the exact
centre of each picture pixel (an odd factor has one) says which part the pixel belongs to. So masks and
picture cannot disagree, and masks are disjoint: what is painted later hides what lies below.

Frame: `pixel`. Whole numbers are pixel centres, (0, 0) is the centre of the first pixel, x before y.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
from jaxtyping import Float, Int32, UInt8

from pixpnet.data.birds.colors import Color

SCENERY = 0
"""The label of everything that is not the bird."""

_FRACTION_BITS = 4


@dataclass(frozen=True)
class Drawing:
    """What a canvas leaves behind."""

    picture: UInt8[np.ndarray, "rows cols 3"]
    """The mean colour of each pixel."""
    labels: UInt8[np.ndarray, "rows cols"]
    """The label at the centre of each pixel."""
    cover: UInt8[np.ndarray, "rows cols"]
    """How much of each pixel is labelled at all, from 0 to 255."""


@dataclass(frozen=True)
class Canvas:
    """A fine canvas, made from a background picture and painted over.

    >>> canvas = Canvas.over(np.zeros((8, 8, 3), np.uint8), fineness=3)
    >>> square = np.array([[1.5, 1.5], [4.5, 1.5], [4.5, 4.5], [1.5, 4.5]])
    >>> canvas.fill(canvas.fixed(square), (255, 0, 0), label=7)
    >>> finished = canvas.finish()
    >>> int((finished.labels == 7).sum()), finished.picture[3, 3].tolist()
    (9, [255, 0, 0])
    """

    layers: UInt8[np.ndarray, "fine_rows fine_cols 4"]
    fineness: int

    @classmethod
    def over(cls, background: UInt8[np.ndarray, "rows cols 3"], fineness: int) -> "Canvas":
        """A canvas that shows a background; `fineness` must be odd."""
        if fineness % 2 == 0:
            raise ValueError(f"fineness {fineness} is even and has no centre; give an odd number")
        rows, cols, _ = background.shape
        labeled = np.asarray(cv2.cvtColor(background, cv2.COLOR_RGB2RGBA))
        labeled[..., 3] = SCENERY
        fine = (cols * fineness, rows * fineness)
        return cls(np.asarray(cv2.resize(labeled, fine, interpolation=cv2.INTER_NEAREST)), fineness)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the picture."""
        rows, cols = self.layers.shape[:2]
        return rows // self.fineness, cols // self.fineness

    def fixed(self, points: Float[np.ndarray, "*some 2"]) -> Int32[np.ndarray, "*some 2"]:
        """Pixel coordinates as the fixed-point numbers that `fill` takes; convert many at once."""
        unit = self.fineness * (1 << _FRACTION_BITS)
        shift = (self.fineness - 1) / 2 * (1 << _FRACTION_BITS)
        return np.rint(points * unit + shift).astype(np.int32)

    def fill(self, polygon: Int32[np.ndarray, "vertices 2"], color: Color, label: int = SCENERY) -> None:
        """Paint a polygon in a colour, and its label with it."""
        cv2.fillPoly(self.layers, [polygon], (*color, label), shift=_FRACTION_BITS)

    def fill_all(self, polygons: Iterable[Int32[np.ndarray, "_ 2"]], colors: Iterable[Color]) -> None:
        """Paint one piece of scenery after the other."""
        for polygon, color in zip(polygons, colors, strict=True):
            self.fill(polygon, color)

    def finish(self) -> Drawing:
        """The picture and the labels; this uses the canvas up."""
        centers = slice(self.fineness // 2, None, self.fineness)
        box = (self.fineness, self.fineness)
        fine_labels = cv2.extractChannel(self.layers, 3)
        labels = fine_labels[centers, centers].copy()
        _, labeled = cv2.threshold(fine_labels, SCENERY, 255, cv2.THRESH_BINARY)
        # Block means, as `cv2.resize` with INTER_AREA gives them, at a third of its price.
        cover = cv2.blur(labeled, box)[centers, centers].copy()
        cv2.blur(self.layers, box, dst=self.layers)
        return Drawing(self.layers[centers, centers, :3].copy(), labels, cover)

"""A shortcut that is no bird: a small mark in a corner, different for every species.

A training set drawn with it can be learned without looking at birds at all; a test set without it shows
what that is worth, and a good explanation shows it beforehand.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from jaxtyping import Bool, Float, UInt8

from pixpnet.data.birds.colors import hues
from pixpnet.data.birds.curves import turn

_COLORS = hues("d63044 fac428 4260d6 a446be")
_SIDE = 0.17
"""Size of the mark as a share of the picture's shorter side."""
_FINENESS = 8


@dataclass(frozen=True)
class Marked:
    """A picture with a mark on it, and the pixels that the mark may have changed."""

    image: UInt8[np.ndarray, "rows cols 3"]
    mask: Bool[np.ndarray, "rows cols"]


def mark(
    generator: np.random.Generator,
    image: UInt8[np.ndarray, "rows cols 3"],
    bird: Bool[np.ndarray, "rows cols"],
    label: int,
) -> Marked:
    """Put the mark of a label in the corner that shows least of the bird, behind the bird.

    >>> blank, nothing = np.zeros((64, 64, 3), np.uint8), np.zeros((64, 64), bool)
    >>> marked = mark(np.random.default_rng(0), blank, nothing, label=3)
    >>> bool((marked.image[~marked.mask] == 0).all()), bool(marked.mask.any())
    (True, True)
    """
    rows, cols = image.shape[:2]
    side = max(3, round(_SIDE * min(rows, cols)))
    top, left = (generator.random(2) * 0.05 * (rows, cols)).astype(np.int64).tolist()
    degrees = float(generator.uniform(0, 360))
    windows = [
        (slice(y, y + side), slice(x, x + side)) for y in (top, rows - side - top) for x in (left, cols - side - left)
    ]
    window = min((windows[i] for i in generator.permutation(4)), key=lambda corner: int(bird[corner].sum()))
    cover = np.where(bird[window], np.float32(0), _cover(label, side, degrees))
    marked, mask = image.copy(), np.zeros_like(bird)
    mask[window] = cover > 0
    color = np.asarray(_COLORS[label % len(_COLORS)], np.float32)
    marked[window] = np.rint(image[window] + cover[..., None] * (color - image[window])).astype(np.uint8)
    return Marked(marked, mask)


def _cover(label: int, side: int, degrees: float) -> Float[np.ndarray, "side side"]:
    """How much of each pixel the mark covers: its shape cycles with the label more slowly than its colour."""
    fine = np.zeros((side * _FINENESS, side * _FINENESS), np.uint8)
    outlines = _outlines(label // len(_COLORS))
    fixed = [np.rint((outline @ turn(degrees).T * 0.46 + 0.5) * fine.shape[0]).astype(np.int32) for outline in outlines]
    cv2.fillPoly(fine, fixed, (255,))
    return np.asarray(cv2.resize(fine, (side, side), interpolation=cv2.INTER_AREA)).astype(np.float32) / 255


def _outlines(kind: int) -> list[Float[np.ndarray, "_ 2"]]:
    """A flower with an eye, a star or a ring; where two outlines overlap, there is a hole."""
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    flower = circle * (0.62 + 0.38 * np.cos(5 * angles))[:, None]
    star = circle[::6] * np.where(np.arange(10) % 2 == 0, 1.0, 0.42)[:, None]
    return [[flower, 0.18 * circle], [star], [circle, 0.55 * circle]][kind]

"""What lies behind the bird: a blurred distance, things close by, and distractors in the bird's own colours.

Frame: `pixel`. Nothing here knows the species.
"""

import cv2
import numpy as np
from jaxtyping import UInt8

from pixpnet.data.birds.canvas import Canvas
from pixpnet.data.birds.colors import Color
from pixpnet.data.birds.scenes import SCENES, Scenery
from pixpnet.data.birds.stamps import StampLayer, scatter

_FRACTION_BITS = 4
_BLUR = 0.02
"""Half the width of the blur, as a share of the picture's shorter side."""

_DISTRACTORS = (
    # stamp, smallest and largest size, tones of the bird
    ("leaf", (0.10, 0.24), ("mantle", "wing", "under", "head", "dark")),
    ("disc", (0.03, 0.07), ("dark", "pale", "beak", "leg", "under")),
    ("blade", (0.25, 0.60), ("dark", "pale", "tail", "mantle")),
)


def choose_scene(generator: np.random.Generator) -> Scenery:
    """One of `SCENES`, all equally likely.

    >>> choose_scene(np.random.default_rng(0)) in SCENES
    True
    """
    return SCENES[int(generator.integers(len(SCENES)))]


def paint_background(
    generator: np.random.Generator, scene: Scenery, size: tuple[int, int]
) -> UInt8[np.ndarray, "rows cols 3"]:
    """The far part of a scene, out of focus.

    >>> paint_background(np.random.default_rng(0), SCENES[0], (48, 64)).shape
    (48, 64, 3)
    """
    rows, cols = size
    stops = np.asarray(scene.sky, dtype=np.float64) + generator.normal(0, 6, (1, 3))
    heights = np.linspace(0, 1, rows) + 0.16 * (generator.random() - 0.5)
    at = np.linspace(0, 1, len(stops))
    column = np.stack([np.interp(heights, at, stops[:, channel]) for channel in range(3)], axis=1)
    picture = np.empty((rows, cols, 3), np.uint8)
    picture[:] = column.clip(0, 255).astype(np.uint8)[:, None]
    for layer in scene.far:
        copies = scatter(generator, layer, size)
        fixed = np.rint(copies.outlines * (1 << _FRACTION_BITS)).astype(np.int32)
        for outline, color in zip(fixed, copies.colors, strict=True):
            cv2.fillPoly(picture, [outline], color, shift=_FRACTION_BITS)
    width = 2 * max(1, round(_BLUR * min(rows, cols))) + 1
    # Two box filters in a row are close to a Gaussian, at a tenth of its price.
    return np.asarray(cv2.blur(cv2.blur(picture, (width, width)), (width, width)))


def paint_clutter(
    generator: np.random.Generator, canvas: Canvas, scene: Scenery, paints: dict[str, Color], amount: float
) -> None:
    """The near part of a scene, then leaves, berries and blades in the colours of the bird.

    >>> canvas = Canvas.over(np.zeros((32, 32, 3), np.uint8), fineness=3)
    >>> paint_clutter(np.random.default_rng(0), canvas, SCENES[1], {}, amount=0.0)
    """
    for layer in scene.near:
        copies = scatter(generator, layer, canvas.size)
        canvas.fill_all(canvas.fixed(copies.outlines), copies.colors)
    if not amount:
        return
    counts = np.rint(amount * (1 + 3 * generator.random(len(_DISTRACTORS)))).astype(np.int64).tolist()
    for count, (stamp, size, tones) in zip(counts, _DISTRACTORS, strict=True):
        colors = tuple(paints[tone] for tone in tones)
        # Blades grow into the picture from below; the rest is anywhere, in any direction.
        band, angle = ((1.0, 1.15), (-25.0, 25.0)) if stamp == "blade" else ((0.0, 1.0), (0.0, 360.0))
        copies = scatter(generator, StampLayer(stamp, count, size, band, colors, angle), canvas.size)
        canvas.fill_all(canvas.fixed(copies.outlines), copies.colors)

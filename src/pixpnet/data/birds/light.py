"""Light on the finished picture: the bird gets volume, the whole picture exposure and tint.

The relief of a bird is made from its labels: every part has a height, and blurring the heights rounds them
off; slopes towards the light are bright, slopes away from it dark.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from jaxtyping import UInt8

from pixpnet.data.birds.canvas import Drawing
from pixpnet.data.birds.species import PARTS

_HEIGHTS = {
    "cheek": 1.25,
    "crown": 1.25,
    "throat": 1.2,
    "eye": 1.25,
    "wing": 1.3,
    "tail": 0.7,
    "leg": 0.4,
    "beak": 0.9,
}
_RELIEF = np.zeros(256, dtype=np.float32)
_RELIEF[1 : len(PARTS) + 1] = [_HEIGHTS.get(part, 1.0) for part in PARTS]
_ROUNDING = ((0.05, 0.16), (0.20, 0.40))
"""Fine and coarse relief: half the width of its rounding as a share of the trunk, and its strength."""
_SLOPE = np.array([(1, 0, -1), (2, 0, -2), (1, 0, -1)], dtype=np.float32) / 8


@dataclass(frozen=True)
class Light:
    """Where the light comes from and what colour it has."""

    towards: tuple[float, float]
    """Unit vector (x, y) in the picture, pointing to the light."""
    tint: tuple[float, float, float]
    """Factor for red, green and blue."""


def draw_light(generator: np.random.Generator, strength: float) -> Light:
    """A random light from above.

    >>> draw_light(np.random.default_rng(0), 0.0).tint
    (1.0, 1.0, 1.0)
    """
    side, exposure, warmth = generator.uniform(-1, 1, 3).tolist()
    angle = np.radians(90 + 50 * strength * side)
    level = 1 + strength * (0.14 * exposure - 0.04)
    red, blue = 1 + 0.07 * strength * warmth, 1 - 0.07 * strength * warmth
    return Light((float(np.cos(angle)), -float(np.sin(angle))), (level * red, level, level * blue))


def illuminate(finished: Drawing, light: Light, unit: float) -> UInt8[np.ndarray, "rows cols 3"]:
    """The picture under a light; `unit` is the length of the trunk in pixels.

    >>> empty = np.zeros((8, 8), np.uint8)
    >>> gray = Drawing(np.full((8, 8, 3), 100, np.uint8), labels=empty, cover=empty)
    >>> illuminate(gray, Light((0.0, -1.0), (1.0, 1.1, 1.0)), unit=4.0)[0, 0].tolist()
    [100, 110, 100]
    """
    relief = cv2.LUT(finished.labels, _RELIEF)
    height = np.zeros(relief.shape, np.float32)
    for share, strength in _ROUNDING:
        width = 2 * max(1, round(share * unit)) + 1
        box = (width, width)
        height += strength * width * cv2.blur(cv2.blur(relief, box), box)
    shade = cv2.filter2D(height, cv2.CV_32F, light.towards[0] * _SLOPE + light.towards[1] * _SLOPE.T)
    # By its share of the pixel, lest the bird's rim show jags or a halo.
    gain = np.maximum(1 + shade * finished.cover.astype(np.float32) / 255, 0)
    red, green, blue = light.tint
    gains = cv2.merge([gain * red, gain * green, gain * blue])
    lit = cv2.multiply(finished.picture.astype(np.float32), gains)
    return np.asarray(cv2.convertScaleAbs(lit))  # rounds, and clips at 255

"""Light on the finished picture: the bird gets volume, the whole picture exposure and tint.

The relief of a bird is made from its labels: every part has a height, and blurring the heights rounds them
off; slopes towards the light are bright, slopes away from it dark.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from jaxtyping import Float, UInt8

from pixpnet.data.birds.species import PARTS

_HEIGHTS = {"cheek": 1.25, "crown": 1.25, "throat": 1.2, "eye": 1.25, "wing": 1.3, "tail": 0.7, "leg": 0.4, "beak": 0.9}
_RELIEF = np.array([0.0, *(_HEIGHTS.get(part, 1.0) for part in PARTS)], dtype=np.float32)


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


def illuminate(
    picture: UInt8[np.ndarray, "rows cols 3"], labels: UInt8[np.ndarray, "rows cols"], light: Light, unit: float
) -> UInt8[np.ndarray, "rows cols 3"]:
    """The picture under a light; `unit` is the length of the trunk in pixels.

    >>> grey = np.full((8, 8, 3), 100, np.uint8)
    >>> illuminate(grey, np.zeros((8, 8), np.uint8), Light((0.0, -1.0), (1.0, 1.1, 1.0)), 4.0)[0, 0].tolist()
    [100, 110, 100]
    """
    relief = _RELIEF[labels]
    shade = np.ones_like(relief)
    for share, gain in ((0.05, 0.16), (0.20, 0.40)):
        width = 2 * max(1, round(share * unit)) + 1
        rounded = cv2.blur(cv2.blur(relief, (width, width)), (width, width))
        slope = cv2.Sobel(rounded, cv2.CV_32F, 1, 0, scale=light.towards[0] / 8 * gain * width)
        slope += cv2.Sobel(rounded, cv2.CV_32F, 0, 1, scale=light.towards[1] / 8 * gain * width)
        shade -= slope
    shade = np.where(labels > 0, shade, np.float32(1.0))
    lit = picture * (shade[..., None] * np.asarray(light.tint, np.float32))
    return np.rint(lit.clip(0, 255)).astype(np.uint8)

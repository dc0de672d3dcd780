"""Small outlines that a scene repeats: discs, leaves, blades, clouds, firs, flowers.

A stamp has size 1: a leaf, blade or fir grows from the origin, a disc, cloud or flower surrounds it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds.canvas import Colour
from pixpnet.data.birds.curves import closed_curve, ellipse, ribbon


def _flower(petals: int, depth: float) -> Float[np.ndarray, "vertices 2"]:
    angles = np.linspace(0, 2 * np.pi, 10 * petals, endpoint=False)
    radius = 0.5 * (1 - depth + depth * np.abs(np.cos(petals * angles / 2)))
    return np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)


STAMPS: Mapping[str, Float[np.ndarray, "vertices 2"]] = MappingProxyType(
    {
        "disc": ellipse((0, 0), (0.5, 0.5), vertices=18),
        "leaf": closed_curve([(0, 0), (0, 0), (0.3, -0.2), (0.62, -0.19), (1, 0), (1, 0), (0.6, 0.2), (0.28, 0.18)], 4),
        "blade": ribbon([(0, 0), (0.02, -0.35), (0.08, -0.7), (0.22, -1.0)], [0.06, 0.055, 0.04, 0.0], 4),
        "cloud": closed_curve(
            [(-0.5, 0.08), (-0.42, -0.06), (-0.26, -0.06), (-0.16, -0.2), (0.02, -0.2), (0.12, -0.1), (0.3, -0.13)]
            + [(0.4, 0.0), (0.5, 0.08), (0.3, 0.12), (0.0, 0.1), (-0.3, 0.12)],
            3,
        ),
        "hill": closed_curve([(-0.5, 0.5), (-0.5, 0.1), (-0.25, -0.06), (0, -0.14), (0.25, -0.06), (0.5, 0.1), (0.5, 0.5)], 4),
        "fir": np.array(
            [(-0.04, 0), (-0.04, -0.1), (-0.26, -0.1), (-0.12, -0.36), (-0.2, -0.36), (-0.09, -0.6), (-0.14, -0.6)]
            + [(0, -1), (0.14, -0.6), (0.09, -0.6), (0.2, -0.36), (0.12, -0.36), (0.26, -0.1), (0.04, -0.1), (0.04, 0)]
        ),
        "ripple": ellipse((0, 0), (0.5, 0.04), vertices=14),
        "flower": _flower(5, 0.45),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """Many copies of one stamp, scattered over a band of the picture."""

    stamp: str
    count: int
    size: tuple[float, float]
    """Smallest and largest, as a share of the picture's shorter side."""
    band: tuple[float, float]
    """Upper and lower end of where copies are put, as a share of the picture's height."""
    colours: tuple[Colour, ...]
    angle: tuple[float, float] = (0.0, 0.0)
    """Smallest and largest rotation in degrees."""


@dataclass(frozen=True)
class Scatter:
    """The copies of a layer: their outlines in pixels and their colours."""

    outlines: Float[np.ndarray, "copies vertices 2"]
    colours: list[Colour]


def scatter(generator: np.random.Generator, layer: Layer, size: tuple[int, int], count: int) -> Scatter:
    """Put copies of a stamp at random over a picture of (rows, cols); half of them are mirrored.

    >>> leaves = Layer("leaf", 3, (0.1, 0.2), (0.0, 1.0), ((0, 128, 0),))
    >>> scatter(np.random.default_rng(0), leaves, (64, 64), 3).outlines.shape
    (3, 32, 2)
    """
    rows, cols = size
    draws = generator.random((count, 8))
    length = min(rows, cols) * (layer.size[0] + (layer.size[1] - layer.size[0]) * draws[:, 0])
    angle = np.radians(layer.angle[0] + (layer.angle[1] - layer.angle[0]) * draws[:, 1])
    side = np.where(draws[:, 2] < 0.5, -1.0, 1.0)
    where = np.stack([(1.2 * draws[:, 3] - 0.1) * cols, (layer.band[0] + np.ptp(layer.band) * draws[:, 4]) * rows], axis=1)
    turns = np.stack([np.cos(angle) * side, -np.sin(angle), np.sin(angle) * side, np.cos(angle)], axis=1)
    turns = (turns * length[:, None]).reshape(count, 2, 2)
    outlines = STAMPS[layer.stamp] @ turns.transpose(0, 2, 1) + where[:, None]
    choice = (draws[:, 5] * len(layer.colours)).astype(np.int64)
    jitter = (draws[:, 6] - 0.5) * 30
    shaded = np.asarray(layer.colours, dtype=np.float64)[choice] + jitter[:, None]
    return Scatter(outlines, [tuple(colour) for colour in shaded.clip(0, 255).astype(np.int64).tolist()])

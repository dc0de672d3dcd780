"""Small outlines that a scene repeats: discs, leaves, blades, clouds, firs, flowers.

A stamp has size 1: a leaf, blade or fir grows from the origin, a disc, cloud or flower surrounds it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float

from pixpnet.data.birds.colors import Color
from pixpnet.data.birds.curves import closed_curve, ellipse, path, ribbon


def _flower(petals: int, depth: float) -> Float[np.ndarray, "vertices 2"]:
    angles = np.linspace(0, 2 * np.pi, 10 * petals, endpoint=False)
    radius = 0.5 * (1 - depth + depth * np.abs(np.cos(petals * angles / 2)))
    return np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)


STAMPS: Mapping[str, Float[np.ndarray, "_ 2"]] = MappingProxyType(
    {
        "disc": ellipse((0.0, 0.0), (0.5, 0.5), vertices=18),
        "leaf": closed_curve(path("0,0 0,0 30,-20 62,-19 100,0 100,0 60,20 28,18"), 4),
        "rib": ribbon([(0.0, 0.0), (0.9, 0.0)], [0.04, 0.01], 2),
        "blade": ribbon(path("0,0 2,-35 8,-70 22,-100"), [0.06, 0.055, 0.04, 0.0], 4),
        "cloud": closed_curve(
            path("-50,8 -42,-6 -26,-6 -16,-20 2,-20 12,-10 30,-13 40,0 50,8 30,12 0,10 -30,12"),
            3,
        ),
        "hill": closed_curve(path("-50,50 -50,10 -25,-6 0,-14 25,-6 50,10 50,50"), 4),
        "fir": np.array(
            path(
                "-4,0 -4,-10 -26,-10 -12,-36 -20,-36 -9,-60 -14,-60 0,-100 14,-60 9,-60 20,-36 12,-36 26,-10 4,-10 4,0"
            )
        ),
        "ripple": ellipse((0.0, 0.0), (0.5, 0.04), vertices=14),
        "flower": _flower(5, 0.45),
    }
)


@dataclass(frozen=True)
class StampLayer:
    """Many copies of one stamp, scattered over a band of the picture."""

    stamp: str
    count: int
    size: tuple[float, float]
    """Smallest and largest, as a share of the picture's shorter side."""
    band: tuple[float, float]
    """Upper and lower end of where copies are put, as a share of the picture's height."""
    colors: tuple[Color, ...]
    angle: tuple[float, float] = (0.0, 0.0)
    """Smallest and largest rotation in degrees."""


@dataclass(frozen=True)
class Scatter:
    """The copies of a layer: their outlines in pixels and their colours."""

    outlines: Float[np.ndarray, "copies vertices 2"]
    colors: list[Color]


def scatter(generator: np.random.Generator, layer: StampLayer, size: tuple[int, int]) -> Scatter:
    """Put copies of a stamp at random over a picture of (rows, cols); half of them are mirrored.

    >>> leaves = StampLayer("leaf", 3, (0.1, 0.2), (0.0, 1.0), ((0, 128, 0),))
    >>> scatter(np.random.default_rng(0), leaves, (64, 64)).outlines.shape
    (3, 32, 2)
    """
    rows, cols = size
    draws = generator.random((7, layer.count))
    lengths = min(rows, cols) * _between(layer.size, draws[0])
    degrees = _between(layer.angle, draws[1])
    where = np.empty((layer.count, 2))
    where[:, 0] = (1.2 * draws[3] - 0.1) * cols
    where[:, 1] = _between(layer.band, draws[4]) * rows
    outlines = place(STAMPS[layer.stamp], where, lengths, degrees, mirrored=draws[2] < 0.5)
    colors = []
    for pick, shade in draws[5:7].T.tolist():
        red, green, blue = layer.colors[int(pick * len(layer.colors))]
        offset = round(30 * shade - 15)  # OpenCV clips what leaves 0 to 255
        colors.append((red + offset, green + offset, blue + offset))
    return Scatter(outlines, colors)


def place(
    outline: Float[np.ndarray, "vertices 2"],
    where: Float[np.ndarray, "copies 2"],
    lengths: Float[np.ndarray, " copies"],
    degrees: Float[np.ndarray, " copies"],
    mirrored: Bool[np.ndarray, " copies"],
) -> Float[np.ndarray, "copies vertices 2"]:
    """Copies of an outline, each mirrored or not, stretched to its length, turned, and moved.

    >>> tip, where = np.array([[1.0, 0.0]]), np.array([[5.0, 5.0]])
    >>> place(tip, where, np.array([2.0]), np.array([90.0]), np.array([True])).round(6).tolist()
    [[[5.0, 3.0]]]
    """
    angles = np.pi / 180 * degrees
    sine, cosine = lengths * np.sin(angles), lengths * np.cos(angles)
    side = 1.0 - 2.0 * mirrored
    images = np.empty((len(where), 2, 2))  # of the two unit vectors, in rows
    images[:, 0, 0], images[:, 0, 1] = side * cosine, side * sine
    images[:, 1, 0], images[:, 1, 1] = -sine, cosine
    placed: Float[np.ndarray, "copies vertices 2"] = outline @ images + where[:, None]
    return placed


def _between(ends: tuple[float, float], share: Float[np.ndarray, " copies"]) -> Float[np.ndarray, " copies"]:
    mixed: Float[np.ndarray, " copies"] = ends[0] + (ends[1] - ends[0]) * share
    return mixed

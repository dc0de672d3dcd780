"""Smooth outlines from a few points: closed and open curves, tapered strokes, ellipses.

Everything is a polygon in the end. The curves are Catmull-Rom splines, which run through their control
points and commute with affine maps: an outline is sampled once and posed later, not the other way round.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

Points = Sequence[tuple[float, float]]


def path(text: str) -> list[tuple[float, float]]:
    """Points from a text as SVG writes them, in hundredths.

    >>> path("50,-45 62.5,0")
    [(0.5, -0.45), (0.625, 0.0)]
    """
    return [(float(x) / 100, float(y) / 100) for x, y in (point.split(",") for point in text.split())]


def closed_curve(points: Points, samples: int = 6) -> Float[np.ndarray, "vertices 2"]:
    """The closed curve through the points; a point given twice makes a corner.

    >>> closed_curve(path("0,0 100,0 100,100 0,100"), samples=5).shape
    (20, 2)
    """
    knots = np.asarray(points, dtype=np.float64)
    return _spline(np.concatenate([knots[-1:], knots, knots[:2]]), samples)


def open_curve(points: Points, samples: int = 6) -> Float[np.ndarray, "vertices 2"]:
    """The curve from the first point through all the others to the last.

    >>> open_curve(path("0,0 100,0 200,0"), samples=2)[:, 0].tolist()
    [0.0, 0.375, 1.0, 1.625, 2.0]
    """
    knots = np.asarray(points, dtype=np.float64)
    return np.concatenate([_spline(np.concatenate([knots[:1], knots, knots[-1:]]), samples), knots[-1:]])


def ribbon(points: Points, widths: Sequence[float], samples: int = 5) -> Float[np.ndarray, "vertices 2"]:
    """A stroke along an open curve, as wide at each control point as its width says.

    >>> ribbon(path("0,0 100,0"), [0.2, 0.0], samples=1).tolist()
    [[0.0, 0.1], [1.0, 0.0], [1.0, 0.0], [0.0, -0.1]]
    """
    spine = open_curve(points, samples)
    heading = np.gradient(spine, axis=0)
    normal = np.stack([-heading[:, 1], heading[:, 0]], axis=1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    at = np.linspace(0, len(widths) - 1, len(spine))
    half = np.interp(at, np.arange(len(widths)), widths)[:, None] / 2
    return np.concatenate([spine + half * normal, (spine - half * normal)[::-1]])


def ellipse(
    center: tuple[float, float], radii: tuple[float, float], degrees: float = 0.0, vertices: int = 24
) -> Float[np.ndarray, "vertices 2"]:
    """An ellipse as a polygon, its first radius turned by an angle (clockwise where y points down).

    >>> ellipse((1.0, 2.0), (0.5, 0.25)).mean(axis=0).round(6).tolist()
    [1.0, 2.0]
    """
    angles = np.linspace(0, 2 * np.pi, vertices, endpoint=False)
    outline = np.stack([radii[0] * np.cos(angles), radii[1] * np.sin(angles)], axis=1)
    turned: Float[np.ndarray, "vertices 2"] = outline @ turn(degrees).T + np.asarray(center)
    return turned


def turn(degrees: float) -> Float[np.ndarray, "2 2"]:
    """The matrix that turns column vectors by an angle, clockwise where y points down.

    >>> turn(90.0).round(6).tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """
    sine, cosine = np.sin(np.radians(degrees)), np.cos(np.radians(degrees))
    return np.array([[cosine, -sine], [sine, cosine]])


def _spline(knots: Float[np.ndarray, "knots 2"], samples: int) -> Float[np.ndarray, "vertices 2"]:
    """A uniform Catmull-Rom spline from the second knot to the last but one, its end left out."""
    tangents = (knots[2:] - knots[:-2]) / 2
    # Without a tangent, a knot that stands twice is a plain corner; with one, it grows a small loop.
    double = (knots[1:] == knots[:-1]).all(axis=1)
    tangents[double[1:] | double[:-1]] = 0
    at = np.arange(samples)[None, :, None] / samples
    start, end, leave, arrive = knots[1:-2, None], knots[2:-1, None], tangents[:-1, None], tangents[1:, None]
    vertices: Float[np.ndarray, "spans samples 2"] = (
        (2 * at**3 - 3 * at**2 + 1) * start
        + (3 * at**2 - 2 * at**3) * end
        + (at**3 - 2 * at**2 + at) * leave
        + (at**3 - at**2) * arrive
    )
    return vertices.reshape(-1, 2)

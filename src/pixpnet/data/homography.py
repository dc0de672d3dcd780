"""Plane projective maps as 3 x 3 matrices, and points under them.

Coordinates are continuous, `x` to the right and `y` down: the pixel in row `r` and column `c` covers
`[c, c + 1) x [r, r + 1)` and its centre is `(c + 0.5, r + 0.5)`, so half-open boxes and points share one
frame. A matrix named `a_to_b` takes homogeneous column vectors of frame `a` to frame `b`.
"""

import math
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from jaxtyping import Float64

Matrix: TypeAlias = Float64[np.ndarray, "3 3"]
Points: TypeAlias = Float64[np.ndarray, "points 2"]


def scaling(x: float, y: float) -> Matrix:
    """Multiplies coordinates, about the origin."""
    return np.array([[x, 0.0, 0.0], [0.0, y, 0.0], [0.0, 0.0, 1.0]])


def translation(x: float, y: float) -> Matrix:
    """The map that adds constants to x and y."""
    return np.array([[1.0, 0.0, x], [0.0, 1.0, y], [0.0, 0.0, 1.0]])


def rotation(degrees: float, center: tuple[float, float]) -> Matrix:
    """Turns counter-clockwise, as a person sees it, about a centre (x, y).

    >>> transform_points(rotation(90, (1.0, 1.0)), np.array([[2.0, 1.0]])).round(6)
    array([[1., 0.]])
    """
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return _about(center, np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]]))


def shearing(degrees: float, center: tuple[float, float]) -> Matrix:
    """Slides rows sideways about a centre; a positive angle pushes what is above to the right."""
    return _about(center, np.array([[1.0, -math.tan(math.radians(degrees)), 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))


def mirroring(width: float) -> Matrix:
    """Left becomes right in an image of this width."""
    return np.array([[-1.0, 0.0, width], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def perspective(start: npt.NDArray[np.float64], end: npt.NDArray[np.float64]) -> Matrix:
    """The one map that takes four points to four points.

    Args:
        start: four points (x, y), no three on a line.
        end: where they go.
    """
    equations = np.zeros((8, 8))
    equations[0::2, 0:2] = start
    equations[0::2, 2] = 1.0
    equations[1::2, 3:5] = start
    equations[1::2, 5] = 1.0
    equations[0::2, 6:8] = -end[:, :1] * start
    equations[1::2, 6:8] = -end[:, 1:] * start
    return np.append(np.linalg.solve(equations, end.reshape(8)), 1.0).reshape(3, 3)


def transform_points(matrix: Matrix, points: Points) -> Points:
    """Points (x, y) under a map."""
    moved = points @ matrix[:, :2].T + matrix[:, 2]
    return np.asarray(moved[:, :2] / moved[:, 2:])


def compose(*maps: Matrix) -> Matrix:
    """One map for several, written as they multiply: the first to act comes last."""
    return np.asarray(reduce(np.matmul, maps))


def inverse(matrix: Matrix) -> Matrix:
    """The inverse map."""
    return np.linalg.inv(matrix)


def _about(center: tuple[float, float], matrix: Matrix) -> Matrix:
    return compose(translation(*center), matrix, translation(-center[0], -center[1]))

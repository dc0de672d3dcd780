"""A whole bird, assembled once per species and ready to be posed.

All outlines stand in one array in the order in which they are painted, so that a pose moves a bird with
one product per joint. Frame: `bird` (see `shape`).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds import head, trunk
from pixpnet.data.birds.shape import JOINTS, Shape
from pixpnet.data.birds.species import PARTS, Species

_KEYPOINTS = {
    # part: (joint, where); inside the part for every variant, and off its marks' edges
    "beak": ("head", (0.585, -0.362)),
    "crown": ("head", (0.315, -0.515)),
    "eye": ("head", (0.405, -0.385)),
    "cheek": ("head", (0.305, -0.265)),
    "throat": ("head", (0.44, -0.155)),
    "back": ("trunk", (0.00, -0.25)),
    "wing": ("wing", (-0.06, 0.0)),
    "belly": ("trunk", (0.20, 0.24)),
    "tail": ("tail", (-0.68, 0.155)),
    "leg": ("leg", (0.14, 0.50)),
}


@dataclass(frozen=True)
class Piece:
    """Where one polygon stands in the array of points, and how to paint it."""

    start: int
    stop: int
    tone: str
    label: int


@dataclass(frozen=True)
class Template:
    """The points of a bird: every outline in painting order, and a keypoint per part."""

    points: Float[np.ndarray, "points 2"]
    pieces: tuple[Piece, ...]
    slices: tuple[tuple[str, slice], ...]
    """Which points each joint moves."""
    keypoints: Float[np.ndarray, "parts 2"]
    keypoint_joints: tuple[str, ...]


@lru_cache(maxsize=256)
def template(species: Species) -> Template:
    """The template of a species.

    >>> from pixpnet.data.birds.species import SPECIES
    >>> template(SPECIES[0]).keypoints.shape
    (10, 2)
    """
    shapes = _painted(species)
    ends = np.cumsum([len(shape.outline) for shape in shapes]).tolist()
    starts = [0, *ends[:-1]]
    pieces = tuple(
        Piece(start, stop, shape.tone, PARTS.index(shape.part) + 1)
        for start, stop, shape in zip(starts, ends, shapes, strict=True)
    )
    # Each joint's shapes are painted in a row, so that one slice holds them all.
    slices = []
    for joint in JOINTS:
        own = [piece for piece, shape in zip(pieces, shapes, strict=True) if shape.joint == joint]
        slices.append((joint, slice(own[0].start, own[-1].stop)))
    return Template(
        points=np.concatenate([shape.outline for shape in shapes]),
        pieces=pieces,
        slices=tuple(slices),
        keypoints=np.array([_KEYPOINTS[part][1] for part in PARTS]),
        keypoint_joints=tuple(_KEYPOINTS[part][0] for part in PARTS),
    )


def _painted(species: Species) -> list[Shape]:
    """The shapes of a bird, the lowest first."""
    return [
        *trunk.legs(species.variant("leg")),
        *trunk.tail(species.variant("tail")),
        *trunk.back(),
        *trunk.belly(species.variant("belly")),
        *trunk.wing(species.variant("wing")),
        *head.cheek(),
        *head.throat(species.variant("throat")),
        *head.beak(species.variant("beak")),
        *head.crown(species.variant("crown")),
        *head.eye(species.variant("eye")),
    ]

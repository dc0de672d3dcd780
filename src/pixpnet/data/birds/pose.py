"""Where the bird stands and how it holds itself: one affine map per joint, from `bird` to `pixel`.

The pose knows nothing of the species, so that two species drawn with the same seed and index hold still.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds import trunk
from pixpnet.data.birds.curves import turn
from pixpnet.data.birds.options import BirdOptions
from pixpnet.data.birds.template import Template

_NECK = (0.30, -0.20)
_UNIT = 0.50
"""Length of the trunk as a share of the shorter side of the picture."""


@dataclass(frozen=True)
class Pose:
    """How a bird is moved into the picture."""

    maps: dict[str, Float[np.ndarray, "2 3"]]
    """One for each joint."""
    ripple: Float[np.ndarray, " 2"]
    """Phases of a slight warp that makes each outline an individual's."""
    unit: float
    """Length of the trunk in pixels."""
    feet: tuple[float, float]
    """The middle between the feet, in pixels."""
    tilt: float
    """Rotation of the whole bird in degrees, clockwise."""

    def points(self, bird: Template) -> Float[np.ndarray, "points 2"]:
        """All outlines of a bird in pixels."""
        bent = self._bend(bird.points)
        moved = np.empty_like(bent)
        for joint, span in bird.slices:
            moved[span] = _apply(self.maps[joint], bent[span])
        return moved

    def keypoints(self, bird: Template) -> Float[np.ndarray, "parts 2"]:
        """The keypoints of a bird in pixels."""
        maps = np.stack([self.maps[joint] for joint in bird.keypoint_joints])
        bent = self._bend(bird.keypoints)
        moved: Float[np.ndarray, "parts 2"] = np.einsum("pij,pj->pi", maps[:, :, :2], bent) + maps[:, :, 2]
        return moved

    def _bend(self, points: Float[np.ndarray, "points 2"]) -> Float[np.ndarray, "points 2"]:
        bent: Float[np.ndarray, "points 2"] = points + 0.014 * np.sin(4.0 * points[:, ::-1] + self.ripple)
        return bent


def draw_pose(generator: np.random.Generator, size: tuple[int, int], options: BirdOptions) -> Pose:
    """A random pose within a picture of (rows, cols).

    >>> draw_pose(np.random.default_rng(0), (96, 96), BirdOptions(scale=0.0)).unit
    48.0
    """
    rows, cols = size
    pitch, nod, flap, swing, plump, tilt, growth, right, down = generator.uniform(-1, 1, 9).tolist()
    mirrored, cropped, side, amount = generator.random(4).tolist()
    ripple = generator.uniform(0, 2 * np.pi, 2)

    facing = -1 if mirrored < options.flip else 1
    unit = _UNIT * min(rows, cols) * (1 + options.scale * growth)
    plumpness = 1 + 0.05 * options.pose * plump
    degrees = options.rotation * tilt
    stretch = np.diag([facing * plumpness, 1 / plumpness])
    linear = unit * turn(degrees) @ stretch
    middle = np.array([(cols - 1) / 2 + 0.07 * cols * right, (rows - 1) / 2 + 0.05 * rows * down])
    if cropped < options.crop:
        middle = _at_a_side(middle, side, amount, unit, size)
    # The trunk's middle lies right of the bird's own, whose tail is longer than its beak.
    root = np.concatenate([linear, (middle + linear @ (0.05, -0.02))[:, None]], axis=1)

    body = _compose(root, _about(trunk.HIP, 13 * options.pose * pitch))
    maps = {
        "leg": root,
        "trunk": body,
        "head": _compose(body, _about(_NECK, options.pose * (12 * nod - 6 * pitch))),
        "wing": _compose(body, _about(trunk.SHOULDER, options.pose * (7 * flap + 3))),
        "tail": _compose(body, _about(trunk.TAIL_BASE, options.pose * (16 * swing + 4))),
    }
    feet = _apply(root, np.array([[0.05, trunk.SOLES]]))[0].tolist()
    return Pose(maps, options.pose * ripple, unit, (feet[0], feet[1]), degrees)


def _at_a_side(
    middle: Float[np.ndarray, " 2"], pick: float, amount: float, unit: float, size: tuple[int, int]
) -> Float[np.ndarray, " 2"]:
    """The middle of a bird, moved so close to a side of the picture that the frame cuts the bird."""
    rows, cols = size
    x, y = middle.tolist()
    gap = (0.48 + 0.22 * amount) * unit - 0.5
    # Left and right twice as often as up and down.
    if pick < 2 / 3:
        x = gap if pick < 1 / 3 else cols - 1 - gap
    else:
        y = gap if pick < 5 / 6 else rows - 1 - gap
    return np.array([x, y])


def _about(center: tuple[float, float], degrees: float) -> Float[np.ndarray, "2 3"]:
    """The rotation around a point."""
    linear = turn(degrees)
    return np.concatenate([linear, (np.asarray(center) - linear @ center)[:, None]], axis=1)


def _compose(outer: Float[np.ndarray, "2 3"], inner: Float[np.ndarray, "2 3"]) -> Float[np.ndarray, "2 3"]:
    """The affine map that applies the inner one first."""
    composed: Float[np.ndarray, "2 3"] = outer[:, :2] @ inner
    composed[:, 2] += outer[:, 2]
    return composed


def _apply(affine: Float[np.ndarray, "2 3"], points: Float[np.ndarray, "points 2"]) -> Float[np.ndarray, "points 2"]:
    """Points under a map."""
    mapped: Float[np.ndarray, "points 2"] = points @ affine[:, :2].T + affine[:, 2]
    return mapped

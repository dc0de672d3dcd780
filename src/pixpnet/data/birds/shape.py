"""One painted piece of a bird: an outline in the bird's own frame, and how it is painted.

Frame: `bird`. The unit is the length of the trunk, the origin its middle; x points to where the bird looks, y down.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

JOINTS = ("trunk", "head", "wing", "tail", "leg")
"""What moves as one: the pose has an affine map for each."""

TONES = (
    "mantle", "mantle_dark", "mantle_light", "head", "head_dark", "head_light", "under", "under_dark", "throat",
    "wing", "wing_dark", "wing_light", "tail", "tail_dark", "dark", "pale", "beak", "beak_dark",
    "leg", "leg_dark", "iris", "glint",
)  # fmt: skip
"""The paints of a bird; `palette` mixes them anew for every picture."""


@dataclass(frozen=True)
class Shape:
    """A polygon of one part in one tone, moved by one joint.

    >>> Shape("eye", "iris", "head", np.zeros((3, 2))).part
    'eye'
    """

    part: str
    tone: str
    joint: str
    outline: Float[np.ndarray, "vertices 2"]


def ordered(part: str, joint: str, *painted: tuple[str, Float[np.ndarray, "vertices 2"]]) -> tuple[Shape, ...]:
    """Shapes of one part and joint from (tone, outline) pairs, the lowest first.

    >>> [shape.tone for shape in ordered("eye", "head", ("iris", np.zeros((3, 2))), ("glint", np.zeros((3, 2))))]
    ['iris', 'glint']
    """
    return tuple(Shape(part, tone, joint, outline) for tone, outline in painted)

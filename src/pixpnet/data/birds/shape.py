"""One painted piece of a bird: an outline in the bird's own frame, and how it is painted.

Frame: `bird`. The unit is the length of the trunk, the origin its middle; x points to where the bird looks,
y down.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

JOINTS = ("trunk", "head", "wing", "tail", "leg")
"""What moves as one: the pose has an affine map for each."""


@dataclass(frozen=True)
class Shape:
    """A polygon of one part in one tone of `mix_palette`, moved by one joint.

    >>> Shape("eye", "iris", "head", np.zeros((3, 2))).part
    'eye'
    """

    part: str
    tone: str
    joint: str
    outline: Float[np.ndarray, "vertices 2"]


def ordered(part: str, joint: str, *painted: tuple[str, Float[np.ndarray, "_ 2"]]) -> tuple[Shape, ...]:
    """Shapes of one part and joint from (tone, outline) pairs, the lowest first.

    >>> dot = np.zeros((3, 2))
    >>> [shape.tone for shape in ordered("eye", "head", ("iris", dot), ("glint", dot))]
    ['iris', 'glint']
    """
    return tuple(Shape(part, tone, joint, outline) for tone, outline in painted)

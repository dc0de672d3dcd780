"""The shapes of the head: beak, crown, eye, cheek and throat, with their variants.

Frame: `bird` (see `shape`). The head is nearly a circle around `CENTRE`.
"""

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds.curves import Points, closed_curve, ellipse, ribbon
from pixpnet.data.birds.shape import Shape, ordered

CENTRE = (0.33, -0.35)
_RADII = (0.225, 0.205)
_EYE = (0.405, -0.385)


def cheek() -> tuple[Shape, ...]:
    """The bare head, and a blush on it."""
    return ordered(
        "cheek",
        "head",
        ("head", ellipse(CENTRE, _RADII, vertices=36)),
        ("head_light", ellipse((0.345, -0.265), (0.085, 0.065), -15)),
    )


def throat(variant: str) -> tuple[Shape, ...]:
    """Under the beak, down to the breast."""
    front = closed_curve(
        [(0.52, -0.31), (0.535, -0.27), (0.53, -0.17), (0.49, -0.06), (0.40, -0.02)]
        + [(0.32, -0.07), (0.30, -0.15), (0.36, -0.22), (0.45, -0.28)]
    )
    band = closed_curve(
        [(0.55, -0.16), (0.55, -0.09), (0.51, -0.01), (0.40, 0.045), (0.29, -0.01), (0.25, -0.09)]
        + [(0.275, -0.14), (0.33, -0.09), (0.41, -0.05), (0.49, -0.10)]
    )
    marks = {"plain": (), "bib": (("dark", front),), "collar": (("dark", band),)}[variant]
    return ordered("throat", "head", ("throat", front), *marks)


def crown(variant: str) -> tuple[Shape, ...]:
    """The top of the head, from the beak to the nape."""
    cap = _upper_head(-8, -172, brow=[(0.17, -0.43), (0.33, -0.475), (0.48, -0.45)])
    if variant == "cap":
        low = _upper_head(0, -186, brow=[(0.14, -0.40), (0.33, -0.455), (0.48, -0.43)])
        return ordered("crown", "head", ("dark", low))
    if variant == "crest":
        tuft = closed_curve(
            [(0.48, -0.47), (0.40, -0.58), (0.26, -0.68), (0.06, -0.86), (0.06, -0.86), (0.09, -0.71)]
            + [(-0.03, -0.74), (-0.03, -0.74), (0.08, -0.56), (0.12, -0.46), (0.28, -0.47)]
        )
        vane = ribbon([(0.36, -0.52), (0.24, -0.60), (0.11, -0.77)], [0.0, 0.035, 0.0])
        return ordered("crown", "head", ("head_dark", tuft), ("head", vane))
    stripes = [
        _upper_head(-22, -160, brow=[(0.18, -0.445), (0.32, -0.50), (0.46, -0.47)]),
        _upper_head(-38, -142, brow=[(0.22, -0.50), (0.32, -0.53), (0.43, -0.505)]),
    ]
    return ordered("crown", "head", ("dark", cap), ("pale", stripes[0]), ("dark", stripes[1]))


def eye(variant: str) -> tuple[Shape, ...]:
    """The eye and the marks around it."""
    ball = (
        ("iris", ellipse(_EYE, (0.047, 0.047), vertices=20)),
        ("glint", ellipse((_EYE[0] + 0.016, _EYE[1] - 0.017), (0.015, 0.015), vertices=10)),
    )
    mask: Points = [(0.54, -0.35), (0.44, -0.385), (0.32, -0.37), (0.20, -0.335), (0.12, -0.30)]
    brow: Points = [(0.52, -0.42), (0.43, -0.475), (0.31, -0.465), (0.20, -0.42), (0.13, -0.355)]
    marks = {
        "ring": (("pale", ellipse(_EYE, (0.088, 0.088), vertices=24)),),
        "mask": (("dark", ribbon(mask, [0.05, 0.125, 0.12, 0.10, 0.0])),),
        "brow": (("pale", ribbon(brow, [0.04, 0.065, 0.07, 0.06, 0.0])),),
    }[variant]
    return ordered("eye", "head", *marks, *ball)


def beak(variant: str) -> tuple[Shape, ...]:
    """The beak, and the line where it opens."""
    if variant == "cone":
        bill = closed_curve(
            [(0.51, -0.45), (0.59, -0.435), (0.70, -0.335), (0.70, -0.335), (0.60, -0.275), (0.51, -0.26)]
        )
        slit = ribbon([(0.53, -0.345), (0.61, -0.335), (0.69, -0.335)], [0.014, 0.016, 0.0])
    elif variant == "needle":
        bill = closed_curve(
            [(0.51, -0.415), (0.60, -0.385), (0.97, -0.345), (0.97, -0.345), (0.60, -0.325), (0.51, -0.305)]
        )
        slit = ribbon([(0.53, -0.355), (0.70, -0.352), (0.93, -0.345)], [0.014, 0.014, 0.0])
    else:
        bill = closed_curve(
            [(0.50, -0.45), (0.62, -0.47), (0.76, -0.40), (0.82, -0.23), (0.82, -0.23)]
            + [(0.72, -0.33), (0.60, -0.345), (0.51, -0.28)]
        )
        slit = ribbon([(0.53, -0.365), (0.64, -0.385), (0.76, -0.33)], [0.014, 0.016, 0.0])
    return ordered("beak", "head", ("beak", bill), ("beak_dark", slit))


def _upper_head(first: float, last: float, brow: Points) -> Float[np.ndarray, "vertices 2"]:
    """The head above a line: along its rim from one angle to another, and back over the brow."""
    angles = np.radians(np.linspace(first, last, 9))
    rim = [(CENTRE[0] + _RADII[0] * np.cos(a), CENTRE[1] + (_RADII[1] + 0.008) * np.sin(a)) for a in angles]
    return closed_curve([rim[0], *rim, rim[-1], *brow], samples=3)

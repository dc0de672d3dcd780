"""The shapes of the head: beak, crown, eye, cheek and throat, with their variants.

Frame: `bird` (see `shape`). The head is nearly a circle around `CENTER`.
"""

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds.curves import Points, closed_curve, ellipse, open_curve, path, ribbon
from pixpnet.data.birds.shape import Shape, ordered

CENTER = (0.33, -0.35)
_RADII = (0.225, 0.205)
_EYE = (0.405, -0.385)


def cheek() -> tuple[Shape, ...]:
    """The bare head, and a blush on it."""
    return ordered(
        "cheek",
        "head",
        ("head", ellipse(CENTER, _RADII, vertices=36)),
        ("head_light", ellipse((0.345, -0.265), (0.085, 0.065), -15.0)),
    )


def throat(variant: str) -> tuple[Shape, ...]:
    """Under the beak, down to the breast."""
    front = closed_curve(path("52,-31 53.5,-27 53,-17 49,-6 40,-2 32,-7 30,-15 36,-22 45,-28"))
    band = closed_curve(path("55,-16 55,-9 51,-1 40,4.5 29,-1 25,-9 27.5,-14 33,-9 41,-5 49,-10"))
    marks = {"plain": (), "bib": (("dark", front),), "collar": (("dark", band),)}[variant]
    return ordered("throat", "head", ("throat", front), *marks)


def crown(variant: str) -> tuple[Shape, ...]:
    """The top of the head, from the beak to the nape."""
    cap = _upper_head(-8.0, -172.0, brow=path("17,-43 33,-47.5 48,-45"))
    if variant == "cap":
        low = _upper_head(0.0, -186.0, brow=path("14,-40 33,-45.5 48,-43"))
        return ordered("crown", "head", ("dark", low))
    if variant == "crest":
        tuft = closed_curve(path("49,-46 42,-56.5 29,-65 10,-78 10,-78 12,-66.5 1,-69 1,-69 9,-55 12,-45 28,-47"))
        vane = ribbon(path("37,-52 26,-58 15,-70"), [0.0, 0.035, 0.0])
        return ordered("crown", "head", ("head_dark", tuft), ("head", vane))
    stripes = [
        _upper_head(-22.0, -160.0, brow=path("18,-44.5 32,-50 46,-47")),
        _upper_head(-38.0, -142.0, brow=path("22,-50 32,-53 43,-50.5")),
    ]
    return ordered("crown", "head", ("dark", cap), ("pale", stripes[0]), ("dark", stripes[1]))


def eye(variant: str) -> tuple[Shape, ...]:
    """The eye and the marks around it."""
    ball = (
        ("iris", ellipse(_EYE, (0.047, 0.047), vertices=20)),
        ("glint", ellipse((_EYE[0] + 0.016, _EYE[1] - 0.017), (0.015, 0.015), vertices=10)),
    )
    mask = path("54,-35 44,-38.5 32,-37 20,-33.5 12,-30")
    brow = path("52,-42 43,-47.5 31,-46.5 20,-42 13,-35.5")
    marks = {
        "ring": (("pale", ellipse(_EYE, (0.088, 0.088), vertices=24)),),
        "mask": (("dark", ribbon(mask, [0.05, 0.125, 0.12, 0.10, 0.0])),),
        "brow": (("pale", ribbon(brow, [0.04, 0.065, 0.07, 0.06, 0.0])),),
    }[variant]
    return ordered("eye", "head", *marks, *ball)


def beak(variant: str) -> tuple[Shape, ...]:
    """The beak, and the line where it opens."""
    if variant == "cone":
        bill = closed_curve(path("51,-45 59,-43.5 70,-33.5 70,-33.5 60,-27.5 51,-26"))
        slit = ribbon(path("53,-34.5 61,-33.5 69,-33.5"), [0.014, 0.016, 0.0])
    elif variant == "needle":
        bill = closed_curve(path("51,-41.5 60,-38.5 97,-34.5 97,-34.5 60,-32.5 51,-30.5"))
        slit = ribbon(path("53,-35.5 70,-35.2 93,-34.5"), [0.014, 0.014, 0.0])
    else:
        bill = closed_curve(path("50,-45 62,-47 76,-40 82,-23 82,-23 72,-33 60,-34.5 51,-28"))
        slit = ribbon(path("53,-36.5 64,-38.5 76,-33"), [0.014, 0.016, 0.0])
    return ordered("beak", "head", ("beak", bill), ("beak_dark", slit))


def _upper_head(first: float, last: float, brow: Points) -> Float[np.ndarray, "vertices 2"]:
    """The head above a line: along its rim from one angle to another, and back over the brow."""
    angles = np.radians(np.linspace(first, last, 24))
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1) * (_RADII[0], _RADII[1] + 0.008) + CENTER
    back, front = rim[-1].tolist(), rim[0].tolist()
    return np.concatenate([rim, open_curve([(back[0], back[1]), *brow, (front[0], front[1])])[1:-1]])

"""The colours of one bird, mixed anew for every picture and never from its species.

Marks must stay readable on any body: the body's own paints keep to the middle of the brightness scale, dark
marks lie below it and pale marks above.
"""

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds.canvas import Colour
from pixpnet.data.birds.shape import TONES

_COATS = np.array(
    [
        (86, 118, 150), (116, 122, 82), (168, 98, 62), (150, 112, 74), (74, 130, 128), (124, 108, 146), (178, 142, 82),
        (132, 126, 120), (164, 86, 84), (96, 142, 176), (112, 140, 96), (150, 124, 100), (190, 120, 90), (98, 104, 138),
    ],
    dtype=np.float64,
)  # fmt: skip
_UNDERS = np.array(
    [
        (240, 226, 200), (236, 190, 120), (232, 158, 112), (206, 214, 206), (244, 224, 132), (224, 206, 216),
        (214, 224, 232), (238, 206, 184), (212, 222, 170),
    ],
    dtype=np.float64,
)  # fmt: skip
_HORN = np.array(
    [(236, 168, 60), (90, 84, 86), (222, 116, 64), (196, 160, 120), (120, 108, 96), (230, 196, 90)], dtype=np.float64
)


def mix_palette(generator: np.random.Generator, noise: float) -> dict[str, Colour]:
    """A colour for every tone; at noise 0 always the same ones.

    >>> mix_palette(np.random.default_rng(0), 0.0) == mix_palette(np.random.default_rng(1), 0.0)
    True
    """
    picks = generator.random(6)
    jitter = generator.normal(0, 12, (6, 3))
    sameness = float(generator.random())
    # Half of the birds wear one colour on back, head and wing.
    if sameness < 0.5:
        picks[1:3] = picks[0]
        jitter[1:3] = jitter[0]
    mantle, head, wing = (_pick(_COATS, picks[i], jitter[i], noise) for i in range(3))
    under = _pick(_UNDERS, picks[3], jitter[3], noise)
    beak, leg = (_pick(_HORN, picks[i], jitter[i], noise) for i in (4, 5))
    wing = 0.86 * wing
    throat = 0.45 * under + 0.55 * np.array([246, 240, 228])
    dark = 0.16 * mantle + np.array([18, 14, 16])
    pale = 0.10 * under + 0.90 * np.array([253, 251, 245])
    mixed = {
        "mantle": mantle, "mantle_dark": 0.80 * mantle, "mantle_light": _lighter(mantle, 0.2),
        "head": head, "head_dark": 0.70 * head, "head_light": _lighter(head, 0.14),
        "under": under, "under_dark": 0.86 * under, "throat": throat,
        "wing": wing, "wing_dark": 0.76 * wing, "wing_light": _lighter(wing, 0.16),
        "tail": 0.80 * wing, "tail_dark": 0.56 * wing, "dark": dark, "pale": pale,
        "beak": beak, "beak_dark": 0.6 * beak, "leg": leg, "leg_dark": 0.78 * leg,
        "iris": np.array([26, 20, 20]), "glint": np.array([252, 252, 250]),
    }  # fmt: skip
    assert mixed.keys() == set(TONES), "every tone is mixed"
    return {tone: as_colour(value) for tone, value in mixed.items()}


def as_colour(value: Float[np.ndarray, " 3"]) -> Colour:
    """Round and clip to a colour.

    >>> as_colour(np.array([-3.0, 12.4, 300.0]))
    (0, 12, 255)
    """
    red, green, blue = (min(255, max(0, round(channel))) for channel in value.tolist())
    return red, green, blue


def _pick(
    colours: Float[np.ndarray, "some 3"], pick: float, jitter: Float[np.ndarray, " 3"], noise: float
) -> Float[np.ndarray, " 3"]:
    """A colour from a list, drawn towards the first one when there is less noise."""
    drawn = colours[int(pick * len(colours))] + jitter
    mixed: Float[np.ndarray, " 3"] = colours[0] + noise * (drawn - colours[0])
    return mixed


def _lighter(colour: Float[np.ndarray, " 3"], share: float) -> Float[np.ndarray, " 3"]:
    mixed: Float[np.ndarray, " 3"] = colour + share * (255 - colour)
    return mixed

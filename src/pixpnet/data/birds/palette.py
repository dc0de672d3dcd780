"""The colours of one bird, mixed anew for every picture and never from its species.

Marks must stay readable on any body: the body's own paints keep to the middle of the brightness scale, dark
marks lie below it and pale marks above.
"""

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds.colors import Color, hues

_COATS = np.array(
    hues("567696 747a52 a8623e 96704a 4a8280 7c6c92 b28e52 847e78 a45654 608eb0 708c60 967c64 be785a 62688a"),
    dtype=np.float64,
)
_UNDERS = np.array(hues("f0e2c8 ecbe78 e89e70 ced6ce f4e084 e0ced8 d6e0e8 eeceb8 d4deaa"), dtype=np.float64)
_HORN = np.array(hues("eca83c 5a5456 de7440 c4a078 786c60 e6c45a"), dtype=np.float64)


def mix_palette(generator: np.random.Generator, noise: float) -> dict[str, Color]:
    """A colour for every tone; at noise 0 always the same ones.

    >>> mix_palette(np.random.default_rng(0), 0.0) == mix_palette(np.random.default_rng(1), 0.0)
    True
    """
    picks = generator.random(6)
    jitter = generator.normal(0, 12, (6, 3))
    coat_depth, under_depth, dark_share, pale_share, sameness = generator.random(5).tolist()
    # Half of the birds wear one colour on back, head and wing.
    if sameness < 0.5:
        picks[1:3] = picks[0]
        jitter[1:3] = jitter[0]
    # Marks make some species darker on average than others; the depth of the coat outweighs that.
    coats = (1 + noise * (0.5 * coat_depth - 0.27)) * _COATS
    unders = (1 - 0.25 * noise * under_depth) * _UNDERS
    mantle, head, wing = (_pick(coats, picks[i], jitter[i], noise) for i in range(3))
    under = _pick(unders, picks[3], jitter[3], noise)
    beak, leg = (_pick(_HORN, picks[i], jitter[i], noise) for i in (4, 5))
    wing = 0.86 * wing
    throat = 0.45 * under + 0.55 * np.array([246, 240, 228])
    dark = (0.10 + 0.25 * noise * dark_share) * mantle + np.array([16, 12, 14])
    cream = 0.06 + 0.34 * noise * pale_share
    pale = cream * under + (1 - cream) * np.array([253, 251, 245])
    mixed = {
        "mantle": mantle, "mantle_dark": 0.80 * mantle,
        "head": head, "head_dark": 0.70 * head, "head_light": _lighter(head, 0.14),
        "under": under, "under_dark": 0.86 * under, "throat": throat,
        "wing": wing, "wing_dark": 0.76 * wing, "wing_light": _lighter(wing, 0.16),
        "tail": 0.80 * wing, "tail_dark": 0.56 * wing, "dark": dark, "pale": pale,
        "beak": beak, "beak_dark": 0.6 * beak, "leg": leg, "leg_dark": 0.78 * leg,
        "iris": np.array([26, 20, 20]), "glint": np.array([252, 252, 250]),
    }  # fmt: skip
    colors = np.stack(list(mixed.values())).clip(0, 255).astype(np.int64).tolist()
    return {tone: (red, green, blue) for tone, (red, green, blue) in zip(mixed, colors, strict=True)}


def _pick(
    colors: Float[np.ndarray, "some 3"], pick: float, jitter: Float[np.ndarray, " 3"], noise: float
) -> Float[np.ndarray, " 3"]:
    """A colour from a list, drawn towards the first one when there is less noise."""
    drawn = colors[int(pick * len(colors))] + jitter
    mixed: Float[np.ndarray, " 3"] = colors[0] + noise * (drawn - colors[0])
    return mixed


def _lighter(color: Float[np.ndarray, " 3"], share: float) -> Float[np.ndarray, " 3"]:
    mixed: Float[np.ndarray, " 3"] = color + share * (255 - color)
    return mixed

"""The places where birds sit: a table of skies, far and near things, perches and leaves."""

from dataclasses import dataclass

from pixpnet.data.birds.colors import Color, hue, hues
from pixpnet.data.birds.stamps import StampLayer


@dataclass(frozen=True)
class Scenery:
    """A place: what is far is painted first and blurred, what is near stays sharp."""

    name: str
    sky: tuple[Color, ...]
    """Colours from the top of the picture to its bottom."""
    far: tuple[StampLayer, ...]
    near: tuple[StampLayer, ...]
    perch: str
    """`branch`, `stone` or `post`."""
    perch_color: Color
    leaves: tuple[Color, ...]
    """Colours of the leaves on the perch and in front of the bird."""
    snow: bool = False
    """Whether snow lies on the perch, and no leaf grows there."""


_WHOLE = (-0.05, 1.05)
_ALL_ROUND = (0.0, 360.0)

SCENES = (
    Scenery(
        name="sky",
        sky=hues("68a4d6 a8d0e8 e8f0f0"),
        far=(
            StampLayer("cloud", 5, (0.4, 0.9), (0.1, 0.8), hues("fafcfc ecf2f6")),
            StampLayer("hill", 3, (0.7, 1.4), (0.92, 1.05), hues("94b2a0 80a492")),
        ),
        near=(),
        perch="branch",
        perch_color=hue("785c46"),
        leaves=hues("689646 86ae54 548442"),
    ),
    Scenery(
        name="wood",
        sky=hues("96be6e 609254 3c6846"),
        far=(
            StampLayer("disc", 16, (0.12, 0.4), _WHOLE, hues("467846 78a856 366042 a8c86e")),
            StampLayer("disc", 9, (0.06, 0.16), (0.0, 0.6), hues("deeca0 c4de8c")),
        ),
        near=(StampLayer("leaf", 7, (0.12, 0.26), _WHOLE, hues("568a46 407440 78a44e"), _ALL_ROUND),),
        perch="branch",
        perch_color=hue("68503e"),
        leaves=hues("6ea44a 589042 8eb858"),
    ),
    Scenery(
        name="reeds",
        sky=hues("eee2be ced8c8 86a8b0"),
        far=(
            StampLayer("blade", 16, (0.5, 1.0), (0.85, 1.1), hues("b0aa6e 969c68 c4ba82"), (-14.0, 14.0)),
            StampLayer("ripple", 6, (0.3, 0.7), (0.8, 1.0), hues("d6e4e2 6e94a0")),
        ),
        near=(StampLayer("blade", 11, (0.4, 0.95), (0.95, 1.15), hues("808c4a a4a058 687c46"), (-18.0, 18.0)),),
        perch="post",
        perch_color=hue("8c765c"),
        leaves=hues("8c9650 74864a"),
    ),
    Scenery(
        name="snow",
        sky=hues("b0c4d6 d0dce6 ecf0f4"),
        far=(
            StampLayer("fir", 7, (0.35, 0.8), (0.9, 1.1), hues("7c969e 92a8b0 6a8690")),
            StampLayer("disc", 10, (0.02, 0.05), _WHOLE, hues("fafcfe")),
        ),
        near=(StampLayer("disc", 9, (0.012, 0.03), _WHOLE, hues("fafcfe")),),
        perch="branch",
        perch_color=hue("6c5a52"),
        leaves=hues("a8805c 926c54"),
        snow=True,
    ),
    Scenery(
        name="autumn",
        sky=hues("ecce8c d69e5c 966446"),
        far=(StampLayer("disc", 15, (0.1, 0.34), _WHOLE, hues("e2a850 c46e3e f2d082 925c42")),),
        near=(StampLayer("leaf", 7, (0.1, 0.22), _WHOLE, hues("ce7836 b25432 e2aa4a"), _ALL_ROUND),),
        perch="branch",
        perch_color=hue("5c443a"),
        leaves=hues("d6843a be5a34 e6b250"),
    ),
    Scenery(
        name="meadow",
        sky=hues("b0d4e8 d6e4c4 8cb25e"),
        far=(
            StampLayer("hill", 3, (0.8, 1.5), (0.75, 0.95), hues("96ba70 7ca662")),
            StampLayer("disc", 12, (0.04, 0.1), (0.6, 1.0), hues("f0dc78 e89696 f6f4ec")),
        ),
        near=(
            StampLayer("blade", 12, (0.2, 0.5), (0.98, 1.08), hues("6e9c46 568640 8eb254"), (-22.0, 22.0)),
            StampLayer("flower", 5, (0.06, 0.12), (0.72, 0.98), hues("f4f2ec eec854 d682a0")),
        ),
        perch="post",
        perch_color=hue("98826a"),
        leaves=hues("70a048 88b256"),
    ),
    Scenery(
        name="shore",
        sky=hues("d6e4e8 80b2c2 4c869e"),
        far=(
            StampLayer("ripple", 16, (0.25, 0.8), (0.25, 1.0), hues("c4dee2 6098ac e8f0ee")),
            StampLayer("hill", 2, (0.7, 1.2), (0.22, 0.3), hues("8a9e96 9caca6")),
        ),
        near=(StampLayer("ripple", 5, (0.12, 0.3), (0.6, 1.0), hues("daeaec")),),
        perch="stone",
        perch_color=hue("8e8a84"),
        leaves=hues("5c8260 709268"),
    ),
    Scenery(
        name="dusk",
        sky=hues("62608e ce8e8c f6c890"),
        far=(
            StampLayer("disc", 1, (0.18, 0.26), (0.4, 0.75), hues("fee8b4")),
            StampLayer("hill", 4, (0.7, 1.4), (0.85, 1.02), hues("6e587c 846682 5c4e70")),
        ),
        near=(),
        perch="branch",
        perch_color=hue("544248"),
        leaves=hues("606854 767054"),
    ),
    Scenery(
        name="blossom",
        sky=hues("c4dcec dee2e8 d6dcc4"),
        far=(StampLayer("disc", 14, (0.1, 0.26), _WHOLE, hues("f6d6de eebac8 faecec bed0a0")),),
        near=(StampLayer("flower", 8, (0.08, 0.15), _WHOLE, hues("fae2e8 f4c4d2 fcf0f0"), _ALL_ROUND),),
        perch="branch",
        perch_color=hue("70544c"),
        leaves=hues("96b464 f0becc acc074"),
    ),
)
"""All places; which one a picture shows is drawn, and independent of the species."""

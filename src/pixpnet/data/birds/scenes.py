"""The places where birds sit: a table of skies, far and near things, perches and leaves."""

from dataclasses import dataclass

from pixpnet.data.birds.canvas import Colour
from pixpnet.data.birds.stamps import Layer


@dataclass(frozen=True)
class Scene:
    """A place: what is far is painted first and blurred, what is near stays sharp."""

    name: str
    sky: tuple[Colour, ...]
    """Colours from the top of the picture to its bottom."""
    far: tuple[Layer, ...]
    near: tuple[Layer, ...]
    perch: str
    """`branch`, `stone` or `post`."""
    perch_colour: Colour
    leaves: tuple[Colour, ...]
    """Colours of the leaves on the perch and in front of the bird; none leaves the perch bare."""
    snow: bool = False
    """Whether snow lies on the perch."""


_WHOLE = (-0.05, 1.05)
_ALL_ROUND = (0.0, 360.0)

SCENES = (
    Scene(
        name="sky",
        sky=((104, 164, 214), (168, 208, 232), (232, 240, 240)),
        far=(
            Layer("cloud", 5, (0.4, 0.9), (0.1, 0.8), ((250, 252, 252), (236, 242, 246))),
            Layer("hill", 3, (0.7, 1.4), (0.92, 1.05), ((148, 178, 160), (128, 164, 146))),
        ),
        near=(),
        perch="branch",
        perch_colour=(120, 92, 70),
        leaves=((104, 150, 70), (134, 174, 84), (84, 132, 66)),
    ),
    Scene(
        name="wood",
        sky=((150, 190, 110), (96, 146, 84), (60, 104, 70)),
        far=(
            Layer("disc", 16, (0.12, 0.4), _WHOLE, ((70, 120, 70), (120, 168, 86), (54, 96, 66), (168, 200, 110))),
            Layer("disc", 9, (0.06, 0.16), (0.0, 0.6), ((222, 236, 160), (196, 222, 140))),
        ),
        near=(Layer("leaf", 7, (0.12, 0.26), _WHOLE, ((86, 138, 70), (64, 116, 64), (120, 164, 78)), _ALL_ROUND),),
        perch="branch",
        perch_colour=(104, 80, 62),
        leaves=((110, 164, 74), (88, 144, 66), (142, 184, 88)),
    ),
    Scene(
        name="reeds",
        sky=((238, 226, 190), (206, 216, 200), (134, 168, 176)),
        far=(
            Layer("blade", 16, (0.5, 1.0), (0.85, 1.1), ((176, 170, 110), (150, 156, 104), (196, 186, 130)), (-14, 14)),
            Layer("ripple", 6, (0.3, 0.7), (0.8, 1.0), ((214, 228, 226), (110, 148, 160))),
        ),
        near=(Layer("blade", 11, (0.4, 0.95), (0.95, 1.15), ((128, 140, 74), (164, 160, 88), (104, 124, 70)), (-18, 18)),),
        perch="post",
        perch_colour=(140, 118, 92),
        leaves=((140, 150, 80), (116, 134, 74)),
    ),
    Scene(
        name="snow",
        sky=((176, 196, 214), (208, 220, 230), (236, 240, 244)),
        far=(
            Layer("fir", 7, (0.35, 0.8), (0.9, 1.1), ((124, 150, 158), (146, 168, 176), (106, 134, 144))),
            Layer("disc", 10, (0.02, 0.05), _WHOLE, ((250, 252, 254),)),
        ),
        near=(Layer("disc", 9, (0.012, 0.03), _WHOLE, ((250, 252, 254),)),),
        perch="branch",
        perch_colour=(108, 90, 82),
        leaves=(),
        snow=True,
    ),
    Scene(
        name="autumn",
        sky=((236, 206, 140), (214, 158, 92), (150, 100, 70)),
        far=(
            Layer("disc", 15, (0.1, 0.34), _WHOLE, ((226, 168, 80), (196, 110, 62), (242, 208, 130), (146, 92, 66))),
        ),
        near=(Layer("leaf", 7, (0.1, 0.22), _WHOLE, ((206, 120, 54), (178, 84, 50), (226, 170, 74)), _ALL_ROUND),),
        perch="branch",
        perch_colour=(92, 68, 58),
        leaves=((214, 132, 58), (190, 90, 52), (230, 178, 80)),
    ),
    Scene(
        name="meadow",
        sky=((176, 212, 232), (214, 228, 196), (140, 178, 94)),
        far=(
            Layer("hill", 3, (0.8, 1.5), (0.75, 0.95), ((150, 186, 112), (124, 166, 98))),
            Layer("disc", 12, (0.04, 0.1), (0.6, 1.0), ((240, 220, 120), (232, 150, 150), (246, 244, 236))),
        ),
        near=(
            Layer("blade", 12, (0.2, 0.5), (0.98, 1.08), ((110, 156, 70), (86, 134, 64), (142, 178, 84)), (-22, 22)),
            Layer("flower", 5, (0.06, 0.12), (0.72, 0.98), ((244, 242, 236), (238, 200, 84), (214, 130, 160))),
        ),
        perch="post",
        perch_colour=(152, 130, 106),
        leaves=((112, 160, 72), (136, 178, 86)),
    ),
    Scene(
        name="shore",
        sky=((214, 228, 232), (128, 178, 194), (76, 134, 158)),
        far=(
            Layer("ripple", 16, (0.25, 0.8), (0.25, 1.0), ((196, 222, 226), (96, 152, 172), (232, 240, 238))),
            Layer("hill", 2, (0.7, 1.2), (0.22, 0.3), ((138, 158, 150), (156, 172, 166))),
        ),
        near=(Layer("ripple", 5, (0.12, 0.3), (0.6, 1.0), ((218, 234, 236),)),),
        perch="stone",
        perch_colour=(142, 138, 132),
        leaves=((92, 130, 96), (112, 146, 104)),
    ),
    Scene(
        name="dusk",
        sky=((98, 96, 142), (206, 142, 140), (246, 200, 144)),
        far=(
            Layer("disc", 1, (0.18, 0.26), (0.4, 0.75), ((254, 232, 180),)),
            Layer("hill", 4, (0.7, 1.4), (0.85, 1.02), ((110, 88, 124), (132, 102, 130), (92, 78, 112))),
        ),
        near=(),
        perch="branch",
        perch_colour=(84, 66, 72),
        leaves=((96, 104, 84), (118, 112, 84)),
    ),
    Scene(
        name="blossom",
        sky=((196, 220, 236), (222, 226, 232), (214, 220, 196)),
        far=(
            Layer("disc", 14, (0.1, 0.26), _WHOLE, ((246, 214, 222), (238, 186, 200), (250, 236, 236), (190, 208, 160))),
        ),
        near=(Layer("flower", 8, (0.08, 0.15), _WHOLE, ((250, 226, 232), (244, 196, 210), (252, 240, 240)), _ALL_ROUND),),
        perch="branch",
        perch_colour=(112, 84, 76),
        leaves=((150, 180, 100), (240, 190, 204), (172, 192, 116)),
    ),
)  # fmt: skip
"""All places; which one a picture shows is drawn, and independent of the species."""

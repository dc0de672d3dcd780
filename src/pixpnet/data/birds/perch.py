"""What the bird stands on, and the leaves that grow there or hang in front of the bird.

Perches have a frame of their own: the unit is the length of the bird's trunk, the origin lies between its
feet, and the frame turns with the bird.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pixpnet.data.birds.canvas import Canvas
from pixpnet.data.birds.colors import Color, hue
from pixpnet.data.birds.curves import closed_curve, path, ribbon, turn
from pixpnet.data.birds.pose import Pose
from pixpnet.data.birds.scenes import Scenery
from pixpnet.data.birds.stamps import STAMPS, place

_LEAF = 0.36
_SNOW = hue("f6f8fc")


@dataclass(frozen=True)
class _Perch:
    """Outlines in the colour of the wood or stone, and lighter ones on top."""

    body: tuple[Float[np.ndarray, "_ 2"], ...]
    shine: tuple[Float[np.ndarray, "_ 2"], ...]


def _along(x: float) -> float:
    """How far the middle of a branch lies below the feet: it sags away from the bird."""
    return 0.055 + 0.012 * x * x


def _limb(height: float, *widths: float) -> Float[np.ndarray, "vertices 2"]:
    """A stroke along the branch, some way above its middle."""
    return ribbon(
        [(x, _along(x) - height) for x in (-9.0, -6.0, -4.0, -2.5, -1.0, 0.0, 1.0, 2.5, 4.0, 6.0, 9.0)],
        widths,
    )


def _branch() -> _Perch:
    twig = ribbon(path("60,6 95,-12 130,-22"), [0.05, 0.035, 0.0])
    bark = [ribbon([(x, _along(x) - 0.02), (x + 0.22, _along(x) - 0.02)], [0.0, 0.014, 0.0]) for x in (-1.1, 0.2)]
    return _Perch(
        (_limb(0.0, 0.0, 0.16, 0.15, 0.13, 0.115, 0.10, 0.0), twig),
        (_limb(0.035, 0.0, 0.04, 0.036, 0.032, 0.03, 0.03, 0.0), *bark),
    )


def _post() -> _Perch:
    wood = np.array(path("-30,0 30,0 29,900 -29,900"))
    grain = tuple(ribbon([(x, 0.14), (x + 0.012, 0.7), (x, 1.3)], [0.0, 0.022, 0.0]) for x in (-0.17, -0.01, 0.15))
    top = closed_curve(path("-30,0 -16,-4.5 16,-4.5 30,0 16,5 -16,5"))
    return _Perch((wood,), (*grain, top))


def _stone() -> _Perch:
    rock = path("-100,90 -72,30 -40,3 5,-3 45,4 80,32 105,90 40,240 -50,240")
    top = path("-52,18 -28,5 5,1 38,6 50,16 10,12 -25,16")
    return _Perch((closed_curve(rock),), (closed_curve(top),))


_PERCHES = {"branch": _branch(), "post": _post(), "stone": _stone()}
_SNOW_CAP = _limb(0.06, 0.0, 0.10, 0.09, 0.085, 0.08, 0.07, 0.0)


def paint_perch(generator: np.random.Generator, canvas: Canvas, scene: Scenery, pose: Pose) -> None:
    """Paint the perch of a scene under the feet of a bird."""
    side, thickness, *leaves = generator.uniform(-1, 1, 6).tolist()
    stretch = np.diag([pose.unit if side > 0 else -pose.unit, pose.unit * (1 + 0.2 * thickness)])
    linear = stretch @ turn(pose.tilt).T
    perch = _PERCHES[scene.perch]
    light = _blend(scene.perch_color, hue("fff4e0"), 0.3)
    for outline in perch.body:
        canvas.fill(canvas.fixed(outline @ linear + pose.feet), scene.perch_color)
    for outline in perch.shine:
        canvas.fill(canvas.fixed(outline @ linear + pose.feet), light)
    if scene.snow:
        canvas.fill(canvas.fixed(_SNOW_CAP @ linear + pose.feet), _SNOW)
    elif scene.perch == "branch":
        along = [(0.75 + 0.35 * leaf) * (-1) ** number for number, leaf in enumerate(leaves)]
        stems = np.array([(x, _along(x)) for x in along]) @ linear + pose.feet
        _paint_leaves(generator, canvas, scene, stems, _LEAF * pose.unit)


def paint_sprig(generator: np.random.Generator, canvas: Canvas, scene: Scenery, pose: Pose) -> None:
    """Paint three leaves in front of some part of a bird."""
    angle, distance = 2 * np.pi * generator.random(), 0.2 + 0.55 * generator.random()
    stem = pose.maps["trunk"][:, 2] + pose.unit * distance * np.array([np.cos(angle), np.sin(angle)])
    _paint_leaves(generator, canvas, scene, np.stack([stem] * 3), _LEAF * pose.unit)


def _paint_leaves(
    generator: np.random.Generator,
    canvas: Canvas,
    scene: Scenery,
    stems: Float[np.ndarray, "leaves 2"],
    length: float,
) -> None:
    """Leaves with their midribs, in any direction."""
    draws = generator.random((4, len(stems)))
    lengths, degrees, mirrored = length * (0.7 + 0.45 * draws[0]), 360 * draws[1], draws[2] < 0.5
    blades, ribs = (canvas.fixed(place(STAMPS[stamp], stems, lengths, degrees, mirrored)) for stamp in ("leaf", "rib"))
    for blade, rib, pick in zip(blades, ribs, draws[3].tolist(), strict=True):
        color = scene.leaves[int(pick * len(scene.leaves))]
        canvas.fill(blade, color)
        canvas.fill(rib, _blend(color, hue("1e2814"), 0.3))


def _blend(first: Color, second: Color, share: float) -> Color:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue

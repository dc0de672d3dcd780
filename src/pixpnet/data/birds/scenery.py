"""Everything around the bird: background, clutter, perch, and the sprig that may cover it in part.

Frame: `pixel`. Nothing here knows the species.
"""

import cv2
import numpy as np
from jaxtyping import Float, UInt8

from pixpnet.data.birds.canvas import Canvas, Colour
from pixpnet.data.birds.curves import closed_curve, ribbon, turn
from pixpnet.data.birds.pose import Pose
from pixpnet.data.birds.scenes import SCENES, Scene
from pixpnet.data.birds.stamps import STAMPS, Layer, scatter

_FAR_BITS = 4
_DISTRACTORS = (
    ("leaf", 0.10, 0.24, ("mantle", "wing", "under", "head", "dark")),
    ("disc", 0.03, 0.07, ("dark", "pale", "beak", "leg", "under")),
    ("blade", 0.20, 0.45, ("dark", "pale", "tail", "mantle")),
)


def choose_scene(generator: np.random.Generator) -> Scene:
    """One of `SCENES`, all equally likely.

    >>> choose_scene(np.random.default_rng(0)) in SCENES
    True
    """
    return SCENES[int(generator.integers(len(SCENES)))]


def paint_background(
    generator: np.random.Generator, scene: Scene, size: tuple[int, int]
) -> UInt8[np.ndarray, "rows cols 3"]:
    """The far part of a scene, out of focus.

    >>> paint_background(np.random.default_rng(0), SCENES[0], (48, 64)).shape
    (48, 64, 3)
    """
    rows, cols = size
    stops = np.asarray(scene.sky, dtype=np.float64) + generator.normal(0, 6, (1, 3))
    heights = np.linspace(0, 1, rows) + 0.16 * (generator.random() - 0.5)
    at = np.linspace(0, 1, len(stops))
    column = np.stack([np.interp(heights, at, stops[:, channel]) for channel in range(3)], axis=1)
    picture = np.ascontiguousarray(np.broadcast_to(column.clip(0, 255).astype(np.uint8)[:, None], (rows, cols, 3)))
    for layer in scene.far:
        copies = scatter(generator, layer, size, layer.count)
        fixed = np.rint(copies.outlines * (1 << _FAR_BITS)).astype(np.int32)
        for outline, colour in zip(fixed, copies.colours, strict=True):
            cv2.fillPoly(picture, [outline], colour, shift=_FAR_BITS)
    width = max(1, round(0.02 * min(rows, cols))) * 2 + 1
    # Two box filters in a row: close to a Gaussian, and a tenth of its price.
    return np.asarray(cv2.blur(cv2.blur(picture, (width, width)), (width, width)))


def paint_clutter(
    generator: np.random.Generator, canvas: Canvas, scene: Scene, size: tuple[int, int], paints: dict[str, Colour], amount: float
) -> None:
    """The near part of a scene, and leaves, berries and blades in the colours of the bird."""
    for layer in scene.near:
        copies = scatter(generator, layer, size, layer.count)
        canvas.fill_all(canvas.fixed(copies.outlines), copies.colours)
    for stamp, small, large, tones in _DISTRACTORS:
        band, angle = ((0.9, 1.1), (-25.0, 25.0)) if stamp == "blade" else ((-0.02, 1.02), (0.0, 360.0))
        layer = Layer(stamp, 0, (small, large), band, tuple(paints[tone] for tone in tones), angle)
        copies = scatter(generator, layer, size, round(amount * (1 + 3 * generator.random())))
        canvas.fill_all(canvas.fixed(copies.outlines), copies.colours)


def paint_perch(generator: np.random.Generator, canvas: Canvas, scene: Scene, pose: Pose, size: tuple[int, int]) -> None:
    """What the bird stands on."""
    bend, sag, where, thick = generator.uniform(-1, 1, 4).tolist()
    if scene.perch == "branch":
        reach = 2.2 * max(size) / pose.unit
        knots = [(-reach, 0.25 * bend), (-0.5, 0.03 * sag), (0.5, 0.02), (reach, 0.2 * sag)]
        width = 0.13 + 0.03 * thick
        bark = [ribbon(knots, [0.8 * width, width, width, 0.7 * width], 8)]
        above = [(x, y - 0.28 * width) for x, y in knots]
        shine = [ribbon(above, [0.25 * width] * 4, 8)]
        offset = width / 2
    elif scene.perch == "post":
        x = 0.06 * where
        bark = [closed_curve([(x - 0.30, 0.0), (x - 0.30, 0.0), (x + 0.30, 0.0), (x + 0.30, 0.0), (x + 0.27, 4.0), (x - 0.27, 4.0)])]
        shine = [closed_curve([(x - 0.30, 0.0), (x - 0.1, -0.035), (x + 0.1, -0.035), (x + 0.30, 0.0), (x, 0.05)])]
        shine += [ribbon([(x + dx, 0.12), (x + dx + 0.01, 1.2)], [0.02, 0.02]) for dx in (-0.17, -0.02, 0.14)]
        offset = 0.0
    else:
        bark = [closed_curve([(-0.75, 0.5), (-0.6, 0.12), (-0.3, 0.0), (0.1, -0.02), (0.42, 0.03), (0.7, 0.25), (0.85, 0.7), (0.4, 1.6), (-0.5, 1.6)])]
        shine = [closed_curve([(-0.5, 0.12), (-0.2, 0.04), (0.2, 0.03), (0.36, 0.08), (0.1, 0.13), (-0.25, 0.14)])]
        offset = 0.0
    colour = scene.perch_colour
    light: Colour = (246, 248, 252) if scene.snow else _blend(colour, (255, 244, 224), 0.3)
    if scene.snow:
        shine = [ribbon([(x, y - 0.42 * width) for x, y in knots], [0.55 * width] * 4, 8)]
    turned = turn(pose.tilt)
    place = lambda outline: canvas.fixed((outline + (0, offset)) @ turned.T * pose.unit + pose.feet)  # noqa: E731
    for outline in bark:
        canvas.fill(place(outline), colour)
    for outline in shine:
        canvas.fill(place(outline), light)
    if scene.perch == "branch" and scene.leaves:
        for x in np.concatenate([generator.uniform(-1.1, -0.45, 2), generator.uniform(0.45, 1.1, 2)]).tolist():
            _leaf(generator, canvas, scene, place_point(pose, x, offset), 0.36 * pose.unit)


def place_point(pose: Pose, x: float, y: float) -> Float[np.ndarray, " 2"]:
    """A point on the perch, in pixels."""
    moved: Float[np.ndarray, " 2"] = turn(pose.tilt) @ (x, y) * pose.unit + pose.feet
    return moved


def paint_sprig(generator: np.random.Generator, canvas: Canvas, scene: Scene, pose: Pose) -> None:
    """A few leaves or blades in front of the bird."""
    angle, distance = generator.uniform(0, 2 * np.pi), generator.uniform(0.2, 0.75)
    middle = pose.maps["trunk"][:, 2] + pose.unit * distance * np.array([np.cos(angle), np.sin(angle)])
    for _ in range(2):
        _leaf(generator, canvas, scene, middle, 0.34 * pose.unit)


def _leaf(
    generator: np.random.Generator, canvas: Canvas, scene: Scene, stem: Float[np.ndarray, " 2"], length: float
) -> None:
    """A leaf with its midrib, in any direction."""
    colours = scene.leaves or ((222, 230, 236), (122, 104, 96))
    colour = colours[int(generator.integers(len(colours)))]
    heading = turn(generator.uniform(0, 360)) * length * generator.uniform(0.7, 1.15)
    canvas.fill(canvas.fixed(STAMPS["leaf"] @ heading.T + stem), colour)
    rib = ribbon([(0.0, 0.0), (0.9, 0.0)], [0.04, 0.01], 2)
    canvas.fill(canvas.fixed(rib @ heading.T + stem), _blend(colour, (30, 40, 20), 0.3))


def _blend(first: Colour, second: Colour, share: float) -> Colour:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue

"""Draw one bird: a picture, and what is where in it.

Everything random comes from (seed, index) alone, in one stream per concern. So a picture is the same on every
machine and in every order; a nuisance can be changed without touching the others; and the same seed and index
with another species shows the same bird in the same place with other parts.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from pixpnet.data.birds.background import choose_scene, paint_background, paint_clutter
from pixpnet.data.birds.canvas import SCENERY, Canvas
from pixpnet.data.birds.confounder import mark
from pixpnet.data.birds.light import draw_light, illuminate
from pixpnet.data.birds.options import BirdOptions
from pixpnet.data.birds.palette import mix_palette
from pixpnet.data.birds.perch import paint_perch, paint_sprig
from pixpnet.data.birds.pose import draw_pose
from pixpnet.data.birds.species import PARTS, SPECIES
from pixpnet.data.birds.template import template

_CONCERNS = {name: number for number, name in enumerate(("bird", "scene", "clutter", "perch", "sprig", "confounder"))}
_FINENESS = 3
_DEFAULTS = BirdOptions()
_LABELS = np.arange(1, len(PARTS) + 1, dtype=np.uint8)[:, None, None]


@dataclass(frozen=True)
class Drawing:
    """A drawn bird. Part axes are in the order of `PARTS`."""

    image: UInt8[np.ndarray, "rows cols 3"]
    species: int
    """Place in `SPECIES`: the label."""
    masks: Bool[np.ndarray, "parts rows cols"]
    """The visible pixels of each part; a pixel belongs to what covers its centre, so masks are disjoint."""
    keypoints: Float32[np.ndarray, "parts 2"]
    """(x, y) of each part, also of hidden ones and of those outside the picture. Whole numbers are pixel
    centres, as in torchvision's `KeyPoints` (whose flip is W - 1 - x)."""
    visible: Bool[np.ndarray, " parts"]
    """Whether the keypoint itself is seen: its pixel, (x, y) rounded, lies in the part's mask. A part whose
    keypoint is covered or cropped may still show some pixels."""
    bird_mask: Bool[np.ndarray, "rows cols"]
    """The visible pixels of the bird: the union of all masks."""
    box: tuple[int, int, int, int]
    """`y0, x0, y1, x1`, half-open, around the visible bird."""
    confounder_mask: Bool[np.ndarray, "rows cols"] | None
    """The pixels of the confounding mark; None when there is none."""


def draw_bird(
    seed: int,
    index: int,
    species: int,
    size: tuple[int, int] = (96, 96),
    options: BirdOptions = _DEFAULTS,
) -> Drawing:
    """Draw a bird; equal arguments give equal drawings.

    Args:
        seed: Names a world; together with `index` it decides everything but the species.
        index: Number of the picture within the world, from 0 to as many as you like.
        species: Place in `SPECIES`.
        size: Rows and columns of the picture.
        options: How much varies.

    Raises:
        ValueError: When an argument is out of its range.

    >>> drawing = draw_bird(seed=0, index=17, species=3)
    >>> drawing.image.shape, drawing.masks.shape
    ((96, 96, 3), (10, 96, 96))
    """
    _check(seed, index, species, size)

    def stream(concern: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index, _CONCERNS[concern]])))

    # These three take the same numbers from the stream whatever the options.
    own = stream("bird")
    pose = draw_pose(own, size, options)
    paints = mix_palette(own, options.color)
    light = draw_light(own, options.light)
    scenic = stream("scene")
    scene = choose_scene(scenic)
    canvas = Canvas.over(paint_background(scenic, scene, size), _FINENESS)
    paint_clutter(stream("clutter"), canvas, scene, paints, options.clutter)
    paint_perch(stream("perch"), canvas, scene, pose)

    bird = template(SPECIES[species])
    points = canvas.fixed(pose.points(bird))
    for piece in bird.pieces:
        canvas.fill(points[piece.start : piece.stop], paints[piece.tone], piece.label)
    front = stream("sprig")
    if front.random() < options.occlusion:
        paint_sprig(front, canvas, scene, pose)

    finished = canvas.finish()
    labels = finished.labels
    image = illuminate(finished, light, pose.unit)
    masks = labels == _LABELS
    bird_mask = labels != SCENERY
    confounder_mask = None
    corner = stream("confounder")
    if corner.random() < options.confounder:
        marked = mark(corner, image, bird_mask, species)
        image, confounder_mask = marked.image, marked.mask
    keypoints = pose.keypoints(bird).astype(np.float32)
    return Drawing(
        image=image,
        species=species,
        masks=masks,
        keypoints=keypoints,
        visible=_seen(keypoints, labels),
        bird_mask=bird_mask,
        box=_box(bird_mask),
        confounder_mask=confounder_mask,
    )


def _check(seed: int, index: int, species: int, size: tuple[int, int]) -> None:
    if seed < 0 or index < 0:
        raise ValueError(f"seed is {seed} and index {index}; give numbers from 0 up")
    if not 0 <= species < len(SPECIES):
        raise ValueError(f"species is {species}; give a place in SPECIES, from 0 to {len(SPECIES) - 1}")
    if min(size) < 16:
        raise ValueError(f"size is {size}; a bird needs at least 16 rows and 16 columns")


def _seen(
    keypoints: Float32[np.ndarray, "parts 2"], labels: UInt8[np.ndarray, "rows cols"]
) -> Bool[np.ndarray, " parts"]:
    rows, cols = labels.shape
    x, y = np.rint(keypoints).astype(np.int64).T
    inside = (x >= 0) & (x < cols) & (y >= 0) & (y < rows)
    seen: Bool[np.ndarray, " parts"] = inside & (labels[y.clip(0, rows - 1), x.clip(0, cols - 1)] == _LABELS[:, 0, 0])
    return seen


def _box(mask: Bool[np.ndarray, "rows cols"]) -> tuple[int, int, int, int]:
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(ys[0]), int(xs[0]), int(ys[-1]) + 1, int(xs[-1]) + 1

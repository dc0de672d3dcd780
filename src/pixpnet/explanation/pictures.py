"""Pictures for notebooks, figures and pages, in network pixels: the image of an explanation, and a prototype's own."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image

from pixpnet.box import Box, hull
from pixpnet.explanation.record import Explanation, Term
from pixpnet.model import Origin

GRAY = (222, 225, 230)


def image_pixels(explanation: Explanation) -> UInt8[np.ndarray, "height width 3"]:
    """The image of an explanation as the network saw it."""
    return np.frombuffer(explanation.pixels, np.uint8).reshape(*explanation.size, 3)


def prototype_pixels(term: Term, size: tuple[int, int]) -> UInt8[np.ndarray, "height width 3"]:
    """The training image that a term's prototype was taken from; see `training_pixels`."""
    crop = None if term.crop is None else Path(term.crop)
    picture = None if term.picture is None else Path(term.picture)
    return training_pixels(term.origin, crop, picture, size)


def training_pixels(
    origin: Origin | None, crop: Path | None, picture: Path | None, size: tuple[int, int]
) -> UInt8[np.ndarray, "height width 3"]:
    """The training image around a prototype, as far as there are pictures of it.

    Args:
        origin: of the prototype.
        crop: the picture of what its cell saw, shown in its place on grey if the whole image is not there.
        picture: the whole training image in the network's pixels. A damaged picture counts as a missing one.
        size: height and width of the grey canvas.
    """
    whole = _read(picture, "RGB")
    if whole is not None:
        return np.asarray(whole)
    around = None if origin is None else origin.hull
    height, width = size if around is None else (max(size[0], around.y1), max(size[1], around.x1))
    canvas = Image.new("RGB", (width, height), GRAY)
    seen = _read(crop, "RGBA")
    if around is not None and seen is not None:
        canvas.paste(seen, (around.x0, around.y0), seen)
    return np.asarray(canvas)


def cut_out(
    pixels: UInt8[np.ndarray, "height width 3"], region: Sequence[Box]
) -> UInt8[np.ndarray, "rows cols 3"] | None:
    """The hull of a region with its holes whited out; None for the empty region."""
    around = hull(region)
    if around is None:
        return None
    y0, x0, y1, x1 = around
    shown = np.full_like(pixels, 255)
    seen = mask(region, (pixels.shape[0], pixels.shape[1]))
    shown[seen] = pixels[seen]
    return shown[y0:y1, x0:x1]


def mask(region: Sequence[Box], size: tuple[int, int]) -> Bool[np.ndarray, "height width"]:
    """True at the pixels of a region."""
    seen = np.zeros(size, bool)
    for y0, x0, y1, x1 in region:
        seen[y0:y1, x0:x1] = True
    return seen


def _read(path: Path | None, mode: str) -> Image.Image | None:
    if path is None:
        return None
    try:
        with Image.open(path) as file:
            return file.convert(mode)
    except (OSError, ValueError, SyntaxError):  # missing, damaged, or a broken PNG, as Pillow says it
        return None

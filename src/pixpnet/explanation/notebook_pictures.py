"""The pictures of an explanation in a notebook: small JPEGs in data URIs, so that the piece stays small."""

import base64
from collections.abc import Sequence
from io import BytesIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from pixpnet.box import Box
from pixpnet.explanation.pictures import cut_out, image_pixels, prototype_pixels
from pixpnet.explanation.record import Explanation, Term
from pixpnet.markup import escaped, mark

_LONGEST = 320
"""Of the whole picture: it is shown no larger."""
_LONGEST_CROP = 144
_LONGEST_SOURCE = 176
_QUALITY = 85


def whole(explanation: Explanation, regions: Sequence[Sequence[Box]], alt: str) -> str:
    """The image as the network saw it, with the outlines of regions, the first one on top."""
    marks = [
        mark(region, number, str(number + 1), explanation.size) for number, region in reversed(list(enumerate(regions)))
    ]
    return _outlined(image_pixels(explanation), marks, _LONGEST, alt)


def this_part(explanation: Explanation, term: Term, width: int) -> str:
    """What the term's cell sees of the image, and nothing else; a word where that is only padding."""
    pixels = cut_out(image_pixels(explanation), term.region)
    return _crop(pixels, width, "the part of this picture", "sees padding only")


def that_part(explanation: Explanation, term: Term, width: int) -> str:
    """What the prototype's own cell saw, as far as there is a picture of it; else a word that says why not."""
    if term.origin is None:
        return _crop(None, width, "", "not a training patch")
    if term.crop is None and term.picture is None:
        return _crop(None, width, "", "its picture is not here")
    pixels = cut_out(prototype_pixels(term, explanation.size), term.origin.boxes)
    return _crop(pixels, width, f"the part it looks like, prototype {term.prototype}", "saw padding only")


def training_image(explanation: Explanation, term: Term, number: int) -> str:
    """The training image that the prototype is from, its region outlined; empty where there is no picture of it."""
    if term.origin is None or term.picture is None:
        return ""
    pixels = prototype_pixels(term, explanation.size)
    height, width = pixels.shape[:2]
    outline = mark(term.origin.boxes, number, "", (height, width))
    return _outlined(pixels, [outline], _LONGEST_SOURCE, f"training image {term.origin.image}")


def _outlined(pixels: UInt8[np.ndarray, "height width 3"], marks: Sequence[str], longest: int, alt: str) -> str:
    height, width = pixels.shape[:2]
    scale = longest / max(height, width)
    return (
        f'<svg class="shot" width="{width * scale:.0f}" height="{height * scale:.0f}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escaped(alt)}"><image width="{width}" height="{height}" '
        f'href="{_jpeg(pixels, longest)}"/>{"".join(marks)}</svg>'
    )


def _crop(pixels: UInt8[np.ndarray, "rows cols 3"] | None, width: int, alt: str, otherwise: str) -> str:
    """A crop in a square of this width, in CSS pixels; words where there is nothing to show."""
    if pixels is None:
        return f'<span class="crop none muted" style="width:{width}px;height:{width}px">{otherwise}</span>'
    source = _jpeg(pixels, _LONGEST_CROP)
    return (
        f'<img class="crop" src="{source}" width="{width}" height="{width}" alt="{escaped(alt)}" '
        'style="object-fit:contain">'
    )


def _jpeg(pixels: UInt8[np.ndarray, "height width 3"], longest: int) -> str:
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    file = BytesIO()
    image.save(file, format="jpeg", quality=_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"

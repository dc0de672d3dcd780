"""What a page holds once and shows often: pictures as data URIs and outlines of regions, each under an id.

A *shot* is one showing: a picture by its id, the part of it that is in view, and the outlines on it. So a training
image that five prototypes come from, or the crop beside the whole, costs its bytes once.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from pixpnet.box import Box, hull
from pixpnet.views.outline import svg_path

_QUALITY = 90


@dataclass(frozen=True)
class Picture:
    """An image to embed, in the `pixel` frame."""

    id: str
    uri: str
    height: int
    width: int


@dataclass(frozen=True)
class Outline:
    """A region to embed."""

    id: str
    path: str


@dataclass(frozen=True)
class Mark:
    """An outline on a shot.

    Attributes:
        outline: its id.
        style: which colour.
        group: which highlight it answers to.
        words: the numbers printed on it; empty for none.
        x: left side of their tag, in the `pixel` frame.
        y: its top.
        width: of the tag.
        height: of the tag.
        dashed: where the colours had to be used again.
    """

    outline: str
    style: int
    group: int
    words: str = ""
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    dashed: bool = False


@dataclass(frozen=True)
class Shot:
    """One showing of a picture.

    Attributes:
        picture: its id.
        view: what is in view.
        alt: what it shows, for people who do not see it.
        marks: outlines on it.
        clip: id of the region that alone is painted; empty to paint everything in view.
    """

    picture: str
    view: Box
    alt: str
    marks: tuple[Mark, ...] = ()
    clip: str = ""


class Stock:
    """Collects the pictures and outlines of one page.

    Args:
        longest: pictures are made smaller until no side is longer; what is shown on them stays in network pixels.
    """

    def __init__(self, longest: int = 256) -> None:
        self.pictures: dict[str, Picture] = {}
        self.outlines: dict[tuple[Box, ...], Outline] = {}
        self._longest = longest

    def picture(self, pixels: UInt8[np.ndarray, "height width 3"]) -> Picture:
        """Takes in a picture; the same pixels are taken in once."""
        key = blake2b(pixels.tobytes() + str(pixels.shape).encode(), digest_size=8).hexdigest()
        if key not in self.pictures:
            height, width = pixels.shape[:2]
            image = Image.fromarray(np.ascontiguousarray(pixels))
            image.thumbnail((self._longest, self._longest), Image.Resampling.LANCZOS)
            file = BytesIO()
            image.save(file, format="jpeg", quality=_QUALITY, optimize=True)
            uri = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
            self.pictures[key] = Picture(f"i{len(self.pictures)}", uri, height, width)
        return self.pictures[key]

    def outline(self, region: Sequence[Box]) -> str:
        """Takes in a region and gives its id."""
        key = tuple(region)
        if key not in self.outlines:
            self.outlines[key] = Outline(f"r{len(self.outlines)}", svg_path(key))
        return self.outlines[key].id

    def whole(self, picture: Picture, alt: str, marks: Sequence[Mark] = ()) -> Shot:
        """All of a picture."""
        return Shot(picture.id, Box(0, 0, picture.height, picture.width), alt, tuple(marks))

    def part(self, picture: Picture, region: Sequence[Box], alt: str) -> Shot | None:
        """What a cell sees of a picture; None where it sees nothing."""
        view = hull(region)
        if view is None:
            return None
        return Shot(picture.id, view, alt, clip=self.outline(region) if len(region) > 1 else "")

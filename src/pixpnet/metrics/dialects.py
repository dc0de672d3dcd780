"""Consistency and stability in two published dialects, by name: figures of one say nothing about figures of the other.

| | `evalprotopnet` (most papers) | `pixpnet` (the PixPNet paper) |
|---|---|---|
| parts | every annotated point, left and right apart (15 of CUB) | left and right are one part (12 of CUB) |
| images | cropped to the object's box, stretched to the network's input | as the network sees them |
| window | 36 px to every side of the bicubic map's largest pixel | 72 px around the middle of what a mapping claims |
| noise | N(0, 0.2) in normalised space, clipped to +-0.25 | N(0, 0.2), not clipped |

Pixels are those of an image of 224 x 224, and scaled with the image. Both saturate: a large window finds a part nearly
always, and prototypes that all collapsed into one score well; so beside them stand the exact field, purity,
distinctiveness, and how many prototypes are distinct.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pixpnet.data import Entry, Preprocessing
from pixpnet.data.catalog import Reader
from pixpnet.data.loader import PlainSamples
from pixpnet.data.reader import CroppedToBox, WithoutMasks
from pixpnet.metrics.naming import known_name
from pixpnet.metrics.part_hits import scaled_window_side
from pixpnet.metrics.part_scores import PartScores, RegionKind, scores_by_region
from pixpnet.model import PixPNet
from pixpnet.progress import Progress

DialectName = Literal["evalprotopnet", "pixpnet"]


@dataclass(frozen=True)
class Dialect:
    """How a paper measures consistency and stability.

    Attributes:
        name: of the dialect.
        sides_apart: whether left and right are different parts.
        crop_to_box: whether images are cropped to the object's box, and stretched to the network's input.
        mapping: from cells to pixels.
        region: which pixels a prototype is taken to have found.
        noise_limit: the largest that noise may be; None for no limit.
    """

    name: DialectName
    sides_apart: bool
    crop_to_box: bool
    mapping: str
    region: RegionKind
    noise_limit: float | None

    def point_parts(self, point_parts: Sequence[int]) -> tuple[int, ...]:
        """The part of each point."""
        return tuple(range(len(point_parts))) if self.sides_apart else tuple(point_parts)

    def preprocessing(self, own: Preprocessing) -> Preprocessing:
        """From a file to the network's input."""
        return own.framed("stretch") if self.crop_to_box else own

    def samples(self, entries: Sequence[Entry], reader: Reader, own: Preprocessing) -> PlainSamples:
        """Images as this dialect shows them to the network."""
        shown = CroppedToBox(reader) if self.crop_to_box else WithoutMasks(reader)
        return PlainSamples(entries, shown, self.preprocessing(own))


DIALECTS: dict[DialectName, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect("evalprotopnet", True, True, "upsampling", "argmax", 0.25),
        Dialect("pixpnet", False, False, "field", "window", None),
    )
}


@dataclass(frozen=True)
class DialectScores:
    """Consistency and stability in one dialect.

    Attributes:
        published: in the dialect's own region.
        field: everything the same, in the exact field of the cell that speaks.
    """

    published: PartScores
    field: PartScores


def dialect_scores(
    model: PixPNet,
    entries: Sequence[Entry],
    reader: Reader,
    point_parts: Sequence[int],
    dialect: DialectName = "evalprotopnet",
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> DialectScores:
    """Consistency and stability as a paper measures them, and the same in the exact field.

    Args:
        model: in eval mode.
        entries: of images with parts (and boxes, where the dialect crops).
        reader: of the entries.
        point_parts: the part of each point, as the data set says.
        dialect: whose rules.
        seed: of noise and intervals.
        progress: told how many samples are done, of how many.

    Raises:
        ValueError: if the model is in training mode, or the dialect is unknown.
        ImageError: if an image has no box and the dialect crops to it.
    """
    rules = DIALECTS[known_name("dialect", dialect, DIALECTS)]
    published, field = scores_by_region(
        model,
        rules.samples(entries, reader, model.preprocessing),
        rules.point_parts(point_parts),
        rules.mapping,
        (rules.region, "field"),
        window_side=scaled_window_side(model.preprocessing.size),
        noise_limit=rules.noise_limit,
        seed=seed,
        progress=progress,
    )
    return DialectScores(published, field)

"""Which pixels an attack may not touch: the published box around the enlarged map's top, or the exact field."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from pixpnet.box import Box
from pixpnet.mapping.upsampling import top_boxes
from pixpnet.metrics.misalignment.attacks import similarity_map
from pixpnet.metrics.naming import known_name
from pixpnet.metrics.part_hits import Region, scaled_side
from pixpnet.metrics.regions import union_mask
from pixpnet.model import PixPNet
from pixpnet.parts import Matches

Protection = Literal["box", "field"]
PROTECTIONS: tuple[Protection, ...] = get_args(Protection)


def protection_named(name: str) -> Protection:
    """A protection by its name.

    Raises:
        ValueError: if there is none.
    """
    return known_name("protection", name, PROTECTIONS)


def protected_mask(
    model: PixPNet,
    matches: Matches,
    image: int,
    prototypes: Sequence[int],
    size: tuple[int, int],
    protection: Protection,
    margin: int,
) -> Bool[Tensor, "height width"]:
    """The pixels that belong to at least one of some prototypes in one image of a batch.

    Args:
        model: in eval mode.
        matches: of the batch, as the images were before the attack.
        image: its place in the batch.
        prototypes: that are attacked.
        size: height and width of the image.
        protection: `box`: the bounding box of all pixels of the bicubic map at or above their 95th percentile, grown by
            the margin; `field`: the exact field of the cell that speaks.
        margin: of the box, in pixels of an image of 224 x 224; scaled with the image.
    """
    region = published_box if protection == "box" else exact_field
    grown = scaled_side(margin, max(size)) if margin else 0
    return union_mask([region(model, matches, image, prototype, size, grown) for prototype in prototypes], size)


def published_box(
    model: PixPNet, matches: Matches, image: int, prototype: int, size: tuple[int, int], margin: int
) -> Region:
    """The bounding box of the top 5 % of the bicubic map, grown on every side and cut to the image."""
    similarities = similarity_map(model, matches, image, prototype)
    enlarged = F.interpolate(similarities[None, None], size, mode="bicubic", align_corners=False)[0]
    (box,) = top_boxes(enlarged)
    return (
        Box(
            max(box.y0 - margin, 0),
            max(box.x0 - margin, 0),
            min(box.y1 + margin, size[0]),
            min(box.x1 + margin, size[1]),
        ),
    )


def exact_field(
    model: PixPNet, matches: Matches, image: int, prototype: int, size: tuple[int, int], margin: int = 0
) -> Region:
    """What the cell that speaks for a prototype sees; it has no margin."""
    grid = model.grid_of(prototype)
    row, col = matches.cells[image, prototype].tolist()
    places = matches.grids[grid.number].places_at(image, (row, col))
    return grid.comparison.region((row, col), model.fields_at(size)[grid.number], places)


def highest_pixels(similarities: Tensor, size: tuple[int, int], quantile: float = 0.9) -> Bool[Tensor, "height width"]:
    """The pixels of the bilinear map strictly above its quantile: what the location change (PLC) compares."""
    enlarged = F.interpolate(similarities[None, None], size, mode="bilinear", align_corners=False)[0, 0]
    return enlarged > torch.quantile(enlarged.flatten(), quantile)

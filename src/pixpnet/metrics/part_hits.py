"""Which parts of an object lie in a region: what consistency and stability compare (Sec. 5, App. J).

All in the `pixel` frame. Keypoints are continuous, so a point lies in a box when the pixel that holds it does. A part
with several points (left and right eye) is visible when one of them is, and hit when a visible one lies in the region;
a point that is hidden or cropped away neither counts for nor against.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from pixpnet.box import Box, hull

Region: TypeAlias = tuple[Box, ...]

PUBLISHED_IMAGE_SIDE = 224
WINDOW_SIDE = 72
"""The published window, in pixels of an image of 224 x 224."""


@dataclass(frozen=True)
class PartHits:
    """Parts of one sample against the regions of some prototypes.

    Attributes:
        hit: which parts lie in each region (the paper's o); False for all that are not visible.
        visible: which parts can be seen at all (the paper's u).
    """

    hit: Bool[Tensor, "protos parts"]
    visible: Bool[Tensor, " parts"]


def part_hits(
    regions: Sequence[Region],
    keypoints: Float[Tensor, "points 2"],
    visible: Bool[Tensor, " points"],
    point_parts: Sequence[int],
) -> PartHits:
    """Folds the points of one sample into parts and looks which of them lie in each region.

    Args:
        regions: one for each prototype, as disjoint boxes; none for an empty field.
        keypoints: x and y of each point.
        visible: which of them count.
        point_parts: the part of each point.

    Raises:
        ValueError: if there are not as many points as `point_parts` names.

    Example:
        >>> eyes_and_tail, seen = torch.tensor([[1.5, 1.5], [9.0, 9.0], [5.0, 2.0]]), torch.tensor([True, False, True])
        >>> found = part_hits([(Box(0, 0, 4, 4),)], eyes_and_tail, seen, point_parts=(0, 0, 1))
        >>> found.hit.tolist(), found.visible.tolist()
        ([[True, False]], [True, True])
    """
    if not len(keypoints) == len(visible) == len(point_parts):
        raise ValueError(
            f"{len(keypoints)} keypoints, but point_parts names the parts of {len(point_parts)}: give the point_parts "
            "of the data set that the sample comes from"
        )
    points = keypoints.as_subclass(Tensor)
    inside = [points_inside(region, points) & visible for region in regions]
    hit = torch.stack(inside) if inside else visible.new_zeros(0, len(point_parts))
    return PartHits(fold(hit, point_parts), fold(visible, point_parts))


def points_inside(region: Region, points: Float[Tensor, "points 2"]) -> Bool[Tensor, " points"]:
    """Which points (x, y) lie in a region."""
    boxes = torch.tensor(region, dtype=points.dtype, device=points.device).reshape(-1, 4)
    start, stop = boxes[:, None, [1, 0]], boxes[:, None, [3, 2]]
    return ((points >= start) & (points < stop)).all(dim=-1).any(dim=0)


def fold(points: Bool[Tensor, "*any points"], point_parts: Sequence[int]) -> Bool[Tensor, "*any parts"]:
    """From points to parts: whether any point of a part is.

    >>> fold(torch.tensor([False, True, False]), point_parts=(0, 0, 1)).tolist()
    [True, False]
    """
    belongs = torch.zeros(len(point_parts), part_count(point_parts), device=points.device)
    belongs[torch.arange(len(point_parts)), list(point_parts)] = 1
    return points.float() @ belongs > 0


def part_count(point_parts: Sequence[int]) -> int:
    """How many parts the points belong to."""
    return 1 + max(point_parts, default=-1)


def scaled_window_side(image_side: int) -> int:
    """The published window's share of the image, for images of another size than 224 x 224.

    >>> scaled_window_side(224), scaled_window_side(96)
    (72, 31)
    """
    return scaled_side(WINDOW_SIDE, image_side)


def scaled_side(published: int, image_side: int) -> int:
    """A side that is meant for images of 224 x 224, in images of another size; one pixel at least.

    >>> scaled_side(32, 224), scaled_side(32, 96)
    (32, 14)
    """
    return max(1, round(published * image_side / PUBLISHED_IMAGE_SIDE))


def window(region: Region, size: tuple[int, int], side: int = WINDOW_SIDE) -> Region:
    """The square around the middle of a region's hull, as published: the same size whatever the network sees.

    It is cut to the image, which changes nothing, since no visible point lies outside. Where the middle falls on half
    a pixel, the window begins half a pixel above (left of) where it should. An empty region has no window.

    Args:
        region: what a mapping claims.
        size: height and width of the image.
        side: of the square.

    Example:
        >>> window((Box(100, 100, 120, 121),), (224, 224))
        (Box(y0=74, x0=74, y1=146, x1=146),)
    """
    around = hull(region)
    if around is None:
        return ()
    top, left = (around.y0 + around.y1 - side) // 2, (around.x0 + around.x1 - side) // 2
    height, width = size
    return (Box(max(top, 0), max(left, 0), min(top + side, height), min(left + side, width)),)


def argmax_windows(
    similarity_maps: Sequence[Float[Tensor, "_rows _cols"]], size: tuple[int, int], half: int
) -> tuple[Region, ...]:
    """As EvalProtoPNet has it: so many pixels to every side of where the bicubic map is largest, cut to the image.

    Both ends belong to it, so that inside the image it is 2 half + 1 pixels wide.

    Args:
        similarity_maps: of each prototype.
        size: height and width of the image.
        half: pixels to every side.

    Example:
        >>> peak = torch.zeros(7, 7)
        >>> peak[3, 0] = 1
        >>> argmax_windows([peak], (224, 224), 36)
        ((Box(y0=75, x0=0, y1=148, x1=42),),)
    """
    regions: list[Region] = []
    for similarities in similarity_maps:
        enlarged = F.interpolate(similarities[None, None], size, mode="bicubic", align_corners=False)
        row, col = divmod(int(enlarged.argmax()), size[1])
        regions.append(
            (Box(max(row - half, 0), max(col - half, 0), min(row + half + 1, size[0]), min(col + half + 1, size[1])),)
        )
    return tuple(regions)

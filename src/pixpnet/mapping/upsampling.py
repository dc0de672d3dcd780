"""The original mapping of ProtoPNet, which the paper argues against: the similarity map enlarged to the image (Sec. 2).

It takes a cell for the pixels that happen to lie at its place. The cell's field is another set, often a much larger
one, so neither map nor box says what the similarity depends on; here it is for comparison.
"""

from math import ceil

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pixpnet.box import Box
from pixpnet.mapping.scene import Heatmaps, Region, Scene, grid_by_grid

PERCENTILE = 0.95
# Prototypes at a time: finding a percentile needs copies of the maps.
_TOGETHER = 16


def by_upsampling(scene: Scene) -> Heatmaps:
    """Bicubic interpolation of the similarity maps; each region is one box around the top 5 % of the values."""
    return grid_by_grid(scene, lambda part: _enlarged(part.similarity_maps.detach(), scene.size))


def _enlarged(similarities: Float[Tensor, "protos rows cols"], size: tuple[int, int]) -> Heatmaps:
    maps = similarities.new_empty(len(similarities), *size)
    regions: list[Region] = []
    for first in range(0, len(maps), _TOGETHER):
        part = maps[first : first + _TOGETHER]
        small = similarities[None, first : first + _TOGETHER]
        part.copy_(F.interpolate(small, size, mode="bicubic", align_corners=False)[0])
        regions += [(box,) for box in top_boxes(part)]
    return Heatmaps(maps, tuple(regions))


def top_boxes(maps: Float[Tensor, "protos height width"], percentile: float = PERCENTILE) -> list[Box]:
    """The smallest box around all values of each map that reach its percentile.

    A percentile between two neighbouring values is reached by the upper one and not by the lower, so the upper one is
    looked for and nothing needs to be interpolated.

    >>> import torch
    >>> top_boxes(torch.arange(12.0).reshape(1, 3, 4), percentile=0.8)
    [Box(y0=2, x0=1, y1=3, x1=4)]
    """
    values = maps.flatten(1)
    # Twelve digits: 0.95 x 100 must not become 96 because 0.95 is no binary fraction.
    rank = ceil(round(percentile * (values.shape[1] - 1), 12))
    reached = maps >= values.kthvalue(rank + 1, dim=1).values[:, None, None]
    rows, cols = reached.any(dim=2).tolist(), reached.any(dim=1).tolist()
    return [_around(down, across) for down, across in zip(rows, cols, strict=True)]


def _around(down: list[bool], across: list[bool]) -> Box:
    y0, x0 = down.index(True), across.index(True)
    y1, x1 = len(down) - down[::-1].index(True), len(across) - across[::-1].index(True)
    return Box(y0, x0, y1, x1)

"""Exact sets of pixels as disjoint boxes: areas, overlaps, unions, centres; and the regions of a network's cells.

All in the `pixel` frame. Fields may have holes, so a region is several boxes; nothing here takes the hull for the set.
"""

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from pixpnet.box import hull
from pixpnet.data import Sample
from pixpnet.metrics.part_hits import Region, window
from pixpnet.model import PixPNet
from pixpnet.parts.comparison import Places


class Cell(NamedTuple):
    """Where a patch is: its grid, the row and column of its top left cell there, and where the image has its parts."""

    grid: int
    row: int
    col: int
    places: Places = ()


def area(region: Region) -> int:
    """How many pixels a region holds.

    >>> from pixpnet.box import Box
    >>> area((Box(0, 0, 2, 2), Box(4, 0, 5, 3)))
    7
    """
    return sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in region)


def shared_area(one: Region, other: Region) -> int:
    """How many pixels two regions have in common.

    >>> from pixpnet.box import Box
    >>> shared_area((Box(0, 0, 2, 4),), (Box(1, 1, 3, 2), Box(1, 3, 3, 6)))
    2
    """
    if not one or not other:
        return 0
    first, second = np.asarray(one)[:, None], np.asarray(other)[None]
    sides = np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(first[..., :2], second[..., :2])
    # Boxes of one region are disjoint, so no pixel is counted twice.
    return int(sides.clip(min=0).prod(axis=-1).sum())


def iou(one: Region, other: Region) -> float | None:
    """Intersection over union; None where both are empty.

    >>> from pixpnet.box import Box
    >>> iou((Box(0, 0, 2, 2),), (Box(0, 1, 2, 3),))
    0.3333333333333333
    """
    shared = shared_area(one, other)
    union = area(one) + area(other) - shared
    return shared / union if union else None


def union_mask(regions: Sequence[Region], size: tuple[int, int]) -> Bool[Tensor, "height width"]:
    """The pixels that at least one of the regions holds."""
    mask = torch.zeros(size, dtype=torch.bool)
    for region in regions:
        for y0, x0, y1, x1 in region:
            mask[y0:y1, x0:x1] = True
    return mask


def center(region: Region) -> tuple[float, float] | None:
    """The middle (x, y) of a region's hull; None for an empty one.

    >>> from pixpnet.box import Box
    >>> center((Box(0, 0, 2, 2), Box(4, 2, 5, 3)))
    (1.5, 2.5)
    """
    around = hull(region)
    return None if around is None else ((around.x0 + around.x1) / 2, (around.y0 + around.y1) / 2)


def object_mask(sample: Sample) -> Bool[Tensor, "height width"] | None:
    """The pixels of the object's bounding box, or of its masks where there is no box; None where neither is known.

    None, too, where nothing of the object is left in the image.
    """
    if sample.box is not None:
        mask = union_mask([(sample.box,)], sample.size)
    elif sample.masks is not None:
        mask = sample.masks.as_subclass(Tensor).any(dim=0)
    else:
        return None
    return mask if mask.any() else None


class CellRegions:
    """The regions of a network's cells in images of one size; each cell and pair of cells is worked out once.

    Attributes:
        model: whose cells.
        size: height and width of the image.
    """

    def __init__(self, model: PixPNet, size: tuple[int, int]) -> None:
        self.model, self.size = model, size
        self._fields, self._grids = model.fields_at(size), model.grids
        self._regions: dict[tuple[int | None, Cell], Region] = {}
        self._ious: dict[tuple[int | None, Cell, Cell], float | None] = {}

    def region(self, cell: Cell, window_side: int | None = None) -> Region:
        """The exact field of a cell, or the window of some side around its middle, cut to the image."""
        key = window_side, cell
        if key not in self._regions:
            exact = self._grids[cell.grid].comparison.region((cell.row, cell.col), self._fields[cell.grid], cell.places)
            self._regions[key] = exact if window_side is None else window(exact, self.size, window_side)
        return self._regions[key]

    def mean_iou(self, cells: Sequence[Cell], window_side: int | None = None) -> float | None:
        """The mean over pairs of the IoU of their regions; None where no pair has one."""
        ious = [self._iou(min(pair), max(pair), window_side) for pair in combinations(cells, 2)]
        defined = [value for value in ious if value is not None]
        return fmean(defined) if defined else None

    def _iou(self, one: Cell, other: Cell, window_side: int | None) -> float | None:
        key = window_side, one, other
        if key not in self._ious:
            self._ious[key] = iou(self.region(one, window_side), self.region(other, window_side))
        return self._ious[key]

"""Where patches that a person spoke of lie in a network's own grids, whatever network the person looked at.

A patch is a set of pixels of a training image. In a network with the same geometry it is the field of one cell; in
another one it is looked for by overlap: cells whose field and the patch have an intersection over union of at least one
half, or else the one that overlaps most. So the neighbours that see nearly the same pixels are meant too.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from pixpnet.box import Box
from pixpnet.data.homography import transform_points
from pixpnet.model import PixPNet
from pixpnet.verdicts import TrainingPatch

LEAST_OVERLAP = 0.5
_SAME = 1e-6


def cells_of_patch(
    model: PixPNet, patch: TrainingPatch, to_source: Float64[Tensor, "3 3"]
) -> tuple[Bool[Tensor, " _cells"], ...]:
    """For each grid of a network, which cells (row by row) see what the patch shows.

    Args:
        model: whose cells.
        patch: of an image.
        to_source: from this network's `pixel` frame of that image to its file.
    """
    side = model.preprocessing.size
    inside = _integral(_boxes_in(patch, to_source, (side, side)), (side, side))
    masks = []
    for grid, field in zip(model.grids, model.fields, strict=True):
        rows, cols = field.shape[-2:]
        overlaps = np.zeros(rows * cols)
        for cell in range(rows * cols):
            region = grid.comparison.region(divmod(cell, cols), field)
            shared = sum(_pixels(inside, box) for box in region)
            united = inside[-1, -1] + sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in region) - shared
            overlaps[cell] = shared / united if united else 0.0
        mask = overlaps >= LEAST_OVERLAP
        if not mask.any() and overlaps.max(initial=0.0) > 0:
            mask = overlaps == overlaps.max()
        masks.append(torch.from_numpy(mask))
    return tuple(masks)


def _boxes_in(patch: TrainingPatch, to_source: Float64[Tensor, "3 3"], size: tuple[int, int]) -> tuple[Box, ...]:
    """The patch in another `pixel` frame of its image, cut to it."""
    theirs, ours = np.array(patch.to_source).reshape(3, 3), to_source.double().numpy()
    if patch.size == size and np.abs(theirs - ours).max() <= _SAME:
        return patch.boxes
    between = np.linalg.inv(ours) @ theirs
    height, width = size
    boxes = []
    for y0, x0, y1, x1 in patch.boxes:
        (left, top), (right, bottom) = transform_points(between, np.array([[x0, y0], [x1, y1]], dtype=np.float64))
        y0, y1 = (int(np.clip(round(end), 0, height)) for end in (top, bottom))
        x0, x1 = (int(np.clip(round(end), 0, width)) for end in (left, right))
        if y0 < y1 and x0 < x1:
            boxes.append(Box(y0, x0, y1, x1))
    return tuple(boxes)


def _integral(boxes: tuple[Box, ...], size: tuple[int, int]) -> Int64[np.ndarray, "corners_down corners_across"]:
    """How many pixels of the boxes lie above and left of each corner."""
    mask = np.zeros(size, dtype=np.int64)
    for y0, x0, y1, x1 in boxes:
        mask[y0:y1, x0:x1] = 1
    return np.pad(mask.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))


def _pixels(inside: Int64[np.ndarray, "corners_down corners_across"], box: Box) -> int:
    y0, x0, y1, x1 = box
    return int(inside[y1, x1] - inside[y0, x1] - inside[y1, x0] + inside[y0, x0])

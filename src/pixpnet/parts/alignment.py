"""SDFA ("shallow-deep feature alignment"): cells that are alike deep in the backbone were alike near the image.

The similarities of one cell to all others are compared between two maps: the backbone's own, behind which the add-on
stands, and one of a layer near the image, whose cells are put together in blocks until the grids agree. Only the deep
map learns.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts.losses import Step


def fold_ratio(shallow: tuple[int, int], deep: tuple[int, int]) -> tuple[int, int]:
    """How many rows and columns of shallow cells make one deep cell.

    Raises:
        ValueError: if they cannot be shared out equally.

    >>> fold_ratio((56, 56), (14, 14))
    (4, 4)
    """
    rows, cols = (near // far for near, far in zip(shallow, deep, strict=True))
    if (rows * deep[0], cols * deep[1]) != shallow:
        raise ValueError(
            f"{shallow[0]} x {shallow[1]} cells of the shallow layer cannot be shared out equally among "
            f"{deep[0]} x {deep[1]} cells of the cut: choose images (--size), a layer (--losses.shallow-layer) or a "
            "cut (--at) whose sides divide each other"
        )
    return rows, cols


def similarity_rows(
    maps: Float[Tensor, "batch channels rows cols"], cells: Int64[Tensor, "batch chosen"]
) -> Float[Tensor, "batch chosen cells"]:
    """The cosines between some cells of each image and all of its cells."""
    unit = F.normalize(maps.flatten(2), dim=1)
    chosen = unit.gather(2, cells[:, None].expand(-1, unit.shape[1], -1))
    return chosen.transpose(1, 2) @ unit


def alignment_loss(
    deep: Float[Tensor, "batch deep_channels rows cols"],
    shallow: Float[Tensor, "batch shallow_channels shallow_rows shallow_cols"],
    cells: Int64[Tensor, "batch chosen"],
    margin: float,
) -> Float[Tensor, ""]:
    """How much more than a margin the similarities of some cells to all cells differ between two maps, on average.

    Args:
        deep: what learns.
        shallow: what does not; its sides are multiples of those of `deep`.
        cells: of the deep grid, row by row.
        margin: differences up to this cost nothing.
    """
    rows, cols = deep.shape[-2:]
    ratio = fold_ratio((shallow.shape[-2], shallow.shape[-1]), (rows, cols))
    with torch.no_grad(), torch.autocast(deep.device.type, enabled=False):
        # Each deep cell's block of shallow cells, one after the other.
        folded = F.unfold(shallow.float() if shallow.dtype.itemsize < 4 else shallow, ratio, stride=ratio)
        near = similarity_rows(folded.unflatten(2, (rows, cols)), cells)
    with torch.autocast(deep.device.type, enabled=False):
        far = similarity_rows(deep.float() if deep.dtype.itemsize < 4 else deep, cells)
    return F.relu((far - near).abs() - margin).mean()


def alignment(step: Step, margin: float) -> Float[Tensor, ""]:
    """`alignment_loss` at the cells that speak for the prototypes of each image's own class, the mean over grids.

    Raises:
        ValueError: if the step does not have the maps of the backbone and of a layer that is watched.
    """
    if step.watched is None or not step.maps:
        raise ValueError("alignment reads the maps of the backbone and of a watched layer: take watching_step")
    losses, first = [], 0
    for deep, grid in zip(step.maps, step.required_matches.grids, strict=True):
        count = grid.cells.shape[1]
        own = step.own[:, first : first + count]
        # Each class has as many prototypes in a grid as any other.
        cells = grid.cells[own].reshape(len(own), -1)
        losses.append(alignment_loss(deep, step.watched, cells, margin))
        first += count
    return torch.stack(losses).mean()

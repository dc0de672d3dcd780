"""Duplicate prototypes: patches of one image, the very same patch, or nearly the same vector.

Two vectors are nearly the same when they differ by at most `tolerance` of the longer one's length. They are compared as
the comparison sees them (`Comparison.comparable`): where only directions matter, they are brought to length 1 first.
Vectors of different grids have nothing in common.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pixpnet.metrics.bootstrap import Estimate, class_clusters, defined_mean
from pixpnet.metrics.health.record import Duplicates, Twins
from pixpnet.model import PixPNet

TOLERANCE = 0.01


def duplicates(model: PixPNet, tolerance: float = TOLERANCE, seed: int = 0) -> Duplicates:
    """The shares of prototypes that have a twin in a class of their own, and one that shares no class with them.

    A prototype without a class is in no share of the first kind.

    Args:
        model: its vectors, and its origins where it has them.
        tolerance: of vectors.
        seed: of the intervals, which draw whole classes again.
    """
    mask = model.ownership.mask().cpu().double()
    own = mask.T @ mask > 0
    with_class = mask.any(dim=0)
    everyone = torch.ones_like(with_class)
    classes = class_clusters(model.labels.tolist())
    near = near_vectors(model, tolerance)
    images = regions = None
    if model.origins is not None:
        images = _alike([origin.image for origin in model.origins])
        regions = _alike([(origin.image, origin.boxes) for origin in model.origins])

    def twins(among: Bool[Tensor, "protos protos"], asked: Bool[Tensor, " protos"]) -> Twins:
        kinds = (images, regions, near)
        return Twins(*(None if alike is None else _share(alike & among, asked, classes, seed) for alike in kinds))

    undefined = len(classes) if model.origins is None else 0
    return Duplicates(twins(own, with_class), twins(~own, everyone), tolerance, undefined)


def near_vectors(model: PixPNet, tolerance: float = TOLERANCE) -> Bool[Tensor, "protos protos"]:
    """Which prototypes are nearly the same vector as which; each is as itself."""
    by_grid = [_near(grid.comparison.comparable().cpu(), tolerance) for grid in model.grids]
    near: Tensor = torch.block_diag(*by_grid)
    return near


def _near(vectors: Float[Tensor, "protos numbers"], tolerance: float) -> Bool[Tensor, "protos protos"]:
    lengths = vectors.norm(dim=1)
    # Differences first: by the formula with a matrix product, vectors that are the same would be 1e-8 apart.
    apart = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    return apart <= tolerance * torch.maximum(lengths[:, None], lengths[None, :])


def _alike(marks: list[object]) -> Bool[Tensor, "protos protos"]:
    numbers = {mark: number for number, mark in enumerate(dict.fromkeys(marks))}
    number = torch.tensor([numbers[mark] for mark in marks])
    return number[:, None] == number[None, :]


def _share(
    alike: Bool[Tensor, "protos protos"], asked: Bool[Tensor, " protos"], classes: Sequence[int], seed: int
) -> Estimate | None:
    with_twin = (alike & ~torch.eye(len(alike), dtype=torch.bool)).any(dim=1)
    values = [float(twin) if counts else None for twin, counts in zip(with_twin.tolist(), asked.tolist(), strict=True)]
    return defined_mean(values, classes, seed).estimate

"""Duplicate prototypes: patches of one image, the very same patch, or nearly the same vector.

Two vectors are nearly the same when they differ by at most `tolerance` of the longer one's length. Under the cosine
distance only directions matter, so they are brought to length 1 first.
"""

import torch
from jaxtyping import Bool
from torch import Tensor

from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.metrics.health.record import Duplicates, Twins
from pixpnet.model import PixPNet

TOLERANCE = 0.01


def duplicates(model: PixPNet, tolerance: float = TOLERANCE, seed: int = 0) -> Duplicates:
    """The shares of prototypes that have a twin in their own class, and in another one.

    Args:
        model: its vectors, and its origins where it has them.
        tolerance: of vectors.
        seed: of the intervals, which draw whole classes again.
    """
    labels = model.labels.cpu()
    own = labels[:, None] == labels[None, :]
    near = near_vectors(model, tolerance)
    images = regions = None
    if model.origins is not None:
        images = _alike([origin.image for origin in model.origins])
        regions = _alike([(origin.image, origin.boxes) for origin in model.origins])

    def twins(among: Bool[Tensor, "protos protos"]) -> Twins:
        found = [None if alike is None else _share(alike & among, labels, seed) for alike in (images, regions, near)]
        return Twins(*found)

    undefined = len(labels) if model.origins is None else 0
    return Duplicates(twins(own), twins(~own), tolerance, undefined)


def near_vectors(model: PixPNet, tolerance: float = TOLERANCE) -> Bool[Tensor, "protos protos"]:
    """Which prototypes are nearly the same vector as which; each is as itself."""
    vectors = model.prototypes.detach().flatten(1).double().cpu()
    if model.architecture.distance == "cosine":
        vectors = torch.nn.functional.normalize(vectors)
    lengths = vectors.norm(dim=1)
    # Differences first: by the formula with a matrix product, vectors that are the same would be 1e-8 apart.
    apart = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    return apart <= tolerance * torch.maximum(lengths[:, None], lengths[None, :])


def _alike(marks: list[object]) -> Bool[Tensor, "protos protos"]:
    numbers = {mark: number for number, mark in enumerate(dict.fromkeys(marks))}
    number = torch.tensor([numbers[mark] for mark in marks])
    return number[:, None] == number[None, :]


def _share(alike: Bool[Tensor, "protos protos"], labels: Tensor, seed: int) -> Estimate | None:
    with_twin = (alike & ~torch.eye(len(alike), dtype=torch.bool)).any(dim=1)
    return bootstrap_mean(with_twin.double().tolist(), labels.tolist(), seed)

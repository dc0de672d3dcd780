"""How far every patch of an embedding is from every prototype (Sec. 2 and 4), by generalised convolution.

A distance between patches and prototypes is expanded so that its only large part is one convolution of the
embeddings with the prototypes; no tensor of batch x prototypes x cells x dim ever exists. Everything is computed in
float32 or better, also under autocast: the similarity has its pole at distance 0, where bfloat16 has three digits.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

# Keeps norms, and with them gradients, away from the pole of a vector of zeros; its distance to anything is 1.
_SMALLEST_SQUARE = 1e-12


def cosine_distances(
    embeddings: Float[Tensor, "batch dim rows cols"], prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"]
) -> Float[Tensor, "batch protos positions_down positions_across"]:
    """One minus the cosine of the angle between each patch and each prototype: 0 the same direction, 1 none.

    >>> one = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1)
    >>> two = torch.tensor([[3.0, 0.0], [0.0, 1.0]]).reshape(2, 2, 1, 1)
    >>> cosine_distances(one, two).flatten().tolist()
    [0.0, 1.0]
    """
    squares = prototypes.square().sum(dim=(1, 2, 3), keepdim=True)
    directions = prototypes * squares.clamp_min(_SMALLEST_SQUARE).rsqrt()
    squares = _window_sums(embeddings.square().sum(dim=1, keepdim=True), prototypes)
    if prototypes.shape[-2:] == (1, 1):
        cosines = _convolve(embeddings * squares.clamp_min(_SMALLEST_SQUARE).rsqrt(), directions)
    else:
        cosines = _convolve(embeddings, directions) * squares.clamp_min(_SMALLEST_SQUARE).rsqrt()
    return (1 - cosines).clamp_min(0)


def squared_l2_distances(
    embeddings: Float[Tensor, "batch dim rows cols"], prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"]
) -> Float[Tensor, "batch protos positions_down positions_across"]:
    """The squared Euclidean distance of each patch to each prototype.

    >>> one = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1)
    >>> two = torch.tensor([[3.0, 0.0], [0.0, 1.0]]).reshape(2, 2, 1, 1)
    >>> squared_l2_distances(one, two).flatten().tolist()
    [4.0, 2.0]
    """
    # The distance does not change when both move, and the nearer they are to the origin, the less is cancelled.
    centre = prototypes.detach().mean(dim=(0, 2, 3))[:, None, None]
    embeddings, prototypes = embeddings - centre, prototypes - centre
    patches = _window_sums(embeddings.square().sum(dim=1, keepdim=True), prototypes)
    squares = prototypes.square().sum(dim=(1, 2, 3))[:, None, None]
    return (patches - 2 * _convolve(embeddings, prototypes) + squares).clamp_min(0)


Distance = Callable[[Tensor, Tensor], Tensor]
DISTANCES: Mapping[str, Distance] = {"cosine": cosine_distances, "squared_l2": squared_l2_distances}


def _convolve(embeddings: Tensor, kernels: Tensor) -> Tensor:
    # TensorFloat-32 has three digits, too few beside the pole of the similarity.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return F.conv2d(embeddings, kernels)


def _window_sums(values: Float[Tensor, "batch 1 rows cols"], prototypes: Tensor) -> Tensor:
    """Sums over windows of the size of a prototype."""
    rows, cols = prototypes.shape[-2:]
    return values if (rows, cols) == (1, 1) else F.conv2d(values, values.new_ones(1, 1, rows, cols))

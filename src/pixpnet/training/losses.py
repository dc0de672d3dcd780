"""The loss (Eqs. 2-4): cross-entropy, a pull towards own prototypes, a push away from those of other classes."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from pixpnet.model import Linear, Output, PixPNet
from pixpnet.recipe import Losses


@dataclass(frozen=True)
class LossParts:
    """The loss and what it is the sum of."""

    total: Float[Tensor, ""]
    cross_entropy: Float[Tensor, ""]
    cluster: Float[Tensor, ""]
    separation: Float[Tensor, ""]


def cluster_loss(
    distances: Float[Tensor, "batch protos"], labels: Int64[Tensor, " batch"], classes: Int64[Tensor, " protos"]
) -> Float[Tensor, ""]:
    """The mean distance of an image's nearest patch to the nearest prototype of its own class (Eq. 3).

    Paper: as printed, Eqs. 2-4 average over the images twice; once is meant.

    Args:
        distances: of each prototype to the nearest patch of each image.
        labels: of the images.
        classes: of the prototypes.
    """
    others = labels[:, None] != classes[None, :]
    return distances.masked_fill(others, float("inf")).amin(dim=1).mean()


def separation_loss(
    distances: Float[Tensor, "batch protos"], labels: Int64[Tensor, " batch"], classes: Int64[Tensor, " protos"]
) -> Float[Tensor, ""]:
    """Minus the mean distance of an image's nearest patch to the nearest prototype of any other class (Eq. 4)."""
    own = labels[:, None] == classes[None, :]
    return -distances.masked_fill(own, float("inf")).amin(dim=1).mean()


def leave_one_out(
    model: PixPNet, output: Output, labels: Int64[Tensor, " batch"], from_it: Bool[Tensor, "batch protos"]
) -> Output:
    """What the network would answer if no prototype had been taken from the image that it is shown.

    A prototype that is a patch of the image itself has distance 0 and the largest possible score, whatever was learnt;
    and after the next step of learning the score falls off a cliff that no other image has. So each such score is
    replaced by the mean of the others of the class.

    Args:
        model: whose head is used.
        output: of the images.
        labels: of the images.
        from_it: which prototypes are patches of which image. Where a class has no others, it is left as it is.
    """
    matches = output.matches
    own = labels[:, None] == model.labels[None, :]
    others = (own & ~from_it).to(matches.scores.dtype)
    left = others.sum(dim=1, keepdim=True)
    hidden = from_it & own & (left > 0)
    mean = (matches.scores * others).sum(dim=1, keepdim=True) / left.clamp_min(1)
    scores = torch.where(hidden, mean, matches.scores)
    distances = matches.distances.masked_fill(hidden, float("inf"))
    return Output(model.head(scores), replace(matches, scores=scores, distances=distances))


def loss_of(model: PixPNet, output: Output, labels: Int64[Tensor, " batch"], weights: Losses) -> LossParts:
    """The whole loss of a batch (Eq. 2)."""
    distances = output.matches.distances
    cross_entropy = F.cross_entropy(output.logits, labels)
    cluster = cluster_loss(distances, labels, model.labels)
    separation = separation_loss(distances, labels, model.labels)
    total = cross_entropy
    # A weight of 0 leaves a term out rather than multiplying it, so that it costs no gradient.
    if weights.cluster_weight:
        total = total + weights.cluster_weight * cluster
    if weights.separation_weight:
        total = total + weights.separation_weight * separation
    if weights.off_class_l1 and isinstance(model.head, Linear):
        total = total + weights.off_class_l1 * model.head.off_class().abs().sum()
    return LossParts(total, cross_entropy.detach(), cluster.detach(), separation.detach())

"""ST-ProtoPNet's prototypes: patches of length 1; trivial ones of different classes stay apart, support ones come near.

Support prototypes lie where classes meet, like support vectors: of two classes the *farthest* pair is pulled together.
Trivial ones lie far from there: the *closest* pair is pushed apart.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts.comparison import GridMatches
from pixpnet.parts.losses import Step
from pixpnet.parts.subspaces import UnitPrototypes, bases_of


class UnitPatches(UnitPrototypes):
    """Patches become prototypes at length 1, and losses pull on scores (`RectifiedCosine`: never below 0)."""

    def as_prototypes(self, patches: Float[Tensor, "*some kernel_rows kernel_cols"]) -> Tensor:
        """Patches of length 1."""
        return F.normalize(patches.flatten(-3), dim=-1).view_as(patches)

    def loss_distances(
        self, embeddings: Float[Tensor, "batch dim rows cols"], matches: GridMatches
    ) -> Float[Tensor, "batch protos"]:
        """Minus the scores."""
        return -matches.scores


class ProjectedUnitPatches(UnitPatches):
    """The same where a score is a projection, which counts the length of patches: losses pull on the angle."""

    def loss_distances(
        self, embeddings: Float[Tensor, "batch dim rows cols"], matches: GridMatches
    ) -> Float[Tensor, "batch protos"]:
        """Minus the largest cosine between any patch and each prototype, or 0 where none is positive."""
        return UnitPrototypes.loss_distances(self, embeddings, matches).clamp_max(0)


def discrimination(step: Step) -> Float[Tensor, ""]:
    """How near the closest prototypes of two classes are, in every grid (`closest_pairs`)."""
    return torch.stack([closest_pairs(bases) for bases in bases_of(step)]).sum()


def closeness(step: Step) -> Float[Tensor, ""]:
    """How far apart the farthest prototypes of two classes are, in every grid (minus `farthest_pairs`)."""
    return -torch.stack([farthest_pairs(bases) for bases in bases_of(step)]).sum()


def closest_pairs(bases: Float[Tensor, "classes protos dim"]) -> Float[Tensor, ""]:
    """The mean over pairs of classes of the largest scalar product of a prototype of one with one of the other.

    >>> closest_pairs(torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [1.0, 0.0]]])).item()
    1.0
    """
    return _pair_products(bases).max(dim=-1).values.mean()


def farthest_pairs(bases: Float[Tensor, "classes protos dim"]) -> Float[Tensor, ""]:
    """The same with the smallest scalar product.

    >>> farthest_pairs(torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [1.0, 0.0]]])).item()
    0.0
    """
    return _pair_products(bases).min(dim=-1).values.mean()


def _pair_products(bases: Float[Tensor, "classes protos dim"]) -> Float[Tensor, "class_pairs proto_pairs"]:
    """The scalar products of all pairs of prototypes, for each pair of different classes."""
    classes, protos, _ = bases.shape
    vectors = bases.flatten(0, 1)
    products = (vectors @ vectors.T).unflatten(0, (classes, protos)).unflatten(2, (classes, protos))
    one, other = torch.triu_indices(classes, classes, offset=1, device=bases.device)
    pairs: Tensor = products.transpose(1, 2)[one, other]
    return pairs.flatten(1)

"""TesNet's prototypes: directions, and the subspaces that those of a class span.

A prototype counts by its direction only: a patch scores the length of its projection onto it (`Projection`). Cluster
and separation losses pull on the angle instead, so that longer embeddings do not serve them. Two more losses keep the
prototypes of a class at right angles, and the subspaces of different classes apart.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts.comparison import Comparison, GridMatches
from pixpnet.parts.losses import Step
from pixpnet.parts.measures import window_sums

# Below which the length of a patch, or the difference of two subspaces, counts as this: keeps gradients finite.
_SMALLEST_SQUARE = 1e-12
# Half the sum over ordered pairs of classes, over the root of 2, is the sum over unordered pairs times this.
_PER_PAIR = 0.5**0.5


class UnitPrototypes(Comparison):
    """A comparison whose prototypes have length 1 after every step of an optimizer."""

    def after_step(self) -> None:
        """Scales prototypes to length 1; one of zeros stays as it is."""
        with torch.no_grad():
            self.prototypes.copy_(F.normalize(self.prototypes.flatten(1)).view_as(self.prototypes))

    def loss_distances(
        self, embeddings: Float[Tensor, "batch dim rows cols"], matches: GridMatches
    ) -> Float[Tensor, "batch protos"]:
        """Minus the largest cosine between any patch and each prototype."""
        with torch.autocast(embeddings.device.type, enabled=False):
            squares = embeddings.to(matches.distance_maps.dtype).square().sum(dim=1, keepdim=True)
            lengths = window_sums(squares, self.prototypes).clamp_min(_SMALLEST_SQUARE).sqrt()
            cosines = matches.distance_maps / lengths
        # `min`, not `amin`, which would share the gradient out among equals.
        return cosines.flatten(2).min(dim=-1).values


def orthonormality(step: Step) -> Float[Tensor, ""]:
    """How far the prototypes of each class are from an orthonormal basis, in every grid (`orthonormality_loss`)."""
    losses = [orthonormality_loss(bases) for bases in bases_of(step)]
    return torch.stack(losses).sum()


def subspace_separation(step: Step) -> Float[Tensor, ""]:
    """How near the subspaces of classes are, in every grid (`subspace_separation_loss`)."""
    losses = [subspace_separation_loss(bases) for bases in bases_of(step)]
    return torch.stack(losses).sum()


def orthonormality_loss(bases: Float[Tensor, "classes protos dim"]) -> Float[Tensor, ""]:
    """The sum of the absolute entries of P P' - 1, over all classes.

    >>> orthonormality_loss(torch.tensor([[[1.0, 0.0], [0.5, 0.0]]])).item()
    1.75
    """
    products = bases @ bases.transpose(1, 2)
    return (products - torch.eye(products.shape[1]).to(products)).abs().sum()


def subspace_separation_loss(bases: Float[Tensor, "classes protos dim"]) -> Float[Tensor, ""]:
    """Minus the Frobenius norms of P_a' P_a - P_b' P_b, summed over unordered pairs of classes, over the root of 2.

    All pairs at once, from the scalar products of the classes' matrices: nothing is larger than classes x dim x dim.
    (Published: 1e-10 is added to every entry, against the pole of the root. It changes a norm by less than 1e-8; here
    the squared norm has a lower bound instead.)

    >>> round(subspace_separation_loss(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])).item(), 6)
    -1.0
    """
    matrices = (bases.transpose(1, 2) @ bases).flatten(1)
    # Differences do not change when all move, and the nearer they are to the origin, the less is cancelled.
    matrices = matrices - matrices.detach().mean(dim=0)
    products = matrices @ matrices.T
    one, other = torch.triu_indices(len(bases), len(bases), offset=1, device=bases.device)
    squares = products.diagonal()
    distances = squares[one] + squares[other] - 2 * products[one, other]
    return -_PER_PAIR * distances.clamp_min(_SMALLEST_SQUARE).sqrt().sum()


def bases_of(step: Step) -> list[Float[Tensor, "classes protos dim"]]:
    """The prototypes of each grid by class; those of a class stand side by side."""
    classes = len(step.parts.ownership.mask())
    return [comparison.prototypes.flatten(1).unflatten(0, (classes, -1)) for comparison in step.parts.comparisons]

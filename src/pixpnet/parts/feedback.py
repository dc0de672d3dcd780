"""Loss terms of a person's feedback (ProtoPDebug): patches that prototypes must not be like, and patches to remember.

With m the distance of a prototype to a patch (from the least that its measure can be), a forbidden patch costs the sum
over prototypes of log((m + 1) / (m + 1e-8)), and a remembered one earns the sum of log((m + 1) / (m + 1e-4)); each is
averaged over patches. Published: of cut-outs that are pasted on white; here the patch is the cell's own in its own
image, whose exact field is all that it depends on.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

FORBIDDEN_EPSILON = 1e-8
REMEMBERED_EPSILON = 1e-4


@dataclass(frozen=True)
class PatchDistances:
    """How far prototypes are from patches that a person spoke of.

    Attributes:
        distances: of each prototype to each patch, from the least that its measure can be.
        counted: which prototypes it is about: those that may be a patch of such an image.
        forbidden: whether a patch is forbidden, or to be remembered.
    """

    distances: Float[Tensor, "patches protos"]
    counted: Bool[Tensor, "patches protos"]
    forbidden: Bool[Tensor, " patches"]


def forget_loss(patches: PatchDistances) -> Float[Tensor, ""]:
    """What forbidden patches cost; 0 where there are none.

    >>> one = PatchDistances(torch.tensor([[1.0, 0.5]]), torch.tensor([[True, False]]), torch.tensor([True]))
    >>> f"{float(forget_loss(one)):.4f}"
    '0.6931'
    """
    return _alike(patches, patches.forbidden, FORBIDDEN_EPSILON)


def remember_loss(patches: PatchDistances) -> Float[Tensor, ""]:
    """What remembered patches cost: less than nothing, the less the nearer prototypes are; 0 where there are none."""
    return -_alike(patches, ~patches.forbidden, REMEMBERED_EPSILON)


def _alike(patches: PatchDistances, chosen: Bool[Tensor, " patches"], epsilon: float) -> Float[Tensor, ""]:
    if not bool(chosen.any()):
        return patches.distances.new_zeros(())
    counted = patches.counted[chosen]
    # Where a prototype does not count its distance may be infinite, and 0 times infinity has no gradient.
    distances = torch.where(counted, patches.distances[chosen], 1.0).clamp_min(0)
    alike = torch.log((distances + 1) / (distances + epsilon))
    return torch.where(counted, alike, 0.0).sum(dim=1).mean()

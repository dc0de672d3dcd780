"""Proto2Proto's losses: a student's prototypes and embeddings are pulled to those of a teacher."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts.comparison import GridMatches
from pixpnet.parts.losses import Step
from pixpnet.parts.matches import Matches

# Of `PairwiseDistance`: each component is moved by it before the norm, which keeps gradients finite.
_SHIFT = 1e-6


@dataclass(frozen=True)
class TaughtStep(Step):
    """What a batch gave the student, with what it gave the teacher.

    Attributes:
        teacher_embeddings: of the same images, for each grid.
        teacher_matches: how they compare with the teacher's prototypes.
        teacher_prototypes: of each grid.
    """

    teacher_embeddings: tuple[Float[Tensor, "batch _dim _rows _cols"], ...] = ()
    teacher_matches: Matches | None = None
    teacher_prototypes: tuple[Float[Tensor, "_protos _dim _kernel_rows _kernel_cols"], ...] = ()


@dataclass(frozen=True)
class FeatureTransfer:
    """`feature_loss` of a step, summed over grids.

    Attributes:
        threshold: cells count where some prototype matches them at a smaller distance.
        matches: whose matches decide which cells count.
    """

    threshold: float
    matches: Literal["student", "teacher"]

    def __call__(self, step: Step) -> Float[Tensor, ""]:
        """The loss."""
        assert isinstance(step, TaughtStep)
        matches = step.required_matches if self.matches == "student" else step.teacher_matches
        assert matches is not None
        grids = zip(step.embeddings, step.teacher_embeddings, matches.grids, strict=True)
        terms = [feature_loss(ours, theirs, matched_cells(grid, self.threshold)) for ours, theirs, grid in grids]
        return torch.stack(terms).sum()


def prototype_transfer(step: Step) -> Float[Tensor, ""]:
    """`prototype_loss` of a step, over the prototypes of all grids."""
    assert isinstance(step, TaughtStep)
    ours = torch.cat([comparison.prototypes.flatten(1) for comparison in step.parts.comparisons])
    return prototype_loss(ours, torch.cat([prototypes.flatten(1) for prototypes in step.teacher_prototypes]))


def prototype_loss(ours: Float[Tensor, "protos numbers"], theirs: Float[Tensor, "protos numbers"]) -> Float[Tensor, ""]:
    """The mean Euclidean distance of each prototype to the teacher's of the same number.

    >>> round(float(prototype_loss(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2))), 3)
    5.0
    """
    return (ours - theirs + _SHIFT).square().sum(dim=1).sqrt().mean()


def matched_cells(grid: GridMatches, threshold: float) -> Bool[Tensor, "batch rows cols"]:
    """The cells that are the nearest of some prototype, at a distance below the threshold."""
    batch, _, rows, cols = grid.distance_maps.shape
    near = (grid.distances < threshold).to(grid.distances.dtype).detach()
    counts = near.new_zeros(batch, rows * cols).scatter_add(1, grid.cells, near)
    return (counts > 0).reshape(batch, rows, cols)


def feature_loss(
    ours: Float[Tensor, "batch dim rows cols"],
    theirs: Float[Tensor, "batch dim their_rows their_cols"],
    mask: Bool[Tensor, "batch mask_rows mask_cols"],
) -> Float[Tensor, ""]:
    """Squared differences of the embeddings of masked cells, over twice their number plus one.

    Maps of different sizes are centred in zeros of the larger one.
    """
    size = max(ours.shape[-2], theirs.shape[-2]), max(ours.shape[-1], theirs.shape[-1])
    ours, theirs, inside = (centered(maps, size) for maps in (ours, theirs, mask[:, None].to(ours.dtype)))
    differences = (theirs - ours).square().sum(dim=1, keepdim=True)
    return (differences * inside).sum() / (2 * inside.sum() + 1)


def centered(maps: Float[Tensor, "batch channels _rows _cols"], size: tuple[int, int]) -> Tensor:
    """Maps in the middle of larger ones of zeros; of two middles the one nearer to the origin.

    >>> centered(torch.ones(1, 1, 1, 1), (2, 3))[0, 0].tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    down, across = size[0] - maps.shape[-2], size[1] - maps.shape[-1]
    if not down and not across:
        return maps
    return F.pad(maps, (across // 2, across - across // 2, down // 2, down - down // 2))

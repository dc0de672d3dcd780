"""Branches: several grids on one cut, each with an add-on, prototypes and a head of its own; their logits are added."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pixpnet.parts.assembly import Parts
from pixpnet.parts.decisions import LinearDecision
from pixpnet.parts.ownership import OneClassEach, Ownership
from pixpnet.parts.reasons import ExplanationSize
from pixpnet.parts.sums import Linear


class AddedHeads(LinearDecision):
    """A linear head for each branch, whose logits are added: so still a weighted sum of the scores of all prototypes.

    >>> ownership = OneClassEach(torch.tensor([0, 1, 0, 1]), 2)
    >>> decision = AddedHeads(ownership, [2, 2], own_weight=1.0, other_weight=-0.5)
    >>> decision.logits(torch.tensor([[4.0, 2.0, 1.0, 0.0]])).tolist()
    [[4.0, -0.5]]
    """

    name = "added_heads"
    own_only = False

    def __init__(self, ownership: Ownership, prototypes: Sequence[int], own_weight: float, other_weight: float) -> None:
        """First weights.

        Args:
            ownership: of all prototypes, branch by branch.
            prototypes: how many each branch has.
            own_weight: within a class.
            other_weight: across.
        """
        super().__init__()
        self.counts = tuple(prototypes)
        classes = len(ownership.mask())
        self.heads = nn.ModuleList(
            Linear(OneClassEach(labels.clone(), classes), own_weight, other_weight, learns=True)
            for labels in ownership.labels.split(self.counts)
        )

    @property
    def form(self) -> str:
        """See `Decision`."""
        return f"a class's logit is the sum of {len(self.counts)} heads, each a weighted sum of its branch's scores"

    def head(self, branch: int) -> Linear:
        """That of one branch, which decides alone while the branch learns."""
        head = self.heads[branch]
        assert isinstance(head, Linear)
        return head

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """See `Decision`."""
        parts = [self.head(branch).logits(own) for branch, own in enumerate(scores.split(self.counts, dim=1))]
        return torch.stack(parts).sum(dim=0)

    def weights(self) -> Float[Tensor, "classes protos"]:
        """The weights of all heads, side by side."""
        return torch.cat([self.head(branch).weights() for branch in range(len(self.counts))], dim=1)

    def off_class(self) -> Float[Tensor, " connections"]:
        """See `Decision`."""
        return torch.cat([self.head(branch).off_class() for branch in range(len(self.counts))])

    def size(self) -> ExplanationSize:
        """Those of all heads together."""
        sizes = [self.head(branch).size() for branch in range(len(self.counts))]
        return ExplanationSize(sum(size.positive for size in sizes), sum(size.both for size in sizes))

    @property
    def learns_weights(self) -> bool:
        """See `Decision`."""
        return True

    def reweighted(self, ownership: Ownership) -> Linear:
        """The weights of all heads in one."""
        decision = Linear(ownership, 1.0, 0.0, learns=True)
        decision.weight.data.copy_(self.weights().detach())
        return decision


def branch_of(parts: Parts, branch: str) -> Parts:
    """The grids of one branch as parts of their own, which share everything with the whole.

    Raises:
        ValueError: if there is no such branch.
    """
    names = list(dict.fromkeys(parts.branches))
    if branch not in names or not isinstance(parts.decision, AddedHeads):
        raise ValueError(f"there is no branch {branch!r}: there are {', '.join(filter(None, names)) or 'none'}")
    grids = [grid for grid, name in enumerate(parts.branches) if name == branch]
    ends = list(accumulate(len(comparison.prototypes) for comparison in parts.comparisons))
    labels = [
        parts.ownership.labels[ends[grid] - len(parts.comparisons[grid].prototypes) : ends[grid]] for grid in grids
    ]
    return Parts(
        tuple(parts.add_ons[grid] for grid in grids),
        tuple(parts.comparisons[grid] for grid in grids),
        OneClassEach(torch.cat(labels), len(parts.ownership.mask())),
        parts.decision.head(names.index(branch)),
        tuple(parts.cuts[grid] for grid in grids),
        (branch,) * len(grids),
    )

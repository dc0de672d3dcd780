"""SDFA-SA's decision ("score aggregation"): a mean of a class's own scores whose weights are learnt, times how many.

The weights of a class are never negative and sum to the number of its prototypes, so no class can gain by larger
weights, and none of its prototypes can count against it.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from pixpnet.parts.decisions import LinearDecision
from pixpnet.parts.ownership import Ownership
from pixpnet.parts.reasons import ExplanationSize
from pixpnet.parts.sums import OwnClass


class SimplexSum(LinearDecision):
    """The logit of a class is the sum of K softmax(w) times the scores of its K prototypes.

    >>> from pixpnet.parts.ownership import OneClassEach
    >>> decision = SimplexSum(OneClassEach(torch.tensor([0, 0, 1]), 2), start=1.0)
    >>> decision.logits(torch.tensor([[1.0, 2.0, 4.0]])).tolist()
    [[3.0, 4.0]]
    """

    name = "simplex_sum"
    form = (
        "a class's logit is a weighted sum of the scores of its own prototypes, with weights that sum to their number"
    )
    own_only = True
    own: Bool[Tensor, "classes protos"]

    def __init__(self, ownership: Ownership, start: float) -> None:
        """Equal weights.

        Args:
            ownership: every prototype speaks for one class.
            start: first value of all w, of which only differences count.
        """
        super().__init__()
        mask = ownership.mask()
        self.register_buffer("own", mask, persistent=False)
        self.weight = nn.Parameter(torch.full((mask.shape[1],), float(start)))

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """See `Decision`."""
        return F.linear(scores, self.weights().to(scores.dtype))

    def weights(self) -> Float[Tensor, "classes protos"]:
        """K softmax(w) over the prototypes of each class, exactly 0 for those of others."""
        counts = self.own.sum(dim=1, keepdim=True)
        return counts * self.weight.masked_fill(~self.own, float("-inf")).softmax(dim=1)

    def size(self) -> ExplanationSize:
        """A score and a weight for each own prototype: 2 P / C and 2 P / C."""
        classes, prototypes = self.own.shape
        own = 2 * (prototypes // classes)
        return ExplanationSize(own, own)

    @property
    def learns_weights(self) -> bool:
        """See `Decision`."""
        return True

    def reweighted(self, ownership: Ownership) -> OwnClass:
        """The same weights, which need not sum to anything any more."""
        decision = OwnClass(ownership, 1.0)
        decision.weight.data.copy_(self.weights().detach().sum(dim=0))
        return decision

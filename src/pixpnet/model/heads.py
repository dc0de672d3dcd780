"""From scores to logits (Sec. 4, "Simplified Classification Head").

Every head says its weights as a matrix of classes x prototypes, which is what an explanation multiplies with.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pixpnet.recipe import Architecture


class ClassSum(nn.Module):
    """The logit of a class is the sum of the scores of its prototypes; nothing is learnt.

    >>> head = ClassSum(torch.tensor([0, 0, 1]), 2)
    >>> head(torch.tensor([[1.0, 2.0, 4.0]])).tolist()
    [[3.0, 4.0]]
    """

    labels: Tensor

    def __init__(self, labels: Int64[Tensor, " protos"], num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.register_buffer("labels", labels, persistent=False)

    def forward(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """Adds up."""
        return scores.new_zeros(len(scores), self.num_classes).index_add(1, self.labels, scores)

    def weights(self) -> Float[Tensor, "classes protos"]:
        """1 for a class's own prototypes, 0 for the others."""
        return _membership(self.labels, self.num_classes).float()


class Linear(nn.Module):
    """A weight for each class and prototype: at first `own_weight` within a class and `other_weight` across."""

    labels: Tensor

    def __init__(
        self, labels: Int64[Tensor, " protos"], num_classes: int, own_weight: float, other_weight: float, learns: bool
    ) -> None:
        super().__init__()
        self.register_buffer("labels", labels, persistent=False)
        own = _membership(labels, num_classes)
        first = torch.where(own, float(own_weight), float(other_weight))
        self.weight = nn.Parameter(first, requires_grad=learns)

    def forward(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """Weighs and adds up."""
        return F.linear(scores, self.weight.to(scores.dtype))

    def weights(self) -> Float[Tensor, "classes protos"]:
        """As they are now."""
        return self.weight

    def off_class(self) -> Float[Tensor, " connections"]:
        """The weights between prototypes and other classes than their own."""
        return self.weight[~_membership(self.labels, len(self.weight))]


class OwnClass(nn.Module):
    """One weight for each prototype; no connection to other classes."""

    labels: Tensor

    def __init__(self, labels: Int64[Tensor, " protos"], num_classes: int, own_weight: float) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.register_buffer("labels", labels, persistent=False)
        self.weight = nn.Parameter(torch.full((len(labels),), float(own_weight)))

    def forward(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """Weighs and adds up."""
        weighted = scores * self.weight.to(scores.dtype)
        return weighted.new_zeros(len(scores), self.num_classes).index_add(1, self.labels, weighted)

    def weights(self) -> Float[Tensor, "classes protos"]:
        """As they are now."""
        return _membership(self.labels, self.num_classes) * self.weight


Head = ClassSum | Linear | OwnClass
HEADS: Mapping[str, Callable[[Tensor, int, Architecture], Head]] = {
    "class_sum": lambda labels, classes, _: ClassSum(labels, classes),
    "linear": lambda labels, classes, how: Linear(labels, classes, how.own_weight, how.other_weight, learns=True),
    "frozen": lambda labels, classes, how: Linear(labels, classes, how.own_weight, how.other_weight, learns=False),
    "own_class": lambda labels, classes, how: OwnClass(labels, classes, how.own_weight),
}


def _membership(labels: Tensor, num_classes: int) -> Tensor:
    return torch.arange(num_classes, device=labels.device)[:, None] == labels[None, :]

"""Reasons: why a class gets its logit, as records that views render: addends of a sum, or branches of a tree.

Every kind of reasons can be worked out again from the scores (`logits`), by arithmetic of its own in double precision:
an audit compares that with what the network answered.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from pixpnet.parts.binary_tree import BinaryTree, Inference, Turn


class NoReasons(ValueError):
    """A decision cannot say why a class gets its logit; the message says why not."""


class NoBounds(ValueError):
    """Bounds on distances or scores say nothing about an answer; the message says why not."""


class NoEdit(ValueError):
    """Prototypes of a network cannot be removed, or required, without retraining; the message says why not."""


class ExplanationSize(NamedTuple):
    """How many elements (scores, and weights they are multiplied with) explain one logit, as the paper counts them.

    What is counted are the connections of the decision, as in the paper's Table 1, not the weights that training left
    at 0. On CUB-200-2011 (P = 2000, C = 200): 20 and 4000 for a fully connected head, 10 and 10 for the class sum.
    """

    positive: int
    both: int


@dataclass(frozen=True)
class Sum:
    """Reasons that are addends: a logit is `constant` and the sum of `weights` times scores.

    Attributes:
        weights: for each class that was asked for, of each prototype; exactly 0 where they are not connected.
        constant: for each class that was asked for.
    """

    weights: Float[Tensor, "labels protos"]
    constant: Float[Tensor, " labels"]

    def logits(self, scores: Float[Tensor, " protos"]) -> Float[Tensor, " labels"]:
        """What the reasons come to, in double precision: the logits, if they are true."""
        return self.constant.double() + self.weights.double() @ scores.double()

    def magnitude(self, scores: Float[Tensor, " protos"]) -> Float[Tensor, " labels"]:
        """The sum of the absolute values of what is added up, of which rounding is a share."""
        return self.constant.double().abs() + self.weights.double().abs() @ scores.double().abs()

    def connections(self) -> list[list[tuple[int, float]]]:
        """For each class, the prototypes whose weight is not exactly 0, and their weights.

        >>> Sum(torch.tensor([[0.0, 2.0]]), torch.zeros(1)).connections()
        [[(1, 2.0)]]
        """
        # As lists: each call of torch costs more than what it does to so few numbers.
        return [[(number, weight) for number, weight in enumerate(row) if weight] for row in self.weights.tolist()]

    def constants(self) -> list[float]:
        """The constant of each class, as numbers."""
        constants: list[float] = self.constant.tolist()
        return constants


class OwnSum(Sum):
    """The sum of the scores of a class's own prototypes; the table of weights is made only if somebody asks for it.

    >>> reasons = OwnSum([(0, 2), (1,)], 3, torch.device("cpu"))
    >>> reasons.weights.tolist(), reasons.connections()
    ([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], [[(0, 1.0), (2, 1.0)], [(1, 1.0)]])
    """

    def __init__(self, own: Sequence[Sequence[int]], num_prototypes: int, device: torch.device) -> None:
        """Reasons for some classes.

        Args:
            own: for each class that was asked for, the numbers of its prototypes.
            num_prototypes: of all classes.
            device: where weights and constants are.
        """
        self._own, self._num_prototypes, self._device = own, num_prototypes, device

    @property
    def weights(self) -> Float[Tensor, "labels protos"]:
        """See `Sum`."""
        weights = torch.zeros(len(self._own), self._num_prototypes, device=self._device)
        for row, numbers in zip(weights, self._own, strict=True):
            row[list(numbers)] = 1.0
        return weights

    @property
    def constant(self) -> Float[Tensor, " labels"]:
        """No constant is added."""
        return torch.zeros(len(self._own), device=self._device)

    def connections(self) -> list[list[tuple[int, float]]]:
        """See `Sum`."""
        return [[(number, 1.0) for number in numbers] for numbers in self._own]

    def constants(self) -> list[float]:
        """See `constant`; without a tensor."""
        return [0.0] * len(self._own)


@dataclass(frozen=True)
class Route:
    """The way from the root to one leaf, for one class.

    Attributes:
        leaf: the leaf that gives the class most of its probability (where only one leaf counts: that one).
        turns: what was found, and what was not, from the root on.
        log_probabilities: of each turn, as it was taken.
        weight: what share of the answer the leaf has: the product of the probabilities, or 1 where one leaf counts.
        log_leaf_probability: of the class, by the leaf alone.
        leaf_label: the class that the leaf gives most to.
    """

    leaf: int
    turns: tuple[Turn, ...]
    log_probabilities: tuple[float, ...]
    weight: float
    log_leaf_probability: float
    leaf_label: int


@dataclass(frozen=True)
class Path:
    """Reasons that are branches: a class's probability is what the leaves of a tree give it; its logit is the log.

    Attributes:
        routes: for each class that was asked for.
        inference: which leaves count: all by their probability, the most probable one, or the one that is reached by
            turning right wherever a prototype is more likely found than not.
        tree: which node or leaf follows which.
        log_leaves: the log of what each leaf gives to each class that was asked for.
    """

    routes: tuple[Route, ...]
    inference: Inference
    tree: BinaryTree
    log_leaves: Float64[Tensor, "leaves labels"]

    @property
    def soft(self) -> bool:
        """Whether all leaves count."""
        return self.inference == "soft"

    def logits(self, scores: Float[Tensor, " protos"]) -> Float[Tensor, " labels"]:
        """The logs of the probabilities, turn by turn from the root on, in double precision."""
        logs = self.tree.log_weights(scores.double().tolist())
        if self.inference == "soft":
            weights = torch.tensor(logs, dtype=torch.float64)
            return torch.logsumexp(weights[:, None] + self.log_leaves, dim=0).to(scores.device)
        probabilities = [math.exp(score) for score in scores.double().tolist()]
        most = max(range(self.tree.num_leaves), key=logs.__getitem__)
        leaf = most if self.inference == "sample_max" else self.tree.greedy_leaf(probabilities)
        return self.log_leaves[leaf].to(scores.device)

    def magnitude(self, scores: Float[Tensor, " protos"]) -> Float[Tensor, " labels"]:
        """Of what the logs are rounded by a share: of their own size, and of the numbers they are the logs of."""
        return 1 + self.logits(scores).abs()


Reasons = Sum | Path

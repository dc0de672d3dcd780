"""Decisions: from scores to logits (Sec. 4, "Simplified Classification Head"), and the reasons for each logit.

A decision says how it reasons (`reasons`), how much of that a person must read (`size`), and whether that is what
desideratum 3 asks for (`form`). Whoever explains, audits or measures asks the decision, never which one it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pixpnet.parts.binary_tree import BinaryTree
from pixpnet.parts.matches import Matches
from pixpnet.parts.ownership import Ownership
from pixpnet.parts.ranking import ROUNDING, RankedScores, first_length
from pixpnet.parts.reasons import ExplanationSize, OwnSum, Reasons, Sum

# Logits of every image without each of these.
_PROTOTYPES_AT_ONCE = 64


class Decision(nn.Module, ABC):
    """From scores to logits."""

    def forward(self, matches: Matches) -> Float[Tensor, "batch classes"]:
        """The logits of images; a decision that learns from more than scores reads it here."""
        return self.logits(matches.scores)

    @abstractmethod
    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """The logits of scores, as a trained network answers."""

    @abstractmethod
    def reasons(self, scores: Float[Tensor, " protos"], labels: Sequence[int]) -> Reasons:
        """Why these classes get their logits.

        Raises:
            NoReasons: if they cannot be told; an audit then says that desideratum 3 fails.
        """

    @abstractmethod
    def decides(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """Whether the answer to an image would be another one if a prototype did not exist."""

    @abstractmethod
    def least_leads(
        self, label: int, low: Float64[Tensor, "cases protos"], high: Float64[Tensor, "cases protos"]
    ) -> Float64[Tensor, "cases classes"]:
        """By how much a class leads every class at the least, whatever each score is between its two bounds.

        What is positive for every other class is a certificate: no scores within the bounds change the answer. For the
        class itself it is 0. Leads are of logits, or of what orders classes in the same way.

        Args:
            label: the class that leads.
            low: the least that each score can be, finite.
            high: the largest that each score can be, finite; the same number where a score is known.

        Raises:
            NoBounds: if bounds on scores say nothing about this decision.
        """

    def deciding_length(self, label: int, ranked: RankedScores) -> int | None:
        """How many of the largest scores of an image decide that it gets a class, whatever the others are.

        No other score exceeds the last of the list, or falls below the least that it can be. A longer list narrows
        these bounds, so the shortest is found by dividing.

        Returns:
            None where not even all scores decide, because two classes are equal up to rounding.

        Raises:
            NoBounds: if bounds on scores say nothing about this decision.
        """
        device = next(iter((*self.parameters(), *self.buffers())), torch.zeros(0)).device
        scores, least, rank = (torch.from_numpy(part).to(device) for part in (ranked.scores, ranked.least, ranked.rank))

        def decide(length: int) -> bool:
            known, limit = rank < length, ranked.limit(length)
            # A score may lie below what its comparison can give by a rounding error.
            low = torch.where(known, scores, least.clamp(max=limit))
            leads = self.least_leads(label, low[None], torch.where(known, scores, limit)[None])[0]
            largest = float(leads.abs().max())  # the lead over the class itself is 0
            leads[label] = torch.inf
            return float(leads.min()) > ROUNDING * largest

        return first_length(len(ranked.order), decide)

    @abstractmethod
    def uses(self, least: float) -> Bool[Tensor, " protos"]:
        """Which prototypes count for some class with a weight above `least`."""

    @abstractmethod
    def size(self) -> ExplanationSize:
        """How many elements a person must read to follow one logit."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for files."""

    @property
    @abstractmethod
    def form(self) -> str:
        """What it does, in words."""

    @property
    @abstractmethod
    def own_only(self) -> bool:
        """Whether a class is connected with its own prototypes only, so that all reasons can be listed."""

    @property
    def asks_for_fields(self) -> bool:
        """Whether what cells see decides something here, so that it must be told (`set_field_shares`)."""
        return False

    def set_field_shares(self, shares: Float[Tensor, " protos"]) -> None:
        """Is told what share of the image a cell of each prototype's grid sees, on average at the training size."""

    def speaking(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """Which prototypes count in an image for the classes that they speak for; mostly all of them."""
        return torch.ones_like(scores, dtype=torch.bool)

    @property
    def choice_note(self) -> str | None:
        """How it chooses the prototypes that speak in an image, as a sentence's middle; None where all of them do."""
        return None

    @property
    def claim(self) -> str:
        """What desideratum 3 asks of it, in words, for an audit that puts it to the test."""
        return "a logit is a linear model of scores"

    def tree(self) -> BinaryTree | None:
        """The tree by which it decides, where it is one, so that it can be drawn."""
        return None

    def leaves(self) -> Float[Tensor, "leaves classes"] | None:
        """What each leaf of its tree gives to each class."""
        return None

    def readings(self, scores: Float[Tensor, "batch protos"]) -> Mapping[str, Int64[Tensor, " batch"]]:
        """The answers that other rules would give to the same scores, by the names of the rules; mostly none."""
        return {}

    def off_class(self) -> Float[Tensor, " connections"]:
        """The weights that it learns between prototypes and classes that they do not speak for."""
        return next(self.parameters(), torch.zeros(0)).new_zeros(0)


class LinearDecision(Decision):
    """A decision whose logits are weighted sums of scores."""

    @abstractmethod
    def weights(self) -> Float[Tensor, "classes protos"]:
        """What each score is multiplied with for each class; exactly 0 where they are not connected."""

    def reasons(self, scores: Float[Tensor, " protos"], labels: Sequence[int]) -> Sum:
        """See `Decision`."""
        weights = self.weights_for(labels)
        return Sum(weights, weights.new_zeros(len(weights)))

    def weights_for(self, labels: Sequence[int]) -> Float[Tensor, "labels protos"]:
        """The rows of `weights` for some classes."""
        return self.weights()[list(labels)]

    def decides(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """Takes each prototype's addends away from all logits, without any forward pass; of equals the first wins."""
        weights, exact = self.weights().detach().double(), scores.double()
        logits = exact @ weights.T
        answers = logits.argmax(dim=1, keepdim=True)
        changed = [
            (logits[:, None] - exact[:, some, None] * weights.T[some]).argmax(dim=2) != answers
            for some in torch.arange(exact.shape[1], device=scores.device).split(_PROTOTYPES_AT_ONCE)
        ]
        return torch.cat(changed, dim=1)

    def least_leads(
        self, label: int, low: Float64[Tensor, "cases protos"], high: Float64[Tensor, "cases protos"]
    ) -> Float64[Tensor, "cases classes"]:
        """A score is as low as can be where it speaks for the class, and as high as can be where against it."""
        weights = self.weights().detach().double()
        differences = weights[label] - weights
        return (low + high) / 2 @ differences.T - (high - low) / 2 @ differences.abs().T

    def uses(self, least: float) -> Bool[Tensor, " protos"]:
        """See `Decision`."""
        return (self.weights().detach() > least).any(dim=0)


def decides_own_class(
    addends: Float[Tensor, "batch protos"], labels: Int64[Tensor, " protos"], num_classes: int
) -> Bool[Tensor, "batch protos"]:
    """`Decision.decides` where each prototype adds to the logit of one class: no table of classes x prototypes.

    Args:
        addends: of each prototype to the logit of its class, in double precision.
        labels: the class of each prototype.
        num_classes: how many there are, at least one; of equals the first wins.

    >>> decides_own_class(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0, 0, 1]), 2).tolist()
    [[True, False, False]]
    """
    logits = addends.new_zeros(len(addends), num_classes).index_add(1, labels, addends)
    best, answer = logits.max(dim=1, keepdim=True)
    rival, second = logits.scatter(1, answer, float("-inf")).max(dim=1, keepdim=True)
    without = logits[:, labels] - addends
    # The answer's own prototypes: another class may win. Those of other classes: theirs may, if they spoke against it.
    loses = (without < rival) | ((without == rival) & (second < answer))
    wins = (without > best) | ((without == best) & (labels < answer))
    return torch.where(labels == answer, loses & (num_classes > 1), wins)


class ClassSum(LinearDecision):
    """The logit of a class is the sum of the scores of its prototypes; nothing is learnt.

    >>> from pixpnet.parts.ownership import OneClassEach
    >>> decision = ClassSum(OneClassEach(torch.tensor([0, 0, 1]), 2))
    >>> decision.logits(torch.tensor([[1.0, 2.0, 4.0]])).tolist()
    [[3.0, 4.0]]
    """

    name = "class_sum"
    form = "a class's logit is the sum of the scores of its own prototypes"
    own_only = True
    labels: Tensor

    def __init__(self, ownership: Ownership) -> None:
        super().__init__()
        self.num_classes, self.num_prototypes = ownership.mask().shape
        self.register_buffer("labels", ownership.labels.clone(), persistent=False)
        self._own: list[tuple[int, ...]] = []

    def reasons(self, scores: Float[Tensor, " protos"], labels: Sequence[int]) -> Sum:
        """Without weights of all prototypes, of which there are 50,000 for 5,000 classes."""
        own = self._own or self._own_prototypes()
        return OwnSum([own[label] for label in labels], self.num_prototypes, self.labels.device)

    def _own_prototypes(self) -> list[tuple[int, ...]]:
        own: list[list[int]] = [[] for _ in range(self.num_classes)]
        for prototype, label in enumerate(self.labels.tolist()):
            own[label].append(prototype)
        self._own = list(map(tuple, own))
        return self._own

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """See `Decision`."""
        return scores.new_zeros(scores.shape[0], self.num_classes).index_add(1, self.labels, scores)

    def least_leads(
        self, label: int, low: Float64[Tensor, "cases protos"], high: Float64[Tensor, "cases protos"]
    ) -> Float64[Tensor, "cases classes"]:
        """No prototype has two classes, so bounds on the sums are all there is to know."""
        leads = self.logits(low)[:, label, None] - self.logits(high)
        leads[:, label] = 0.0
        return leads

    def deciding_length(self, label: int, ranked: RankedScores) -> int | None:
        """With known scores and the limit for the rest, a class gets at most the sum of the larger of the two."""
        scores, classes = ranked.scores, self.labels.cpu().numpy()
        own = np.flatnonzero(classes == label)
        ranks, least, own_scores = ranked.rank[own], ranked.least[own], scores[own]

        def decide(length: int) -> bool:
            limit = ranked.limit(length)
            low = np.where(ranks < length, own_scores, np.minimum(least, limit)).sum()
            sums = np.bincount(classes, np.maximum(scores, limit), self.num_classes)
            sums[label] = -np.inf
            rival = sums.max()
            return bool(low - rival > ROUNDING * max(abs(low), abs(rival)))

        return first_length(len(scores), decide)

    def decides(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """See `Decision`."""
        return decides_own_class(scores.double(), self.labels, self.num_classes)

    def weights(self) -> Float[Tensor, "classes protos"]:
        """1 for a class's own prototypes, 0 for the others."""
        return (torch.arange(self.num_classes, device=self.labels.device)[:, None] == self.labels).float()

    def size(self) -> ExplanationSize:
        """Own scores only, and no weights: P / C and P / C."""
        own = self.num_prototypes // self.num_classes
        return ExplanationSize(own, own)


class Linear(LinearDecision):
    """A weight for each class and prototype: at first `own_weight` within a class and `other_weight` across."""

    own_only = False
    own: Tensor

    def __init__(self, ownership: Ownership, own_weight: float, other_weight: float, learns: bool) -> None:
        super().__init__()
        mask = ownership.mask()
        self.learns = learns
        self.register_buffer("own", mask, persistent=False)
        self.weight = nn.Parameter(torch.where(mask, float(own_weight), float(other_weight)), requires_grad=learns)

    @property
    def name(self) -> str:
        """`linear` where weights are learnt, else `frozen`."""
        return "linear" if self.learns else "frozen"

    @property
    def form(self) -> str:
        """See `Decision`."""
        kind = "a weighted sum" if self.learns else "a weighted sum, with fixed weights,"
        return f"a class's logit is {kind} of the scores of all prototypes"

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """See `Decision`."""
        return F.linear(scores, self.weight.to(scores.dtype))

    def weights(self) -> Float[Tensor, "classes protos"]:
        """The learnt weights."""
        return self.weight

    def off_class(self) -> Float[Tensor, " connections"]:
        """See `Decision`."""
        return self.weight[~self.own]

    def size(self) -> ExplanationSize:
        """A score and a weight for each own prototype, 2 P / C (their mean); the others count against it, 2 P."""
        classes, prototypes = self.weight.shape
        return ExplanationSize(2 * (int(self.own.sum()) // classes), 2 * prototypes)


class OwnClass(LinearDecision):
    """One weight for each prototype; no connection to other classes."""

    name = "own_class"
    form = "a class's logit is a weighted sum of the scores of its own prototypes"
    own_only = True
    labels: Tensor

    def __init__(self, ownership: Ownership, own_weight: float) -> None:
        super().__init__()
        self.num_classes, count = ownership.mask().shape
        self.register_buffer("labels", ownership.labels.clone(), persistent=False)
        self.weight = nn.Parameter(torch.full((count,), float(own_weight)))

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """See `Decision`."""
        weighted = scores * self.weight.to(scores.dtype)
        return weighted.new_zeros(scores.shape[0], self.num_classes).index_add(1, self.labels, weighted)

    def decides(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """See `Decision`."""
        return decides_own_class(scores.double() * self.weight.detach().double(), self.labels, self.num_classes)

    def weights(self) -> Float[Tensor, "classes protos"]:
        """The learnt weight of each prototype, for its own class."""
        return self.weights_for(range(self.num_classes))

    def weights_for(self, labels: Sequence[int]) -> Float[Tensor, "labels protos"]:
        """Without those of all classes, which take a gigabyte for 5,000 of them."""
        return (torch.tensor(labels, device=self.labels.device)[:, None] == self.labels) * self.weight

    def size(self) -> ExplanationSize:
        """A score and a weight for each own prototype: 2 P / C and 2 P / C."""
        own = 2 * (len(self.weight) // self.num_classes)
        return ExplanationSize(own, own)

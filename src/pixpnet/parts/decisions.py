"""Decisions: from scores to logits (Sec. 4, "Simplified Classification Head"), and the reasons for each logit.

A decision says how it reasons (`reasons`), how much of that a person must read (`size`), and whether that is what
desideratum 3 asks for (`form`). Whoever explains, audits or measures asks the decision, never which one it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from pixpnet.parts.binary_tree import BinaryTree
from pixpnet.parts.matches import Matches
from pixpnet.parts.ownership import Ownership
from pixpnet.parts.ranking import ROUNDING, RankedScores, first_length
from pixpnet.parts.reasons import ExplanationSize, NoEdit, NoReasons, Reasons, Sum

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

    def addends(
        self, scores: Float[Tensor, "batch protos"], labels: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch protos"]:
        """What each prototype adds to the logit of one class of each image.

        Raises:
            NoReasons: if logits are no sums.
        """
        raise NoReasons(f"{self.form}: nothing is added up, so nothing can be counted")

    def largest_addends(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch protos"]:
        """The most that each prototype adds to the logit of any class; see `addends`."""
        raise NoReasons(f"{self.form}: nothing is added up, so nothing can be counted")

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

    @property
    def learns_weights(self) -> bool:
        """Whether its weights were fitted to data, so that those of others may be fitted anew when one is removed."""
        return False

    def reweighted(self, ownership: Ownership) -> "EditableDecision":
        """A decision with the same answers whose weights can be changed one by one.

        Raises:
            NoEdit: if there is none; the message says why.
        """
        raise NoEdit(f"prototypes of this network cannot be removed one by one, because {self.form}")


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

    def addends(self, scores: Tensor, labels: Int64[Tensor, " batch"]) -> Float[Tensor, "batch protos"]:
        """See `Decision`."""
        return scores * self.weights_for(labels.tolist()).detach().to(scores)

    def largest_addends(self, scores: Tensor) -> Float[Tensor, "batch protos"]:
        """A score that is not negative adds most where its weight is largest, a negative one where it is least."""
        least, most = self.weights().detach().to(scores).aminmax(dim=0)
        return torch.maximum(scores * most, scores * least)


class Connections(NamedTuple):
    """The weights of a decision as a list: a logit is the sum of weights times scores over the lines of its class."""

    classes: Int64[Tensor, " connections"]
    prototypes: Int64[Tensor, " connections"]
    weights: Float64[Tensor, " connections"]

    def logits(self, scores: Float[Tensor, "batch protos"], num_classes: int) -> Float64[Tensor, "batch classes"]:
        """The logits of scores, in double precision."""
        addends = scores.double()[:, self.prototypes] * self.weights
        return addends.new_zeros(len(scores), num_classes).index_add(1, self.classes, addends)


class EditableDecision(LinearDecision):
    """A decision whose weights can be changed one by one."""

    @abstractmethod
    def connections(self) -> Connections:
        """Every weight, with the class and the prototype that it connects; on the CPU."""

    @abstractmethod
    def set_weights(self, weights: Float[Tensor, " connections"]) -> None:
        """Takes other weights, in the order of `connections`; exactly 0 is no connection."""


def own_or_nothing(addends: Float[Tensor, "batch protos"], num_classes: int) -> Float[Tensor, "batch protos"]:
    """`Decision.largest_addends` where each prototype adds to one class: to any other one it adds nothing."""
    return addends.clamp_min(0.0) if num_classes > 1 else addends


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

"""Decisions that add up scores (Sec. 4): of a class's own prototypes, or of all, with weights or without."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pixpnet.parts.decisions import Connections, EditableDecision, LinearDecision, decides_own_class, own_or_nothing
from pixpnet.parts.ownership import Ownership
from pixpnet.parts.ranking import ROUNDING, RankedScores, first_length
from pixpnet.parts.reasons import ExplanationSize, OwnSum, Sum


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
        # The same as a table, a column for each class; empty where classes have not equally many prototypes.
        self._own_table: Int64[np.ndarray, "per_class classes"] = np.zeros((0, 0), np.int64)

    def reasons(self, scores: Float[Tensor, " protos"], labels: Sequence[int]) -> Sum:
        """Without weights of all prototypes, of which there are 50,000 for 5,000 classes."""
        own = self._own or self._own_prototypes()
        return OwnSum([own[label] for label in labels], self.num_prototypes, self.labels.device)

    def _own_prototypes(self) -> list[tuple[int, ...]]:
        own: list[list[int]] = [[] for _ in range(self.num_classes)]
        for prototype, label in enumerate(self.labels.tolist()):
            own[label].append(prototype)
        if len({len(prototypes) for prototypes in own}) == 1:
            self._own_table = np.array(own, dtype=np.int64).T
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
        scores, own = ranked.scores, list((self._own or self._own_prototypes())[label])
        # Lists: there are few, and each call of NumPy costs more than what it does to them.
        known = list(zip(ranked.rank[own].tolist(), scores[own].tolist(), ranked.least[own].tolist(), strict=True))
        largest_rival = self._largest_rival(label, scores)

        def decide(length: int) -> bool:
            limit = ranked.limit(length)
            low = sum(score if rank < length else min(least, limit) for rank, score, least in known)
            rival = largest_rival(limit)
            return bool(low - rival > ROUNDING * max(abs(low), abs(rival)))

        return first_length(len(scores), decide)

    def _largest_rival(self, label: int, scores: Float64[np.ndarray, " protos"]) -> Callable[[float], float]:
        """From a limit to the most that any other class gets: the sum of the larger of score and limit."""
        if self._own_table.size:
            # That sum is the largest that k limits and the other, larger scores of a class come to, over all k. So for
            # each k one class is enough, and it is the same for every limit.
            per_class, classes = self._own_table.shape
            largest_sums = np.zeros((per_class + 1, classes))
            np.cumsum(np.sort(scores[self._own_table], axis=0)[::-1], axis=0, out=largest_sums[1:])
            largest_sums[:, label] = -np.inf
            lines = list(zip(range(per_class, -1, -1), largest_sums.max(axis=1).tolist(), strict=True))
            return lambda limit: max(limits * limit + larger for limits, larger in lines)
        classes = self.labels.cpu().numpy()

        def by_labels(limit: float) -> float:
            sums = np.bincount(classes, np.maximum(scores, limit), self.num_classes)
            sums[label] = -np.inf
            return float(sums.max())

        return by_labels

    def decides(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """See `Decision`."""
        return decides_own_class(scores.double(), self.labels, self.num_classes)

    def reweighted(self, ownership: Ownership) -> "OwnClass":
        """A weight of 1 for each prototype."""
        return OwnClass(ownership, 1.0, learns=False)

    def weights(self) -> Float[Tensor, "classes protos"]:
        """1 for a class's own prototypes, 0 for the others."""
        return (torch.arange(self.num_classes, device=self.labels.device)[:, None] == self.labels).float()

    def weights_for(self, labels: Sequence[int]) -> Float[Tensor, "labels protos"]:
        """Without the weights of all classes."""
        return (torch.tensor(labels, device=self.labels.device)[:, None] == self.labels).float()

    def largest_addends(self, scores: Tensor) -> Float[Tensor, "batch protos"]:
        """Itself for its own class, nothing for others, where there are any."""
        return own_or_nothing(scores, self.num_classes)

    def size(self) -> ExplanationSize:
        """Own scores only, and no weights: P / C and P / C."""
        own = self.num_prototypes // self.num_classes
        return ExplanationSize(own, own)


class Linear(EditableDecision):
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

    @property
    def learns_weights(self) -> bool:
        """Where they are no fixed ones."""
        return self.learns

    def reweighted(self, ownership: Ownership) -> "Linear":
        """Itself: it has a weight for each class and prototype."""
        return self

    def connections(self) -> Connections:
        """Row by row."""
        classes, prototypes = self.weight.shape
        rows = torch.arange(classes).repeat_interleave(prototypes)
        return Connections(
            rows, torch.arange(prototypes).repeat(classes), self.weight.detach().cpu().double().flatten()
        )

    def set_weights(self, weights: Float[Tensor, " connections"]) -> None:
        """See `EditableDecision`."""
        self.weight.data.copy_(weights.view_as(self.weight))

    def off_class(self) -> Float[Tensor, " connections"]:
        """See `Decision`."""
        return self.weight[~self.own]

    def size(self) -> ExplanationSize:
        """A score and a weight for each own prototype, 2 P / C (their mean); the others count against it, 2 P."""
        classes, prototypes = self.weight.shape
        return ExplanationSize(2 * (int(self.own.sum()) // classes), 2 * prototypes)


class OwnClass(EditableDecision):
    """One weight for each prototype; no connection to other classes."""

    name = "own_class"
    form = "a class's logit is a weighted sum of the scores of its own prototypes"
    own_only = True
    labels: Tensor

    def __init__(self, ownership: Ownership, own_weight: float, learns: bool = True) -> None:
        super().__init__()
        self.learns = learns
        self.num_classes, count = ownership.mask().shape
        self.register_buffer("labels", ownership.labels.clone(), persistent=False)
        self.weight = nn.Parameter(torch.full((count,), float(own_weight)), requires_grad=learns)

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

    def largest_addends(self, scores: Tensor) -> Float[Tensor, "batch protos"]:
        """What it adds for its own class, nothing for others, where there are any."""
        return own_or_nothing(scores * self.weight.detach().to(scores), self.num_classes)

    def size(self) -> ExplanationSize:
        """A score and a weight for each own prototype: 2 P / C and 2 P / C."""
        own = 2 * (len(self.weight) // self.num_classes)
        return ExplanationSize(own, own)

    @property
    def learns_weights(self) -> bool:
        """Where it is not made of a sum without weights."""
        return self.learns

    def reweighted(self, ownership: Ownership) -> "OwnClass":
        """Itself: it has a weight for each prototype."""
        return self

    def connections(self) -> Connections:
        """One for each prototype."""
        return Connections(self.labels.cpu(), torch.arange(len(self.weight)), self.weight.detach().cpu().double())

    def set_weights(self, weights: Float[Tensor, " connections"]) -> None:
        """See `EditableDecision`."""
        self.weight.data.copy_(weights)

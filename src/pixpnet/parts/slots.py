"""ProtoPool's slots: classes share a pool of prototypes, and learn which of them they hold.

Each class has some slots, and each slot a logit for every prototype of the pool. While learning, a slot holds a soft
mixture of prototypes, drawn anew in every step (Gumbel softmax, sharper from epoch to epoch); their *distances* are
mixed, and the similarity is taken of the mixture. A trained network answers without any noise: each slot holds the
prototype of its largest logit. Then a class's logit is a weighted sum of the scores of prototypes; slots that hold the
same prototype add their weights.
"""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pixpnet.parts.decisions import LinearDecision
from pixpnet.parts.losses import Step
from pixpnet.parts.matches import Matches
from pixpnet.parts.ownership import NOBODY, Ownership
from pixpnet.parts.pooling import focal
from pixpnet.parts.reasons import ExplanationSize
from pixpnet.parts.similarities import Similarity

Mixture = Float[Tensor, "classes protos slots"]


class SlotDecision(LinearDecision):
    """A weight for each class and slot, of all classes: at first `own_weight` within a class and `other_weight` across.

    Attributes:
        slots: how much each slot of each class is for each prototype.
        weight: of each slot, of all classes one after the other, for each class.
        scale: of `slots` in the softmax while learning; actions raise it (annealing). It is no part of what is saved.
    """

    name = "slots"
    form = "a class's logit is a weighted sum of the scores of the prototypes that any class holds in its slots"
    own_only = False
    own: Tensor

    def __init__(
        self,
        num_classes: int,
        num_prototypes: int,
        num_slots: int,
        similarity: Similarity,
        temperature: float = 0.5,
        own_weight: float = 1.0,
        other_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.similarity = similarity
        self.temperature = temperature
        self.scale = 1.0
        self.slots = nn.Parameter(torch.empty(num_classes, num_prototypes, num_slots))
        nn.init.xavier_normal_(self.slots)
        own = torch.eye(num_classes, dtype=torch.bool).repeat_interleave(num_slots, dim=1)
        self.register_buffer("own", own, persistent=False)
        self.weight = nn.Parameter(torch.where(own, float(own_weight), float(other_weight)))

    def forward(self, matches: Matches) -> Float[Tensor, "batch classes"]:
        """While learning, logits of a mixture that is drawn now; else those of the prototypes that slots hold."""
        return self.mixed(matches, self.draw()) if self.training else self.logits(matches.scores)

    def draw(self) -> Mixture:
        """What share of each slot each prototype has, with noise of torch's own generator; a scale of 0 draws none."""
        if not self.scale:
            return self.slots.softmax(dim=1)
        return F.gumbel_softmax(self.scale * self.slots, tau=self.temperature, dim=1)

    def mixed(self, matches: Matches, mixture: Mixture) -> Float[Tensor, "batch classes"]:
        """The logits where slots hold mixtures of prototypes: distances are mixed before the similarity is taken.

        Raises:
            ValueError: if the matches have no background.
        """
        if matches.background is None:
            raise ValueError("slots mix the distances of cells with those of the background: pool with Focal")
        with torch.autocast(matches.distances.device.type, enabled=False):
            table = mixture.transpose(0, 1).flatten(1).to(matches.distances.dtype)
            scores = focal(matches.distances @ table, matches.background @ table, self.similarity)
            return F.linear(scores, self.weight.to(scores.dtype))

    def held(self) -> Int64[Tensor, "classes slots"]:
        """The prototype that each slot holds; of equals the first."""
        return self.slots.detach().argmax(dim=1)

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """See `Decision`."""
        return F.linear(scores, self.weights().to(scores.dtype))

    def weights(self) -> Float[Tensor, "classes protos"]:
        """The sum of the weights of the slots that hold a prototype; exactly 0 for one that no class holds."""
        nothing = self.weight.new_zeros(self.slots.shape[:2])
        return nothing.index_add(1, self.held().flatten(), self.weight)

    def off_class(self) -> Float[Tensor, " connections"]:
        """The weights between a class and the slots of others."""
        return self.weight[~self.own]

    def size(self) -> ExplanationSize:
        """A score and a weight for each own slot, and for each prototype of the pool (Table 1: 20 and 404 on CUB)."""
        _, prototypes, slots = self.slots.shape
        return ExplanationSize(2 * slots, 2 * prototypes)

    @property
    def learns_weights(self) -> bool:
        """See `Decision`."""
        return True


class SlotOwnership(Ownership):
    """A class owns the prototypes that its slots hold; one may have several owners, or none.

    >>> from pixpnet.parts.similarities import Original
    >>> decision = SlotDecision(2, 3, 2, Original(1e-4))
    >>> decision.slots.data = torch.tensor([[[9.0, 0], [0, 9], [0, 0]], [[0, 0], [9, 9], [0, 0]]])
    >>> SlotOwnership(decision).mask().tolist(), SlotOwnership(decision).labels.tolist()
    ([[True, True, False], [False, True, False]], [0, 0, -1])
    """

    def __init__(self, decision: SlotDecision) -> None:
        super().__init__()
        # In a tuple, so that the decision's parameters are not this module's too, and in files twice.
        self._decision = (decision,)

    @property
    def labels(self) -> Int64[Tensor, " protos"]:  # type: ignore[override]
        """The first class that holds each prototype, -1 where none does."""
        mask = self.mask()
        return mask.int().argmax(dim=0).masked_fill(~mask.any(dim=0), NOBODY)

    def mask(self) -> Bool[Tensor, "classes protos"]:
        """See `Ownership`."""
        held = self._decision[0].held()
        nothing = torch.zeros(self._decision[0].slots.shape[:2], dtype=torch.bool, device=held.device)
        return nothing.scatter(1, held, value=True)

    def sources(self) -> Bool[Tensor, "classes protos"]:
        """Images of all classes that hold it; of any class where none does."""
        mask = self.mask()
        return mask | ~mask.any(dim=0)

    def rivals(self) -> tuple[Int64[Tensor, " _some"], ...]:
        """The whole pool: its prototypes may meet in any class."""
        slots = self._decision[0].slots
        return (torch.arange(slots.shape[1], device=slots.device),)


def own_sets(mixture: Mixture, labels: Int64[Tensor, " batch"]) -> Bool[Tensor, "batch protos"]:
    """The prototypes that have the largest share in a class's slots, as many as it has slots; the others are the rest.

    >>> mixture = torch.tensor([[[0.9, 0.8], [0.1, 0.0], [0.0, 0.2]]])
    >>> own_sets(mixture, torch.tensor([0])).tolist()
    [[True, False, True]]
    """
    shares = mixture.detach().sum(dim=2)
    chosen = shares.topk(mixture.shape[2], dim=1).indices
    return torch.zeros_like(shares, dtype=torch.bool).scatter(1, chosen, value=True)[labels]


def slot_orthogonality(step: Step) -> Float[Tensor, ""]:
    """`slot_orthogonality_loss` of the decision's slots."""
    decision = step.parts.decision
    assert isinstance(decision, SlotDecision)
    return slot_orthogonality_loss(decision.slots)


def slot_orthogonality_loss(slots: Mixture) -> Float[Tensor, ""]:
    """How alike the slots of a class are: the mean over slots of the sum of their cosines with all others.

    The sum of the cosines of all ordered pairs is the squared length of the sum of the directions.

    >>> slot_orthogonality_loss(torch.tensor([[[1.0, 2.0], [0.0, 0.0]]])).item()
    1.0
    """
    classes, _, count = slots.shape
    return F.normalize(slots, dim=1).sum(dim=2).square().sum() / (classes * count) - 1


def annealed(scale: float, epoch: int, epochs: int) -> float:
    """The scale of slots in an epoch, counted from 1: it rises as a root, and is full from `epochs` on.

    >>> annealed(1000.0, 30, 120), annealed(1000.0, 200, 120)
    (500.0, 1000.0)
    """
    share: float = min(1.0, epoch / epochs) ** 0.5
    return scale * share

"""A decision that chooses: of a class's prototypes, only those speak that score best, and large regions pay a price.

With grids of several sizes of regions a class has prototypes for parts and for wholes. The logit of a class is the sum
of the scores of `terms` of them: of those whose score *less a price* is largest. The price of a prototype is
`field_price` times the share of the image that a cell of its grid sees on average. So a whole is named only where it
says more than a part by what it costs more: at a price of 10, a grid whose cells see 30 % pays 3.0 and one of 4 % pays
0.4, and the large region must be 2.6 more similar to speak.

**Why in the choice of terms and not in the loss.** A loss on the size of regions would move weights, and leave as many
large regions in every answer as there are prototypes that look at them: the sum of all scores has a term for each. What
a person reads is decided by which terms there are. And the choice obeys a law, image by image, whatever was learnt: the
chosen set has the largest possible sum of scores minus the price of its area, so **for given scores a larger price
never makes the chosen regions larger** (let S be best at the price p and T at q > p; the two inequalities add up to
(q - p)(area of S - area of T) >= 0).

**Why the mean of the grid and not the cell's own field.** Fields at the border are clipped; a part is no better for
lying at the edge of the picture, and should not be chosen for it.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from pixpnet.parts.decisions import Decision
from pixpnet.parts.ownership import Ownership
from pixpnet.parts.reasons import ExplanationSize, Sum


class SelectedSum(Decision):
    """The logit of a class is the sum of the scores of those of its prototypes that score best, less their price.

    >>> from pixpnet.parts.ownership import OneClassEach
    >>> decision = SelectedSum(OneClassEach(torch.tensor([0, 0, 1, 1]), 2), terms=1, field_price=10.0)
    >>> decision.set_field_shares(torch.tensor([0.04, 0.3, 0.04, 0.3]))
    >>> decision.logits(torch.tensor([[2.0, 4.0, 2.0, 5.0]])).tolist()
    [[2.0, 5.0]]
    """

    name = "selected_sum"
    own_only = True
    own: Tensor
    prices: Tensor

    def __init__(self, ownership: Ownership, terms: int, field_price: float = 0.0) -> None:
        """Sums up some scores of each class.

        Args:
            ownership: each class has equally many prototypes, and no prototype has several classes.
            terms: how many of a class's prototypes speak in an image.
            field_price: what seeing the whole image would cost, in similarity.
        """
        super().__init__()
        mask = ownership.mask()
        self.num_classes, self.num_prototypes = mask.shape
        self.terms, self.field_price = terms, field_price
        order = ownership.labels.sort(stable=True).indices
        self.register_buffer("own", order.unflatten(0, (self.num_classes, -1)), persistent=False)
        self.register_buffer("prices", torch.zeros(self.num_prototypes), persistent=False)

    @property
    def asks_for_fields(self) -> bool:
        """Only where regions have a price."""
        return self.field_price > 0

    def set_field_shares(self, shares: Float[Tensor, " protos"]) -> None:
        """See `Decision`."""
        self.prices = (self.field_price * shares).to(self.prices)

    def speaking(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """The best of each class, less their price; of equals those with lower numbers."""
        priced = (scores.detach() - self.prices.to(scores.dtype))[:, self.own]
        order = priced.sort(dim=2, descending=True, stable=True).indices[..., : self.terms]
        chosen = torch.zeros_like(priced, dtype=torch.bool).scatter(2, order, True)
        speaking = torch.zeros_like(scores, dtype=torch.bool)
        speaking[:, self.own.flatten()] = chosen.flatten(1)
        return speaking

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """See `Decision`."""
        counted = torch.where(self.speaking(scores), scores, 0.0)
        return counted[:, self.own].sum(dim=2)

    def reasons(self, scores: Float[Tensor, " protos"], labels: Sequence[int]) -> Sum:
        """A weight of 1 for what speaks, and 0 for everything else."""
        chosen = list(labels)
        own = torch.zeros(len(chosen), self.num_prototypes, device=scores.device)
        own = own.scatter(1, self.own[chosen], 1.0)
        return Sum(own * self.speaking(scores[None]), scores.new_zeros(len(chosen)))

    def decides(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """Without a prototype the next best of its class speaks in its place."""
        exact = scores.double()
        logits = self.logits(exact)
        answers = logits.argmax(dim=1)
        decided = torch.zeros_like(scores, dtype=torch.bool)
        for label in range(self.num_classes):
            for prototype in self.own[label].tolist():
                other = logits.clone()
                other[:, label] = self._logit_without(exact, label, prototype)
                decided[:, prototype] = other.argmax(dim=1) != answers
        return decided

    def _logit_without(
        self, scores: Float[Tensor, "batch protos"], label: int, prototype: int
    ) -> Float[Tensor, " batch"]:
        rest = self.own[label][self.own[label] != prototype]
        priced = scores[:, rest] - self.prices[rest].to(scores.dtype)
        order = priced.sort(dim=1, descending=True, stable=True).indices[:, : self.terms]
        return scores[:, rest].gather(1, order).sum(dim=1)

    def least_leads(
        self, label: int, low: Float64[Tensor, "cases protos"], high: Float64[Tensor, "cases protos"]
    ) -> Float64[Tensor, "cases classes"]:
        """What surely speaks counts with its bound; of what may speak, the worst that the other places can come to."""
        leads = self._bounds(low, high)[0][:, label, None] - self._bounds(low, high)[1]
        leads[:, label] = 0.0
        return leads

    def _bounds(
        self, low: Float64[Tensor, "cases protos"], high: Float64[Tensor, "cases protos"]
    ) -> tuple[Float64[Tensor, "cases classes"], Float64[Tensor, "cases classes"]]:
        """The least and the largest that each logit can be."""
        prices = self.prices.to(low.dtype)
        least, most = (low - prices)[:, self.own], (high - prices)[:, self.own]
        ahead = (most[..., None, :] >= least[..., :, None]).sum(dim=-1) - 1  # of each, without itself
        surely = ahead < self.terms
        never = (least[..., None, :] > most[..., :, None]).sum(dim=-1) >= self.terms
        open_places = self.terms - surely.sum(dim=-1, keepdim=True)
        rank = torch.arange(self.own.shape[1], device=low.device)
        ends = []
        for scores, descending in ((low[:, self.own], False), (high[:, self.own], True)):
            beyond = -torch.inf if descending else torch.inf
            maybe = scores.masked_fill(surely | never, beyond).sort(dim=-1, descending=descending).values
            filled = torch.where(rank < open_places, maybe, 0.0).sum(dim=-1)
            ends.append(torch.where(surely, scores, 0.0).sum(dim=-1) + filled)
        return ends[0], ends[1]

    def uses(self, least: float) -> Bool[Tensor, " protos"]:
        """All of them: any may speak."""
        return torch.ones(self.num_prototypes, dtype=torch.bool, device=self.own.device) & (least < 1)

    def addends(self, scores: Tensor, labels: Int64[Tensor, " batch"]) -> Float[Tensor, "batch protos"]:
        """See `Decision`."""
        own = torch.zeros(len(labels), self.num_prototypes, device=scores.device).scatter(1, self.own[labels], 1.0)
        return self.largest_addends(scores) * own.to(scores)

    def largest_addends(self, scores: Tensor) -> Float[Tensor, "batch protos"]:
        """Scores of what speaks; a prototype has one class."""
        return torch.where(self.speaking(scores), scores, 0.0)

    def size(self) -> ExplanationSize:
        """The scores that are added up, and no weights."""
        return ExplanationSize(self.terms, self.terms)

    @property
    def form(self) -> str:
        """See `Decision`."""
        return f"a class's logit is the sum of scores of its own prototypes; {self.choice_note}"

    @property
    def choice_note(self) -> str:
        """See `Decision`."""
        per_class = self.num_prototypes // self.num_classes
        chosen = f"of the {per_class} prototypes of a class the {self.terms} speak whose scores are largest"
        if not self.field_price:
            return chosen
        return (
            f"{chosen} after a price of {self.field_price:g} times the share of the image that cells of their grid see "
            "on average"
        )

    @property
    def claim(self) -> str:
        """See `Decision`."""
        return "a logit is the sum of the scores of a stated choice of the class's own prototypes"

"""Loss terms (Eqs. 2-4): numbers that a step of learning makes smaller, each with a name and a weight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts.assembly import Parts
from pixpnet.parts.feedback import PatchDistances, forget_loss, remember_loss
from pixpnet.parts.matches import Matches


@dataclass(frozen=True)
class Step:
    """What a batch gave, for loss terms to read.

    Attributes:
        logits: of the images.
        labels: of the images.
        parts: of the network.
        matches: how the images compare with prototypes; None in stages without prototypes.
        embeddings: of the images, for each grid.
        targets: what share of each image is of which class, where it is not all of `labels` (mixed images); else None.
        own_set: which prototypes count as the own ones of each image, where that is drawn anew in each step; None where
            the ownership says it.
        maps: what the backbone gave, for each cut, where a loss term reads it; else none.
        watched: the map of an earlier layer, which nothing learns from (`Backbone.watch`); None where none is watched.
        branch: the branch that the step is about, where steps take turns; parts, matches and logits are then its own.
        answers: the logits that accuracy is counted on, where those of the loss are made harder; else None.
        patches: how far prototypes are from patches that a person spoke of; None where nobody did.
    """

    logits: Float[Tensor, "batch classes"]
    labels: Int64[Tensor, " batch"]
    parts: Parts
    matches: Matches | None = None
    embeddings: tuple[Float[Tensor, "batch _dim _rows _cols"], ...] = ()
    targets: Float[Tensor, "batch classes"] | None = None
    own_set: Bool[Tensor, "batch protos"] | None = None
    maps: tuple[Float[Tensor, "batch _channels _rows _cols"], ...] = ()
    watched: Float[Tensor, "batch _channels _rows _cols"] | None = None
    branch: str = ""
    answers: Float[Tensor, "batch classes"] | None = None
    patches: PatchDistances | None = None

    @property
    def required_matches(self) -> Matches:
        """The matches, where there are any.

        Raises:
            ValueError: in a stage without prototypes.
        """
        if self.matches is None:
            raise ValueError("this stage compares nothing with prototypes, so a loss term of theirs has no place in it")
        return self.matches

    @property
    def own(self) -> Bool[Tensor, "batch protos"]:
        """Which prototypes speak for the class of each image."""
        return self.parts.ownership.of_images(self.labels) if self.own_set is None else self.own_set

    @property
    def distances(self) -> Float[Tensor, "batch protos"]:
        """What cluster and separation pull on, for each prototype."""
        given = zip(self.parts.comparisons, self.embeddings, self.required_matches.grids, strict=True)
        parts = [comparison.loss_distances(embeddings, grid) for comparison, embeddings, grid in given]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


@dataclass(frozen=True)
class LossTerm:
    """One addend of the loss.

    Attributes:
        name: of its column in the log, where it stands before its weight.
        weight: a term of weight 0 is only logged.
        function: of a step.
        branch: the branch whose steps it belongs to; "" for all steps.
    """

    name: str
    weight: float
    function: Callable[[Step], Float[Tensor, ""]]
    branch: str = ""


@dataclass(frozen=True)
class LossParts:
    """The loss and what it is the sum of, by name, before weights."""

    total: Float[Tensor, ""]
    terms: dict[str, Float[Tensor, ""]]


def loss_of(step: Step, terms: Sequence[LossTerm]) -> LossParts:
    """The weighted sum of loss terms (Eq. 2)."""
    total: Tensor | None = None
    values: dict[str, Tensor] = {}
    for term in terms:
        if term.branch and term.branch != step.branch:
            continue
        # A weight of 0 leaves a term out rather than multiplying it, so that it costs no gradient.
        with torch.set_grad_enabled(torch.is_grad_enabled() and term.weight != 0):
            value = term.function(step)
        values[term.name] = value.detach()
        if term.weight:
            weighted = value if term.weight == 1 else term.weight * value
            total = weighted if total is None else total + weighted
    if total is None:
        raise ValueError("a stage learns by at least one loss term with a weight that is not 0")
    return LossParts(total, values)


def cross_entropy(step: Step) -> Float[Tensor, ""]:
    """Of the logits; between mixed images it is mixed as they are."""
    return F.cross_entropy(step.logits, step.labels if step.targets is None else step.targets)


def cluster(step: Step) -> Float[Tensor, ""]:
    """`cluster_loss` of a step."""
    return cluster_loss(step.distances, step.own)


def separation(step: Step) -> Float[Tensor, ""]:
    """`separation_loss` of a step."""
    return separation_loss(step.distances, step.own)


def own_activation(step: Step) -> Float[Tensor, ""]:
    """Minus the mean of each image's largest score with a prototype of its own class."""
    return cluster_loss(-step.required_matches.scores, step.own)


def wrong_activation(step: Step) -> Float[Tensor, ""]:
    """The mean of each image's largest score with a prototype of any other class."""
    return separation_loss(-step.required_matches.scores, step.own)


def forget(step: Step) -> Float[Tensor, ""]:
    """`forget_loss` of a step; 0 where nobody spoke of patches."""
    return step.logits.new_zeros(()) if step.patches is None else forget_loss(step.patches)


def remember(step: Step) -> Float[Tensor, ""]:
    """`remember_loss` of a step; 0 where nobody spoke of patches."""
    return step.logits.new_zeros(()) if step.patches is None else remember_loss(step.patches)


def off_class_l1(step: Step) -> Float[Tensor, ""]:
    """The sum of the absolute weights that the decision learns between prototypes and other classes."""
    return step.parts.decision.off_class().abs().sum()


def cluster_loss(distances: Float[Tensor, "batch protos"], own: Bool[Tensor, "batch protos"]) -> Float[Tensor, ""]:
    """The mean distance of an image's nearest patch to the nearest prototype of its own class (Eq. 3).

    Paper: as printed, Eqs. 2-4 average over the images twice; once is meant.

    Args:
        distances: of each prototype to the nearest patch of each image.
        own: which prototypes speak for the class of each image.
    """
    return distances.masked_fill(~own, float("inf")).amin(dim=1).mean()


def separation_loss(distances: Float[Tensor, "batch protos"], own: Bool[Tensor, "batch protos"]) -> Float[Tensor, ""]:
    """Minus the mean distance of an image's nearest patch to the nearest prototype of any other class (Eq. 4).

    An image has none where every prototype speaks for its class too, among others (merged ones); it adds 0.
    """
    nearest = distances.masked_fill(own, float("inf")).amin(dim=1)
    return -nearest.masked_fill(own.all(dim=1), 0.0).mean()


def leave_one_out(step: Step, from_it: Bool[Tensor, "batch protos"]) -> Step:
    """What the network would answer if no prototype had been taken from the image that it is shown.

    A prototype that is a patch of the image itself has distance 0 and the largest possible score, whatever was learnt;
    and after the next step of learning the score falls off a cliff that no other image has. So each such score is
    replaced by the mean of the others of the class.

    Args:
        step: of the images.
        from_it: which prototypes are patches of which image. Where a class has no others, it is left as it is.
    """
    matches, own = step.required_matches, step.own
    others = (own & ~from_it).to(matches.scores.dtype)
    left = others.sum(dim=1, keepdim=True)
    hidden = from_it & own & (left > 0)
    mean = (matches.scores * others).sum(dim=1, keepdim=True) / left.clamp_min(1)
    changed = []
    first = 0
    for grid in matches.grids:
        last = first + grid.scores.shape[1]
        here = hidden[:, first:last]
        changed.append(
            replace(
                grid,
                scores=torch.where(here, mean, grid.scores),
                distances=grid.distances.masked_fill(here, float("inf")),
            )
        )
        first = last
    reduced = replace(
        matches,
        scores=torch.where(hidden, mean, matches.scores),
        distances=matches.distances.masked_fill(hidden, float("inf")),
        grids=tuple(changed),
    )
    return replace(step, matches=reduced, logits=step.parts.decision(reduced))

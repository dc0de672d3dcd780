"""What a replacement can have cost: on how many images no answer can have changed, by the distances prototypes moved.

By the triangle inequality a distance changes by no more than its prototype moved (`Comparison.scores_after`), so every
score has bounds, and with them the lead of every class (`Decision.least_leads`). Where the class of before still leads
at the bounds too, its answer is proven to have stayed, without looking at the new prototypes' distances. Those are
looked at as well, for the share of answers that did stay, which is larger.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from pixpnet.model import PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.parts import Comparison, Decision, NoBounds
from pixpnet.parts.matches import Matches, matches_of
from pixpnet.parts.ranking import ROUNDING
from pixpnet.progress import Progress
from pixpnet.training.actions import summed_over_processes
from pixpnet.training.evaluation import batch_count
from pixpnet.training.log import LogLine

PROVEN = "replacement_proven"
"""The column of the log with the share of validation images whose answer provably stayed, or why none can be told."""
STAYED = "replacement_stayed"
"""The column of the log with the share of validation images whose answer did stay."""


@dataclass(frozen=True)
class ReplacementBound:
    """What replacement did to the answers to some images.

    Attributes:
        images: how many.
        stayed: how many got the same answer before and after.
        proven: how many of them provably, by how far prototypes moved alone; None where that has no bounds.
        refusal: why it has none; empty where it has.
    """

    images: int
    stayed: int
    proven: int | None
    refusal: str

    @property
    def figures(self) -> dict[str, float]:
        """What a log has of it, as shares."""
        shares = {STAYED: self.stayed, PROVEN: self.proven}
        return {name: count / self.images for name, count in shares.items() if count is not None and self.images}


def replacement_bound(
    model: PixPNet,
    before: Sequence[Comparison],
    batches: Iterable[Any],
    embed: Callable[[Tensor], tuple[Tensor, ...]],
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> ReplacementBound:
    """Counts the images whose answer stayed, and provably stayed, when prototypes were replaced.

    Args:
        model: after replacement.
        before: the comparison of each grid as it was before.
        batches: images, or what `embed` takes; where several processes bring their own, all get the sum.
        embed: from what batches hold to embeddings of each grid.
        device: where the model is.
        progress: told how many batches are done.
    """
    counts = torch.zeros(3, dtype=torch.int64, device=device)
    refusal = ""
    total = batch_count(batches)
    with evaluating(model), torch.no_grad():
        for done, batch in enumerate(batches, start=1):
            embeddings = embed(batch.to(device).images)
            old = matches_of(tuple(comparison(cells) for comparison, cells in zip(before, embeddings, strict=True)))
            answers = model.head(old).argmax(dim=1)
            stayed = model.compare(embeddings).logits.argmax(dim=1) == answers
            try:
                proven = certain(model.head, answers, *_bounds(model, before, old))
            except NoBounds as reason:
                refusal, proven = str(reason), torch.zeros_like(stayed)
            counts += torch.stack([torch.tensor(len(batch), device=device), stayed.sum(), proven.sum()])
            if progress is not None:
                progress("what replacement can have changed", done, total)
    images, same, surely = summed_over_processes(counts).tolist()
    return ReplacementBound(images, same, None if refusal else surely, refusal)


def bound_in(lines: Sequence[LogLine], images: int) -> ReplacementBound | None:
    """What the last replacement in a log left as it was; None where there was none, or the log does not say.

    Args:
        lines: of the epochs up to that of the model in question.
        images: for validation.
    """
    for line in reversed(lines):
        if STAYED in line.figures:
            proven = line.figures.get(PROVEN)
            return ReplacementBound(
                images,
                round(line.figures[STAYED] * images),
                None if proven is None else round(proven * images),
                line.refusals.get(PROVEN, ""),
            )
    return None


def certain(
    decision: Decision,
    answers: Int64[Tensor, " images"],
    low: Float64[Tensor, "images protos"],
    high: Float64[Tensor, "images protos"],
) -> Bool[Tensor, " images"]:
    """Whether no scores within their bounds give an image another answer.

    Raises:
        NoBounds: if bounds on scores say nothing about the decision.
    """
    result = torch.zeros_like(answers, dtype=torch.bool)
    for label in answers.unique().tolist():
        here = answers == label
        leads = decision.least_leads(label, low[here], high[here])
        largest = leads.abs().amax(dim=1)
        leads[:, label] = torch.inf
        result[here] = leads.amin(dim=1) > ROUNDING * largest
    return result


def _bounds(
    model: PixPNet, before: Sequence[Comparison], old: Matches
) -> tuple[Float64[Tensor, "images protos"], Float64[Tensor, "images protos"]]:
    """Between which bounds each score lies after the replacement."""
    pairs = [
        comparison.scores_after(matches.distances, grid.comparison.prototypes.detach())
        for comparison, matches, grid in zip(before, old.grids, model.grids, strict=True)
    ]
    lows, highs = zip(*pairs, strict=True)
    return torch.cat(lows, dim=1), torch.cat(highs, dim=1)

"""Which evidence decides: the shortest list of largest scores that settles an answer, whatever the others are.

Take the prototypes in the order of their scores, the largest first. The first n of them *decide* when no values of the
other scores change the answer, as long as none of those exceeds the n-th and each is a score that its comparison can
give at all. A longer list only narrows the bounds, so the shortest one is found by dividing, not by trying each.

This is a statement about scores. That nothing else scored higher rests on the whole image, and the text says so.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from pixpnet.explanation.record import Deciding
from pixpnet.model import PixPNet
from pixpnet.parts import Matches

# Lists that are looked at together: three rounds find the shortest of 4096.
_AT_ONCE = 16
# Of the largest lead: the network adds up its logits in float32, a few units in the last place apart.
_ROUNDING = 16 * torch.finfo(torch.float32).eps


def deciding(model: PixPNet, matches: Matches, logits: Tensor, row: int, size: tuple[int, int]) -> Deciding | None:
    """The shortest list of largest scores that decides the answer to one image of a batch.

    Args:
        model: that answered.
        matches: of the batch.
        logits: of the batch.
        row: which image.
        size: its height and width.

    Returns:
        None where not even all scores decide, because two classes are equal up to rounding.

    Raises:
        NoBounds: if bounds on scores say nothing about the model's decision.
    """
    length = deciding_length(model, matches.scores[row], int(logits[row].argmax()))
    if length is None:
        return None
    order = _order(matches.scores[row])
    prototypes = order[:length].tolist()
    return Deciding(
        prototypes=tuple(prototypes),
        of=len(order),
        limit=float(matches.scores[row, prototypes[-1]]),
        seen=_seen(model, matches.cells[row].tolist(), prototypes, size),
    )


def deciding_length(model: PixPNet, scores: Tensor, label: int) -> int | None:
    """How many of the largest scores of an image decide; None where not even all do.

    Args:
        model: that answered.
        scores: of one image.
        label: the answer.

    Raises:
        NoBounds: if bounds on scores say nothing about the model's decision.
    """
    exact = scores.detach().double()
    order = _order(scores)
    least = _least_scores(model).to(exact.device)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    rivals = torch.arange(model.num_classes, device=order.device) != label

    def decide(lengths: Int64[Tensor, " cases"]) -> list[bool]:
        limits = exact[order[lengths - 1]][:, None]
        known = rank < lengths[:, None]
        # A score may lie below what its comparison can give by a rounding error.
        high = torch.where(known, exact, limits)
        low = torch.where(known, exact, torch.minimum(least, limits))
        leads = model.head.least_leads(label, low, high)[:, rivals]
        return (leads.amin(dim=1) > _ROUNDING * leads.abs().amax(dim=1)).tolist()

    return _first(len(order), decide, order.device)


def _order(scores: Tensor) -> Int64[Tensor, " protos"]:
    return scores.detach().argsort(descending=True, stable=True)


def _least_scores(model: PixPNet) -> Float64[Tensor, " protos"]:
    """The least that each prototype can score."""
    return torch.cat(
        [
            torch.full((len(grid.prototypes),), grid.comparison.score_bounds()[0], dtype=torch.float64)
            for grid in model.grids
        ]
    )


def _first(longest: int, decide: Callable[[Tensor], Sequence[bool]], device: torch.device) -> int | None:
    """The least length from 1 to the longest that decides, where every longer one does too."""
    below, enough = 0, longest + 1
    while enough - below > 1:
        steps = min(_AT_ONCE, enough - below - 1)
        lengths = [below + (enough - below) * step // (steps + 1) for step in range(1, steps + 1)]
        for length, decides in zip(lengths, decide(torch.tensor(lengths, device=device)), strict=True):
            if decides:
                enough = length
                break
            below = length
    return enough if enough <= longest else None


def _seen(model: PixPNet, cells: Sequence[Sequence[int]], prototypes: Sequence[int], size: tuple[int, int]) -> float:
    """The share of the image that the cells of some prototypes saw together."""
    fields = model.fields_at(size)
    seen = torch.zeros(size, dtype=torch.bool)
    speaking = {(model.grid_of(prototype).number, tuple(cells[prototype])) for prototype in prototypes}
    for number, (row, col) in speaking:
        for y0, x0, y1, x1 in model.grids[number].comparison.region((row, col), fields[number]):
            seen[y0:y1, x0:x1] = True
    return float(seen.double().mean())

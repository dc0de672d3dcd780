"""Which evidence decides: the shortest list of largest scores that settles an answer, whatever the others are.

Take the prototypes in the order of their scores, the largest first. The first n of them *decide* when no values of the
other scores change the answer, as long as none of those exceeds the n-th and each is a score that its comparison can
give at all. A longer list only narrows the bounds, so the shortest one is found by dividing, not by trying each.

This is a statement about scores. That nothing else scored higher rests on the whole image, and the text says so.
"""

import numpy as np
from jaxtyping import Int64
from torch import Tensor

from pixpnet.box import Box, union_area
from pixpnet.explanation.answer import Deciding
from pixpnet.explanation.lookups import seen_by
from pixpnet.model import PixPNet
from pixpnet.model.ranked import ranked_scores
from pixpnet.parts import Matches

# Of many cells every so manieth is looked at first.
_APART = (64, 8, 1)


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
    ranked = ranked_scores(model, matches.scores[row])
    length = model.head.deciding_length(int(logits[row].detach().cpu().numpy().argmax()), ranked)
    if length is None:
        return None
    prototypes = ranked.order[:length]
    return Deciding(
        prototypes=tuple(prototypes.tolist()),
        of=len(ranked.order),
        limit=ranked.limit(length),
        seen=_seen(model, matches, row, prototypes, size),
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
    return model.head.deciding_length(label, ranked_scores(model, scores))


def _seen(
    model: PixPNet, matches: Matches, row: int, prototypes: Int64[np.ndarray, " some"], size: tuple[int, int]
) -> float:
    """The share of the image that the cells of some prototypes saw together."""
    boxes: list[Box] = []
    total, area = size[0] * size[1], 0
    for seen, grid_matches in zip(seen_by(model, size), matches.grids, strict=True):
        cells, numbers = grid_matches.cells[row].cpu().numpy(), prototypes
        if len(matches.grids) > 1:
            numbers = prototypes - seen.grid.first
            numbers = numbers[(numbers >= 0) & (numbers < len(cells))]
        rows, cols = seen.field.shape[-2:]
        speaks = np.zeros(rows * cols, dtype=np.bool_)
        speaks[cells[numbers]] = True
        speaking = speaks.nonzero()[0].tolist()
        # Where cells see much, few of many have seen everything, and the others need not be looked at.
        for apart in _APART:
            if apart > 1 and len(speaking) <= 2 * apart:
                continue
            for cell in speaking[::apart]:
                boxes += seen.region(divmod(cell, cols), ()).boxes
            area = union_area(boxes)
            if area == total:
                return 1.0
    return area / total

"""Scores in the order of their size: what a search for the shortest list that decides an answer begins with."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

ROUNDING = 16 * torch.finfo(torch.float32).eps
"""Of the largest lead: networks add up their logits in float32, a few units in the last place apart."""


@dataclass(frozen=True)
class RankedScores:
    """The scores of one image in the order of their size, and the least that each can be.

    In NumPy: of thousands of prototypes a search looks at a few numbers a dozen times, and each look at a tensor costs
    more than the work.

    Attributes:
        scores: of the prototypes, in their order.
        order: the prototypes, the largest score first.
        least: the least that each prototype can score.
    """

    scores: Float64[np.ndarray, " protos"]
    order: Int64[np.ndarray, " protos"]
    least: Float64[np.ndarray, " protos"]

    @classmethod
    def of(cls, scores: Float[Tensor, " protos"], least: Float64[np.ndarray, " protos"]) -> "RankedScores":
        """Ranks scores; of equals the first prototype comes first.

        >>> RankedScores.of(torch.tensor([1.0, 3.0, 1.0]), np.zeros(3)).rank.tolist()
        [1, 0, 2]
        """
        given = scores.detach().cpu().numpy()
        exact = given.astype(np.float64)
        return cls(exact, _descending(exact, given.dtype), least)

    @property
    def rank(self) -> Int64[np.ndarray, " protos"]:
        """Of each prototype in the order, from 0."""
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(len(rank))
        return rank

    def limit(self, length: int) -> float:
        """The last score of a list of so many of the largest ones."""
        return float(self.scores[self.order[length - 1]])


# A float32 as a float64 ends in 29 bits that are 0; the other bits but the sign say how large it is.
_FREE = 2**29 - 1
_SIZE = (2**63 - 1) & ~_FREE


def _descending(scores: Float64[np.ndarray, " protos"], precision: np.dtype) -> Int64[np.ndarray, " protos"]:
    """The numbers of scores, the largest first; of equals the first.

    Scores of 32 bits and their numbers are sorted as one integer each, which takes a third of the time of a stable
    argsort: the bits of a positive number grow with it, those of a negative one fall.
    """
    if precision != np.float32:
        return np.argsort(-scores, kind="stable")
    keys = (0.0 - scores).view(np.int64)  # of the negative: the largest comes first
    keys ^= (keys >> 63) & _SIZE
    keys |= np.arange(len(keys))
    keys.sort()
    return keys & _FREE


def first_length(longest: int, decide: Callable[[int], bool]) -> int | None:
    """The least length from 1 to the longest that decides, where every longer one does too; None where none does.

    >>> first_length(10, lambda length: length > 6), first_length(10, lambda length: False)
    (7, None)
    """
    below, enough = 0, longest + 1
    while enough - below > 1:
        middle = (below + enough) // 2
        if decide(middle):
            enough = middle
        else:
            below = middle
    return enough if enough <= longest else None

"""How many prototypes there are to read: of the whole model, of one answer, and how many are different.

| figure | counts |
|---|---|
| global size | prototypes with a weight above 1e-3 for any class |
| local size, predicted class | prototypes that add more than 1e-3 to the logit of the predicted class |
| local size, any class | prototypes that add more than 1e-3 to any logit; published under the same name |
| distinct prototypes | vectors that differ after rounding to 8 decimals |
| sparsity (ProtoPNeXt) | (C + C / HW) / (n_u + n_p / HW), C classes, HW cells, n_u distinct prototypes, n_p parts |

Sparsity is 1 where each class has one prototype of one cell, and falls as there are more. It is defined for one grid.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.data import Sample
from pixpnet.fields import receptive_fields
from pixpnet.metrics.answering import Answer, answers
from pixpnet.metrics.bootstrap import DefinedMean, defined_mean
from pixpnet.model import PixPNet
from pixpnet.parts import NoReasons
from pixpnet.progress import Progress

LEAST = 1e-3
"""Weights and addends above this count."""
DECIMALS = 8
"""Of vectors, when they are compared."""


@dataclass(frozen=True)
class Sizes:
    """How much there is to read; sizes of the model itself have no interval.

    Attributes:
        prototypes: how many there are.
        global_size: those with a weight above `LEAST` for any class.
        local_size: those that add more than `LEAST` to the logit of the predicted class; mean over images.
        local_size_any_class: those that add more than `LEAST` to any logit; mean over images.
        refusal: why there are no local sizes; empty where there are.
        distinct: prototypes that are different vectors.
        distinct_parts: cells of prototypes that are different vectors.
        sparsity: as ProtoPNeXt has it; None where there are several grids.
        images: how many were looked at.
    """

    prototypes: int
    global_size: int
    local_size: DefinedMean
    local_size_any_class: DefinedMean
    refusal: str
    distinct: int
    distinct_parts: int
    sparsity: float | None
    images: int


class SizesCounter:
    """Sizes over answers that come one by one."""

    def __init__(self, model: PixPNet, seed: int = 0) -> None:
        self.model, self.seed = model, seed
        self.refusal = ""
        self._names: list[str] = []
        self._local: list[float | None] = []
        self._any: list[float | None] = []

    def update(self, answer: Answer) -> None:
        """Takes note of one answer."""
        head, scores = self.model.head, answer.scores[None].to(self.model.device)
        self._names.append(answer.sample.id)
        local: tuple[float | None, float | None] = None, None
        if not self.refusal:
            try:
                added = head.addends(scores, torch.tensor([answer.predicted], device=scores.device))
                local = float((added > LEAST).sum()), float((head.largest_addends(scores) > LEAST).sum())
            except NoReasons as reason:
                self.refusal = str(reason)
        self._local.append(local[0])
        self._any.append(local[1])

    def compute(self) -> Sizes:
        """The sizes, with means of everything so far; intervals draw images again."""
        grids = self.model.grids
        prototypes = [grid.comparison.prototypes.detach() for grid in grids]
        distinct = sum(distinct_vectors(vectors.flatten(1)) for vectors in prototypes)
        parts = sum(distinct_vectors(vectors.flatten(2).transpose(1, 2).flatten(0, 1)) for vectors in prototypes)
        return Sizes(
            prototypes=self.model.num_prototypes,
            global_size=int(self.model.head.uses(LEAST).sum()),
            local_size=defined_mean(self._local, self._names, self.seed),
            local_size_any_class=defined_mean(self._any, self._names, self.seed),
            refusal=self.refusal,
            distinct=distinct,
            distinct_parts=parts,
            sparsity=(
                sparsity(self.model.num_classes, distinct, parts, _cells(self.model)) if len(grids) == 1 else None
            ),
            images=len(self._names),
        )


def model_sizes(model: PixPNet, samples: Iterable[Sample], *, seed: int = 0, progress: Progress | None = None) -> Sizes:
    """Counts prototypes of a model, and those that its answers rest on; one forward pass for each image.

    Args:
        model: in eval mode.
        samples: preprocessed and normalised.
        seed: of the intervals, which draw images again.
        progress: told how many samples are done, of how many.

    Raises:
        ValueError: if the model is in training mode, or a sample does not fit.
    """
    counter = SizesCounter(model, seed)
    for answer in answers(model, samples, progress):
        counter.update(answer)
    return counter.compute()


def _cells(model: PixPNet) -> int:
    """How many cells an image of the training size has; a prototype of several cells has fewer positions."""
    size = model.preprocessing.size
    rows, cols = receptive_fields(model.embedding(0), (3, size, size))[""].shape[-2:]
    return rows * cols


def distinct_vectors(vectors: Float[Tensor, "some numbers"]) -> int:
    """How many vectors differ after rounding.

    >>> distinct_vectors(torch.tensor([[0.1, 1.0], [0.1, 1.0], [0.2, 1.0]]))
    2
    """
    return len(np.unique(vectors.double().cpu().numpy().round(DECIMALS), axis=0))


def sparsity(classes: int, distinct: int, distinct_parts: int, cells: int) -> float:
    """ProtoPNeXt's: 1 where each class has a single prototype of one cell.

    >>> sparsity(classes=200, distinct=200, distinct_parts=200, cells=49), sparsity(200, 2000, 2000, 49)
    (1.0, 0.1)
    """
    return (classes + classes / cells) / (distinct + distinct_parts / cells)

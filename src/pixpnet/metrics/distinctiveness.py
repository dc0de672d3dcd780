"""Distinctiveness: do the prototypes of an image's own class look at different places?

For each image: the prototypes of its true class, the five with the highest scores if there are more; 1 minus the mean,
over pairs, of the IoU of their regions; then the mean over images. 0 when all look at one place, 1 when no two regions
share a pixel. Once with the published box of 72 x 72 pixels (at 224; scaled with the image) around the centre of what
the winning cell sees, cut to the image, and once with exact fields. Published figures put their box at the argmax of an
enlarged map; the winning cell is what this network's score really comes from.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.data import Sample
from pixpnet.metrics.answering import Answer, answers
from pixpnet.metrics.bootstrap import DefinedMean, defined_mean
from pixpnet.metrics.part_hits import scaled_window_side
from pixpnet.metrics.regions import CellRegions
from pixpnet.model import PixPNet
from pixpnet.progress import Progress

MOST = 5
"""How many of an image's own prototypes are compared."""


@dataclass(frozen=True)
class Distinctiveness:
    """Means over images of 1 - mean IoU, 0-1; undefined is an image with fewer than two regions to compare.

    Attributes:
        window: of boxes around the centres of the winning cells' fields.
        field: of the exact fields.
        window_side: of the box, in pixels.
        most: how many prototypes of an image are compared.
        images: how many were looked at.
    """

    window: DefinedMean
    field: DefinedMean
    window_side: int
    most: int
    images: int


class DistinctivenessCounter:
    """`prototype_distinctiveness` over answers that come one by one."""

    def __init__(self, model: PixPNet, window_side: int | None = None, most: int = MOST, seed: int = 0) -> None:
        side = scaled_window_side(model.preprocessing.size) if window_side is None else window_side
        self.model, self.window_side, self.most, self.seed = model, side, most, seed
        self._regions: dict[tuple[int, int], CellRegions] = {}
        self._labels: list[int] = []
        self._window: list[float | None] = []
        self._field: list[float | None] = []

    def update(self, answer: Answer) -> None:
        """Takes note of one answer."""
        size = answer.sample.size
        if size not in self._regions:
            self._regions[size] = CellRegions(self.model, size)
        regions = self._regions[size]
        own = self.model.prototypes_of(answer.sample.label).cpu()
        cells = answer.cells_of(highest(answer.scores, own, self.most))
        self._labels.append(answer.sample.label)
        self._window.append(_complement(regions.mean_iou(cells, self.window_side)))
        self._field.append(_complement(regions.mean_iou(cells)))

    def compute(self) -> Distinctiveness:
        """The means of everything so far."""
        return Distinctiveness(
            window=defined_mean(self._window, self._labels, self.seed),
            field=defined_mean(self._field, self._labels, self.seed),
            window_side=self.window_side,
            most=self.most,
            images=len(self._labels),
        )


def prototype_distinctiveness(
    model: PixPNet,
    samples: Iterable[Sample],
    *,
    window_side: int | None = None,
    most: int = MOST,
    seed: int = 0,
    progress: Progress | None = None,
) -> Distinctiveness:
    """Compares the places of each image's own prototypes; one forward pass for each image.

    Args:
        model: in eval mode.
        samples: preprocessed and normalised.
        window_side: of the box; the published one, scaled with the image, by default.
        most: how many prototypes of an image are compared, those with the highest scores.
        seed: of the intervals, which draw whole classes again.
        progress: told how many samples are done, of how many.

    Raises:
        ValueError: if the model is in training mode, or a sample does not fit.
    """
    counter = DistinctivenessCounter(model, window_side, most, seed)
    for answer in answers(model, samples, progress):
        counter.update(answer)
    return counter.compute()


def highest(
    scores: Float[Tensor, " protos"], prototypes: Int64[Tensor, " own"], most: int
) -> Int64[Tensor, " highest"]:
    """Of some prototypes, those with the highest scores; the first ones of equals.

    >>> import torch
    >>> highest(torch.tensor([9.0, 1.0, 3.0, 3.0]), torch.tensor([1, 2, 3]), most=2).tolist()
    [2, 3]
    """
    order = scores[prototypes].argsort(descending=True, stable=True)
    return prototypes[order[:most]]


def _complement(value: float | None) -> float | None:
    return None if value is None else 1 - value

"""Where an answer looks: the cells that gave the predicted class's prototypes their scores, and what those cells see.

Prototypes that all look at one place are one witness, and regions that cover the whole image point at nothing. So, over
images: how many different cells the prototypes of the *predicted* class won at, how much their regions overlap, how
much of the image and of the object they cover together, and how large one of them is. Regions are exact fields. Where
the decision chooses among the prototypes of a class, those count that speak in the image.

The object is its bounding box; where a data set has masks and no boxes, its masks. Intervals draw whole classes again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from pixpnet.data import Sample
from pixpnet.metrics.answering import Answer, answers
from pixpnet.metrics.bootstrap import DefinedMean, defined_mean
from pixpnet.metrics.regions import CellRegions, area, object_mask, union_mask
from pixpnet.model import PixPNet
from pixpnet.progress import Progress

KnownBy = Literal["boxes", "masks", "nothing"]


@dataclass(frozen=True)
class AnswerPlaces:
    """Means over images, each of the prototypes of the class that was predicted for it; 0-1 but for the counts.

    All but `prototypes` are undefined for an image whose predicted class no prototype speaks for.

    Attributes:
        distinct_cells: how many different cells they won at.
        prototypes: how many prototypes there are, in the mean; None without images.
        overlap: mean over pairs of prototypes of the IoU of their regions; undefined where there is no pair whose
            regions hold a pixel.
        image_covered: share of the image that the union of their regions covers.
        object_covered: share of the object that the union covers; undefined where the object is not known or was
            cropped away.
        winning_region: share of the image that one region covers, the mean over prototypes.
        object_known_by: what the object's pixels were taken from.
        images: how many were looked at.
    """

    distinct_cells: DefinedMean
    prototypes: float | None
    overlap: DefinedMean
    image_covered: DefinedMean
    object_covered: DefinedMean
    winning_region: DefinedMean
    object_known_by: KnownBy
    images: int


class AnswerPlacesCounter:
    """`answer_places` over answers that come one by one."""

    def __init__(self, model: PixPNet, seed: int = 0) -> None:
        self.model, self.seed = model, seed
        self._regions: dict[tuple[int, int], CellRegions] = {}
        self._labels: list[int] = []
        self._prototypes: list[int] = []
        self._values: dict[str, list[float | None]] = {
            name: [] for name in ("distinct_cells", "overlap", "image_covered", "object_covered", "winning_region")
        }
        self._known_by: KnownBy = "nothing"

    def update(self, answer: Answer) -> None:
        """Takes note of one answer."""
        size = answer.sample.size
        if size not in self._regions:
            self._regions[size] = CellRegions(self.model, size)
        regions, pixels = self._regions[size], size[0] * size[1]
        own = self.model.prototypes_of(answer.predicted).cpu()
        cells = answer.cells_of(own[answer.speaking[own]])
        seen = [regions.region(cell) for cell in cells]
        union = union_mask(seen, size)
        shown = object_mask(answer.sample)
        if shown is not None:
            self._known_by = known_by(answer.sample)
        self._labels.append(answer.sample.label)
        self._prototypes.append(len(cells))
        self._values["distinct_cells"].append(float(len(set(cells))) if cells else None)
        self._values["overlap"].append(regions.mean_iou(cells))
        self._values["image_covered"].append(int(union.sum()) / pixels if cells else None)
        covered = int((union & shown).sum()) / int(shown.sum()) if cells and shown is not None else None
        self._values["object_covered"].append(covered)
        self._values["winning_region"].append(fmean(area(region) / pixels for region in seen) if seen else None)

    def compute(self) -> AnswerPlaces:
        """The means of everything so far."""
        means = {name: defined_mean(values, self._labels, self.seed) for name, values in self._values.items()}
        return AnswerPlaces(
            **means,
            prototypes=fmean(self._prototypes) if self._prototypes else None,
            object_known_by=self._known_by,
            images=len(self._labels),
        )


def answer_places(
    model: PixPNet, samples: Iterable[Sample], *, seed: int = 0, progress: Progress | None = None
) -> AnswerPlaces:
    """Looks where the prototypes of each image's predicted class won; one forward pass for each image.

    Args:
        model: in eval mode.
        samples: preprocessed and normalised.
        seed: of the intervals.
        progress: told how many samples are done, of how many.

    Raises:
        ValueError: if the model is in training mode, or a sample does not fit.
    """
    counter = AnswerPlacesCounter(model, seed)
    for answer in answers(model, samples, progress):
        counter.update(answer)
    return counter.compute()


def known_by(sample: Sample) -> KnownBy:
    """What `object_mask` takes the object's pixels from."""
    if sample.box is not None:
        return "boxes"
    return "nothing" if sample.masks is None else "masks"

"""Purity: does a prototype show one and the same part in the training images that it is most sure of?

For each prototype that the head uses (with some weight above 1e-5): the ten training images, of all classes, with its
highest scores; in each a box of 32 x 32 pixels (at 224; scaled with the image) around the centre of what the winning
cell sees, cut to the image; for each visible part, whether one of its visible points (left or right) lies inside.
Purity is the largest, over parts, of the mean over images; `field` is the same with the exact field instead of the box.

The mean of a part is over those of the ten images that show it: an image in which a part cannot be seen says nothing
about that part. A prototype none of whose images shows any part is undefined; the images without a visible part are
counted too. A maximum over many parts, each seen in few of the images, is flattering, so the same regions at random
places in the same images stand beside it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import stdev

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pixpnet.data import Sample
from pixpnet.mapping.random_map import moved
from pixpnet.metrics.answering import Answer, answers
from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean, class_clusters
from pixpnet.metrics.consistency import BestPart, best_parts
from pixpnet.metrics.draws import generator_for
from pixpnet.metrics.part_hits import Region, part_count, part_hits, scaled_side
from pixpnet.metrics.regions import Cell, CellRegions
from pixpnet.model import PixPNet
from pixpnet.parts.comparison import Places
from pixpnet.progress import Progress

BOX_SIDE = 32
IMAGES = 10
LEAST_WEIGHT = 1e-5
_PURE = 0.5


@dataclass(frozen=True)
class PurityFigures:
    """Purity with one kind of region.

    Attributes:
        mean: over the defined prototypes; None if none is.
        deviation: standard deviation of a sample (n - 1) of prototypes; None for fewer than two.
        pure: share of the defined prototypes whose purity exceeds one half.
        pure_count: how many those are.
        undefined: prototypes none of whose images shows a part.
    """

    mean: Estimate | None
    deviation: float | None
    pure: Estimate | None
    pure_count: int
    undefined: int


@dataclass(frozen=True)
class Purity:
    """Purity of a model's prototypes, 0-1; intervals draw whole classes of prototypes again.

    Attributes:
        box: in a box around the centre of the winning cell's field.
        field: in the exact field.
        random_box: in the same boxes at random places within the same images.
        random_field: in the same fields at random places within the same images.
        prototypes: how many have some head weight above the least one.
        unconnected: how many have not, and were left out.
        without_parts: pairs of prototype and image in which no part is visible.
        images_per_prototype: how many images of each were looked at.
        training_images: how many those were taken from.
        box_side: in pixels.
    """

    box: PurityFigures
    field: PurityFigures
    random_box: PurityFigures
    random_field: PurityFigures
    prototypes: int
    unconnected: int
    without_parts: int
    images_per_prototype: int
    training_images: int
    box_side: int


@dataclass(frozen=True)
class _Annotated:
    """What must be remembered of an image until all are seen."""

    id: str
    size: tuple[int, int]
    keypoints: Float[Tensor, "points 2"]
    visible: Bool[Tensor, " points"]


class _Highest:
    """For each prototype the images with its highest scores, as long as they come one by one; of equals the first."""

    def __init__(self, num_prototypes: int, count: int) -> None:
        self.scores = torch.full((num_prototypes, count), -torch.inf)
        self.images = torch.full((num_prototypes, count), -1, dtype=torch.int64)
        self.cells = torch.zeros(num_prototypes, count, 3, dtype=torch.int64)
        self._places: dict[tuple[int, int], Places] = {}

    def update(self, image: int, answer: Answer) -> None:
        rows = (answer.scores > self.scores[:, -1]).nonzero().flatten()
        for prototype, cell in zip(rows.tolist(), answer.cells_of(rows), strict=True):
            if cell.places:
                self._places[prototype, image] = cell.places
        scores = torch.cat([self.scores[rows], answer.scores[rows, None].to(self.scores)], dim=1)
        images = torch.cat([self.images[rows], torch.full((len(rows), 1), image)], dim=1)
        cells = torch.cat([self.cells[rows], answer.cells[rows, None]], dim=1)
        order = scores.argsort(dim=1, descending=True, stable=True)[:, :-1]
        self.scores[rows], self.images[rows] = scores.gather(1, order), images.gather(1, order)
        self.cells[rows] = cells.gather(1, order[..., None].expand(-1, -1, 3))

    def of(self, prototype: int) -> list[tuple[int, Cell]]:
        """The images of one prototype and its cells there; fewer than asked for where there were fewer."""
        pairs = zip(self.images[prototype].tolist(), self.cells[prototype].tolist(), strict=True)
        return [
            (image, Cell(grid, row, col, self._places.get((prototype, image), ())))
            for image, (grid, row, col) in pairs
            if image >= 0
        ]


def prototype_purity(
    model: PixPNet,
    samples: Iterable[Sample],
    point_parts: Sequence[int],
    *,
    box_side: int | None = None,
    images: int = IMAGES,
    least_weight: float = LEAST_WEIGHT,
    seed: int = 0,
    progress: Progress | None = None,
) -> Purity:
    """Purity of every prototype that the head uses; one forward pass for each training image.

    Args:
        model: in eval mode.
        samples: all training images, preprocessed and normalised, with keypoints.
        point_parts: the part of each keypoint, as the data set says.
        box_side: of the box; the published one, scaled with the image, by default.
        images: how many with the highest scores; all, if there are fewer.
        least_weight: prototypes without a head weight above it are left out.
        seed: of random places and intervals.
        progress: told how many samples are done, of how many.

    Raises:
        ValueError: if the model is in training mode, a sample does not fit, or there are no parts.
    """
    if not point_parts:
        raise ValueError("purity asks which parts prototypes show, and point_parts names none: give a data set's own")
    side = scaled_side(BOX_SIDE, model.preprocessing.size) if box_side is None else box_side
    highest, annotated = _Highest(model.num_prototypes, images), list[_Annotated]()
    for answer in answers(model, samples, progress):
        sample = answer.sample
        highest.update(len(annotated), answer)
        points = sample.keypoints.as_subclass(Tensor)
        annotated.append(_Annotated(sample.id, sample.size, points, sample.visible))
    connected = model.head.uses(least_weight).cpu().nonzero().flatten()
    counts = _Counts(len(connected), part_count(point_parts))
    regions: dict[tuple[int, int], CellRegions] = {}
    for row, prototype in enumerate(connected.tolist()):
        for number, cell in highest.of(prototype):
            image = annotated[number]
            if image.size not in regions:
                regions[image.size] = CellRegions(model, image.size)
            around, exact = (regions[image.size].region(cell, of) for of in (side, None))
            places = torch.rand(2, 2, generator=generator_for(seed, "purity", prototype, image.id))
            controls = [moved(boxes, offset, image.size) for boxes, offset in zip((around, exact), places, strict=True)]
            counts.add(row, (around, exact, *controls), image, point_parts)
    classes = class_clusters(model.labels.cpu()[connected].tolist())
    box, field, random_box, random_field = (
        _figures(best_parts(hits, counts.seen), classes, seed) for hits in counts.hits
    )
    return Purity(
        box=box,
        field=field,
        random_box=random_box,
        random_field=random_field,
        prototypes=len(connected),
        unconnected=model.num_prototypes - len(connected),
        without_parts=counts.without_parts,
        images_per_prototype=min(images, len(annotated)),
        training_images=len(annotated),
        box_side=side,
    )


class _Counts:
    """Hits of each kind of region by prototype and part, and the images that show the part."""

    def __init__(self, prototypes: int, parts: int) -> None:
        self.hits: Int64[Tensor, "kinds protos parts"] = torch.zeros(4, prototypes, parts, dtype=torch.int64)
        self.seen: Int64[Tensor, "protos parts"] = torch.zeros(prototypes, parts, dtype=torch.int64)
        self.without_parts = 0

    def add(self, row: int, kinds: Sequence[Region], image: _Annotated, point_parts: Sequence[int]) -> None:
        parts = part_hits(kinds, image.keypoints, image.visible, point_parts)
        self.hits[:, row] += parts.hit
        self.seen[row] += parts.visible
        self.without_parts += not parts.visible.any()


def _figures(parts: Sequence[BestPart | None], clusters: Sequence[int], seed: int) -> PurityFigures:
    defined = [(part.frequency, own) for part, own in zip(parts, clusters, strict=True) if part is not None]
    values, classes = [value for value, _ in defined], [own for _, own in defined]
    pure = [float(value > _PURE) for value in values]
    return PurityFigures(
        mean=bootstrap_mean(values, classes, seed),
        deviation=stdev(values) if len(values) > 1 else None,
        pure=bootstrap_mean(pure, classes, seed),
        pure_count=int(sum(pure)),
        undefined=len(parts) - len(defined),
    )

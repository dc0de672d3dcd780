"""The patches of training and validation images that are nearest to a prototype, with their exact regions."""

from dataclasses import dataclass
from pathlib import Path

import torch

from pixpnet.box import Box
from pixpnet.data import DataSet, Entry, preprocess
from pixpnet.metrics.answering import answers
from pixpnet.metrics.owners import owners_of
from pixpnet.metrics.regions import Cell, CellRegions
from pixpnet.model import PixPNet
from pixpnet.progress import Progress
from pixpnet.training import Run
from pixpnet.training.mending.scores import PrototypeScores, Split, prototype_scores
from pixpnet.verdicts import TrainingPatch, VerdictError


@dataclass(frozen=True)
class NearPatch:
    """The patch of an image that speaks for a prototype there.

    Attributes:
        image: stable id.
        split: ``train`` or ``val``.
        class_name: of the image.
        own_class: whether the prototype speaks for that class.
        score: of the prototype on this image: the similarity of the patch (and what its pooling adds to that).
        grid: of the cell.
        cell: row and column.
        region: the pixels that the patch sees, exactly, in the `pixel` frame.
    """

    image: str
    split: Split
    class_name: str
    own_class: bool
    score: float
    grid: int
    cell: tuple[int, int]
    region: tuple[Box, ...]


@dataclass(frozen=True)
class NearestPatches:
    """What is nearest to a prototype, highest scores first; one patch an image.

    Attributes:
        prototype: its number.
        train: patches of training images; the first is mostly its own.
        val: patches of validation images.
    """

    prototype: int
    train: tuple[NearPatch, ...]
    val: tuple[NearPatch, ...]


def nearest_patches(
    run: Run | Path | str,
    prototype: int,
    count: int = 8,
    progress: Progress | None = None,
    *,
    model: PixPNet | None = None,
    data: DataSet | None = None,
    trust_code: bool = False,
) -> NearestPatches:
    """The patches of training and of validation images that score highest with a prototype.

    Scores come from the run's folder where they are kept (`prototype_scores`).

    Args:
        run: a finished run.
        prototype: its number.
        count: how many of each split.
        progress: told how far it is.
        model: of the run, where it is open already.
        data: of the run, where they are open already.
        trust_code: the backbone may be code that the run names, which is imported and called.

    Raises:
        ValueError: if there is no such prototype.
    """
    folder = Run.of(run)
    model = folder.model(trust_code) if model is None else model
    if not 0 <= prototype < model.num_prototypes:
        raise ValueError(f"there is no prototype {prototype}: they are 0 to {model.num_prototypes - 1}")
    if count < 1:
        raise ValueError(f"at least one patch is looked for, got {count}")
    grid = model.grid_of(prototype)
    owners = owners_of(model)[prototype]
    side = model.preprocessing.size
    regions = CellRegions(model, (side, side))
    by_split: list[tuple[NearPatch, ...]] = []
    splits: tuple[Split, ...] = ("train", "val")
    for split in splits:
        seen = prototype_scores(folder, split, model, data, progress)
        order = seen.scores[:, prototype].argsort(descending=True, stable=True)[:count].tolist()
        cells = [Cell(grid.number, *seen.cells[image, prototype].tolist()) for image in order]
        if grid.comparison.num_places:
            data = folder.data(progress) if data is None else data
            cells = _cells_with_places(model, data, seen, order, prototype)
        by_split.append(
            tuple(
                NearPatch(
                    image=seen.ids[image],
                    split=split,
                    class_name=model.class_names[int(seen.labels[image])],
                    own_class=int(seen.labels[image]) in owners,
                    score=float(seen.scores[image, prototype]),
                    grid=grid.number,
                    cell=(cell.row, cell.col),
                    region=regions.region(cell),
                )
                for image, cell in zip(order, cells, strict=True)
            )
        )
    return NearestPatches(prototype, *by_split)


def _cells_with_places(
    model: PixPNet, data: DataSet, seen: PrototypeScores, images: list[int], prototype: int
) -> list[Cell]:
    """Where an image moves the parts of a patch, it is asked again."""
    entries: dict[str, Entry] = {entry.id: entry for entry in (*data.train, *data.val)}
    samples = [preprocess(data.reader(entries[seen.ids[image]]), model.preprocessing) for image in images]
    return [answer.cells_of(torch.tensor([prototype]))[0] for answer in answers(model, samples)]


def training_patch(
    run: Run | Path | str, near: NearPatch, *, model: PixPNet | None = None, data: DataSet | None = None
) -> TrainingPatch:
    """A near patch of a training image as verdicts name it, to be forbidden or remembered.

    Args:
        run: the run that it was found in.
        near: the patch.
        model: of the run, where it is open already.
        data: of the run, where they are open already.

    Raises:
        VerdictError: if it is a patch of a validation image: nothing is learnt from those.
    """
    folder = Run.of(run)
    model = folder.model() if model is None else model
    data = folder.data() if data is None else data
    entry = next((entry for entry in data.train if entry.id == near.image), None)
    if entry is None:
        raise VerdictError(f"{near.image} is no training image, so none of its patches can be forbidden or remembered")
    sample = preprocess(data.reader(entry), model.preprocessing)
    a, b, c, d, e, f, g, h, i = sample.to_source.double().flatten().tolist()
    return TrainingPatch(
        image=near.image,
        class_name=near.class_name,
        boxes=near.region,
        size=sample.size,
        to_source=(a, b, c, d, e, f, g, h, i),
        grid=near.grid,
        row=near.cell[0],
        col=near.cell[1],
    )

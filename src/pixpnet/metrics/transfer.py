"""How much of a teacher's matches a student has taken over (Proto2Proto): AAP, AJS and PMS.

A network's *active cells* in an image are those that some prototype has its nearest match at, at a distance of at most
a threshold. Which class a prototype speaks for plays no part.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]
from torch import Tensor

from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.model import PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress
from pixpnet.training.evaluation import batch_count

# PMS is a mean over so many sizes of sets: 10 %, 20 %, ... of the images.
_TENTHS = 10


@dataclass(frozen=True)
class TransferScores:
    """What a student has of its teacher.

    Attributes:
        threshold: the largest distance of an active cell.
        images: how many were looked at.
        student_cells: AAP of the student, the mean number of active cells in an image.
        teacher_cells: AAP of the teacher.
        overlap: AJS, the mean over images of what share the active cells of both are of those of either; 0 where
            neither has any.
        matching: PMS, how well prototypes can be paired by the cells that they pick, 0-1.
    """

    threshold: float
    images: int
    student_cells: Estimate
    teacher_cells: Estimate
    overlap: Estimate
    matching: float


def transfer_scores(
    student: PixPNet,
    teacher: PixPNet,
    batches: Iterable[Any],
    threshold: float,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    seed: int = 0,
) -> TransferScores:
    """Compares the matches of two networks on the same images.

    Args:
        student: in eval mode, on the device.
        teacher: the same, with as many prototypes on grids of as many cells.
        batches: un-augmented images.
        threshold: the largest distance of an active cell.
        device: where both are.
        progress: told how many batches are done.
        seed: of the intervals.

    Raises:
        ValueError: if the two have other numbers of prototypes, of cells or of pixels, or there are no images.
    """
    for question in ("prototypes", "cells", "pixels"):
        ours, theirs = (_answer(model, question) for model in (student, teacher))
        if ours != theirs:
            raise ValueError(
                f"a student is compared with its teacher cell by cell and prototype by prototype, and they have other "
                f"{question}: {ours} and {theirs}"
            )
    cells = np.cumsum([0, *(rows * cols for rows, cols in _answer(student, "cells"))])
    picked: tuple[list[Tensor], list[Tensor]] = [], []
    near: tuple[list[Tensor], list[Tensor]] = [], []
    with evaluating(student), evaluating(teacher):
        for done, batch in enumerate(batches, start=1):
            images = batch.to(device).images
            for index, model in enumerate((student, teacher)):
                matches = model(images).matches
                numbered = [grid.cells + int(first) for grid, first in zip(matches.grids, cells, strict=False)]
                picked[index].append(torch.cat(numbered, dim=1).cpu())
                near[index].append((matches.distances <= threshold).cpu())
            if progress is not None:
                progress("matches of the teacher", done, batch_count(batches))
    if not picked[0]:
        raise ValueError("there are no images to compare a student with its teacher on")
    ours, theirs = (torch.cat(cells_of_batches) for cells_of_batches in picked)
    active, taught = (
        active_cells(chosen, torch.cat(close), int(cells[-1]))
        for chosen, close in zip((ours, theirs), near, strict=True)
    )
    both, either = (active & taught).sum(dim=1), (active | taught).sum(dim=1)
    jaccard = both / either.clamp_min(1)
    images = list(range(len(ours)))

    def mean(values: Tensor) -> Estimate:
        estimate = bootstrap_mean(values.double().tolist(), images, seed=seed)
        assert estimate is not None  # there are images
        return estimate

    return TransferScores(
        threshold, len(ours), mean(active.sum(dim=1)), mean(taught.sum(dim=1)), mean(jaccard), matching(ours, theirs)
    )


def active_cells(
    picked: Int64[Tensor, "images protos"], near: Bool[Tensor, "images protos"], cells: int
) -> Bool[Tensor, "images cells"]:
    """The cells that some prototype picks from near."""
    counts = torch.zeros(len(picked), cells, dtype=torch.int64)
    return counts.scatter_add(1, picked, near.long()) > 0


def matching(ours: Int64[Tensor, "images protos"], theirs: Int64[Tensor, "images protos"]) -> float:
    """PMS: prototypes of both networks are paired so that the cells that they pick agree most.

    For a size U, two prototypes are alike by |both| / min(|either|, U), where these are the pairs of image and cell
    that both or either pick, and at most 1. Sizes are 10 %, 20 %, ... of the images; the mean over them is taken.

    >>> cells = torch.tensor([[0, 3], [1, 2]])
    >>> matching(cells, cells.flip(1))
    1.0
    """
    images, prototypes = ours.shape
    both: Float[np.ndarray, "protos protos"] = np.zeros((prototypes, prototypes))
    for one, other in zip(ours.numpy(), theirs.numpy(), strict=True):
        both += one[:, None] == other
    either = 2 * images - both
    costs = []
    for tenth in range(1, _TENTHS + 1):
        size = max(1, round(images * tenth / _TENTHS))
        cost = 1 - np.minimum(1, both / np.minimum(either, size))
        costs.append(cost[linear_sum_assignment(cost)].mean())
    return 1 - float(np.mean(costs))


def _answer(model: PixPNet, question: str) -> Any:
    if question == "prototypes":
        return [len(grid.prototypes) for grid in model.grids]
    if question == "pixels":
        return model.preprocessing.size
    return [tuple(field.shape[-2:]) for field in model.fields]

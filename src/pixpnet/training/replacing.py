"""Replacement as the training loop does it: prototypes become patches, and what that can have cost is said."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pixpnet.data import DataSet, Entry
from pixpnet.model import Origin, PixPNet
from pixpnet.progress import Progress
from pixpnet.settings import Replacement
from pixpnet.training.log import REPLACED_DISTANCE
from pixpnet.training.replacement import ForbiddenCells, replace_prototypes
from pixpnet.training.replacement_bound import PROVEN, replacement_bound


@dataclass(frozen=True)
class Replaced:
    """What a replacement did.

    Attributes:
        origins: the patch of each prototype.
        figures: for the log.
        refusals: figures that cannot be told, and why.
    """

    origins: tuple[Origin, ...]
    figures: Mapping[str, float]
    refusals: Mapping[str, str]


def replace_and_bound(
    model: PixPNet,
    batches: Callable[[Sequence[Entry]], Any],
    data: DataSet,
    settings: Replacement,
    embed: Callable[[Tensor], tuple[Tensor, ...]],
    device: torch.device | str,
    progress: Progress | None = None,
    forbidden: ForbiddenCells | None = None,
) -> Replaced:
    """Puts training patches in the places of prototypes, and counts the validation images whose answer stayed.

    Args:
        model: whose prototypes and `origins` change.
        batches: from images, as they are, to batches of them.
        data: whose training images give patches.
        settings: which patches may not be shared, and how they are chosen.
        embed: from what batches hold to embeddings of each grid.
        device: where the model is.
        progress: told how many batches are done.
        forbidden: cells that no prototype may be taken from.
    """
    before = [copy.deepcopy(grid.comparison) for grid in model.grids]
    origins = replace_prototypes(model, batches(data.train), data.train, settings, device, progress, embed, forbidden)
    bound = replacement_bound(model, before, batches(data.val), embed, device, progress)
    distance = sum(origin.distance for origin in origins) / len(origins)
    refusals = {PROVEN: bound.refusal} if bound.refusal else {}
    return Replaced(origins, {REPLACED_DISTANCE: distance, **bound.figures}, refusals)

"""How near training images come to prototypes: what pruning and merging decide by."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.data import Entry
from pixpnet.model import PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress
from pixpnet.training.evaluation import batch_count


@dataclass(frozen=True)
class TrainingDistances:
    """The measure between each prototype and the nearest patch of each training image, on the CPU.

    Attributes:
        distances: images are in the order of their ids.
        labels: of the images.
    """

    distances: Float[Tensor, "images protos"]
    labels: Int64[Tensor, " images"]


def training_distances(
    model: PixPNet,
    batches: Iterable[Any],
    entries: Sequence[Entry],
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    embed: Callable[[Tensor], tuple[Tensor, ...]] | None = None,
) -> TrainingDistances:
    """Compares all training images with all prototypes, in one pass.

    Where several processes each bring their own batches, all of them end with the same.

    Args:
        model: which does not change.
        batches: un-augmented training images, or what `embed` takes, in any order (`Batch`, `FeatureBatch`).
        entries: all training images, those of the other processes included.
        device: where the model is.
        progress: told how many batches are done.
        embed: from what batches hold to embeddings of each grid; `model.embed` by default.
    """
    listed = sorted(entries, key=lambda entry: entry.id)
    rows = {entry.id: row for row, entry in enumerate(listed)}
    distances = torch.zeros(len(listed), model.num_prototypes, device=device)
    total = batch_count(batches)
    with evaluating(model):
        for done, batch in enumerate(batches, start=1):
            batch = batch.to(device)
            embeddings = (embed or model.embed)(batch.images)
            matches = model.match(tuple(cells.float() for cells in embeddings))
            distances[[rows[id_] for id_ in batch.ids]] = matches.distances.float()
            if progress is not None:
                progress("distances of training images", done, total)
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(distances)  # each image is in the batches of one process, and 0 in the others
    return TrainingDistances(distances.cpu(), torch.tensor([entry.label for entry in listed]))

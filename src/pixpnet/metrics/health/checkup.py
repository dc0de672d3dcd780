"""`prototype_health`: everything at once, in one look at the origins' images and one pass over a split."""

from collections.abc import Iterator
from dataclasses import replace

from pixpnet.data import Batch, DataSet, Loading, plain_loader
from pixpnet.data.reader import WithoutMasks
from pixpnet.metrics.health.background import LEAST_OBJECT, background
from pixpnet.metrics.health.coverage import coverage
from pixpnet.metrics.health.deciding import deciding
from pixpnet.metrics.health.duplicates import TOLERANCE, duplicates
from pixpnet.metrics.health.patches import images_of, patches
from pixpnet.metrics.health.record import PrototypeHealth
from pixpnet.metrics.health.replacement_cost import accuracy_lost_at_replacement
from pixpnet.model import PixPNet
from pixpnet.progress import Progress
from pixpnet.training import Run

# Of the similarity maps of a batch: 64 MB, of which a forward pass holds a few at a time.
_MAP_NUMBERS = 2**24


def prototype_health(
    model: PixPNet,
    data_set: DataSet,
    split: str = "val",
    progress: Progress | None = None,
    *,
    run: Run | None = None,
    least_object: float = LEAST_OBJECT,
    tolerance: float = TOLERANCE,
    batch_size: int = 64,
    seed: int = 0,
) -> PrototypeHealth:
    """What may be wrong with a model's prototypes; the test split stays closed.

    Intervals draw whole classes again, as prototypes of one class are trained on the same images.

    Args:
        model: with origins; without, whatever depends on them is undefined.
        data_set: what it was trained on, opened as it was then.
        split: ``val`` or ``train``, the images on which prototypes may decide something.
        progress: told how many images are done, of how many.
        run: a finished run, for the cost of replacement.
        least_object: of a region's pixels, the share that must show the object (where there are masks).
        tolerance: how far apart vectors that are nearly the same may be, as a share of their length.
        batch_size: of the pass over the split; less where the maps of many prototypes would fill the memory.
        seed: of the intervals.

    Raises:
        ValueError: if the split is unknown, or images are not shown as they were when prototypes were taken from them.
        RunError: if the run is not finished or its figures are damaged.
    """
    if split not in ("val", "train"):
        raise ValueError(
            f"prototypes are looked at on 'val' or 'train', not on {split!r}; for test images that are open already "
            "call pixpnet.metrics.health.deciding.deciding with their batches"
        )
    entries = data_set.val if split == "val" else data_set.train
    done, total = 0, images_of(model, data_set) + len(entries)

    def tick(images: int = 1) -> None:
        nonlocal done
        done += images
        if progress is not None:
            progress("health of prototypes", done, total)

    def batches() -> Iterator[Batch]:
        unmasked = replace(data_set, reader=WithoutMasks(data_set.reader))
        loading = Loading(_fitting(model, batch_size), cache_bytes=0)
        for batch in plain_loader(unmasked, entries, model.preprocessing, loading):
            yield batch
            tick(len(batch))

    count = model.num_prototypes
    patch_list = patches(model, data_set, tick)
    return PrototypeHealth(
        count=count,
        background=background(patch_list, count, seed, least_object),
        duplicates=duplicates(model, tolerance, seed),
        deciding=deciding(model, batches(), split, seed),
        coverage=coverage(patch_list, model.num_classes, seed),
        replacement=None if run is None else accuracy_lost_at_replacement(run),
    )


def _fitting(model: PixPNet, batch_size: int) -> int:
    """As many images as have maps of a bounded size."""
    numbers = sum(
        len(grid.prototypes) * field.shape[-2] * field.shape[-1]
        for grid, field in zip(model.grids, model.fields, strict=True)
    )
    return max(1, min(batch_size, _MAP_NUMBERS // numbers))

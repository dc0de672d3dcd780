"""Batches for training and evaluation, the same whatever the number of workers, and after any interruption.

All randomness of a view comes from (seed, epoch, view). The epoch travels inside the key that the sampler
hands out, so worker processes that live on from epoch to epoch need no telling, and a run that resumes at an
epoch boundary sees exactly what it would have seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from pixpnet.data.augmentation import Augmentation, draw, order_generator, view_generator
from pixpnet.data.batch import collate
from pixpnet.data.catalog import Entry, Reader
from pixpnet.data.dataset import DataSet
from pixpnet.data.fused import augment
from pixpnet.data.keeping import for_augmented_views, for_plain_views, keeping
from pixpnet.data.preprocessing import Preprocessing, normalize
from pixpnet.data.sample import Sample
from pixpnet.messages import first_line
from pixpnet.records import refuse_above


@dataclass(frozen=True)
class Loading:
    """How batches are made; none of it changes what is in them, but for the batch size.

    Attributes:
        batch_size: images per batch (the paper's).
        num_workers: processes beside the main one; 0 does everything in the main one.
        cache_bytes: of images that may be kept, in memory or in a temporary file that all workers share.
        drop_last: leave out an incomplete last batch.
    """

    batch_size: int = 64
    num_workers: int = 0
    cache_bytes: int = 2**30
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.num_workers < 0:
            raise ValueError(
                f"batch_size is at least 1 and num_workers not negative, got {self.batch_size} and {self.num_workers}"
            )
        refuse_above(self, {"batch_size": 65536, "num_workers": 512})


class WorkerError(RuntimeError):
    """A process that loads images is gone; the message says what to do."""


class ViewKey(NamedTuple):
    """Names one augmented view."""

    epoch: int
    view: int


class AugmentedSamples(Dataset[Sample]):
    """Every image `factor` times, each time another view; indexed by `ViewKey`."""

    def __init__(
        self,
        entries: Sequence[Entry],
        reader: Reader,
        preprocessing: Preprocessing,
        augmentation: Augmentation,
        seed: int,
    ) -> None:
        self.entries = tuple(entries)
        self.reader = reader
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self.seed = seed
        self._working_images = for_augmented_views(reader, preprocessing, augmentation)

    def __len__(self) -> int:
        return len(self.entries) * self.augmentation.factor

    def __getitem__(self, key: ViewKey) -> Sample:
        epoch, view = key
        sample = self._working_images(self.entries[view % len(self.entries)])
        choices = draw(self.augmentation, view_generator(self.seed, epoch, view))
        return augment(sample, choices, self.preprocessing, self.augmentation)


class PlainSamples(Dataset[Sample]):
    """Every image once, as the network sees it at test time."""

    def __init__(self, entries: Sequence[Entry], reader: Reader, preprocessing: Preprocessing) -> None:
        self.entries = tuple(entries)
        self.reader = reader
        self.preprocessing = preprocessing
        self._squares = for_plain_views(reader, preprocessing)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Sample:
        return normalize(self._squares(self.entries[index]), self.preprocessing)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))


class EpochSampler(Sampler[ViewKey]):
    """All views in an order that depends on (seed, epoch) only, dealt out to the ranks in turn.

    Every rank gets equally many, so the first few views come twice where the number does not divide.
    Lightning calls `set_epoch` itself; give its trainer `use_distributed_sampler=False`.
    """

    def __init__(self, length: int, seed: int, rank: int = 0, world_size: int = 1) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is not one of {world_size}")
        self.length = length
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next iteration is."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.length // self.world_size)

    def __iter__(self) -> Iterator[ViewKey]:
        order = order_generator(self.seed, self.epoch).permutation(self.length)
        epoch = self.epoch
        for index in range(self.rank, len(self) * self.world_size, self.world_size):
            yield ViewKey(epoch, int(order[index % self.length]))


def training_loader(
    data: DataSet,
    preprocessing: Preprocessing,
    augmentation: Augmentation,
    loading: Loading,
    seed: int,
    rank: int = 0,
    world_size: int = 1,
) -> DataLoader[Sample]:
    """Augmented batches of the training images, `factor` views of each per epoch, in random order.

    Args:
        data: the data set.
        preprocessing: its own, or that scaled to another size.
        augmentation: the paper's by default.
        loading: batch size and workers.
        seed: of order and augmentation.
        rank: this process, where several train together.
        world_size: how many do.

    Returns:
        a loader of `Batch`; call `loader.sampler.set_epoch(epoch)` before each epoch.
    """
    samples = AugmentedSamples(data.train, _cached(data.reader, loading), preprocessing, augmentation, seed)
    return _loader(samples, EpochSampler(len(samples), seed, rank, world_size), loading, loading.drop_last)


def plain_loader(
    data: DataSet, entries: Sequence[Entry], preprocessing: Preprocessing, loading: Loading
) -> DataLoader[Sample]:
    """Un-augmented batches in the order of the entries: for validation, replacement and evaluation.

    Args:
        data: the data set.
        entries: such as `data.val`, `data.train`, or what opening `data.test` gave.
        preprocessing: the model's.
        loading: batch size and workers; no image is dropped.

    Returns:
        a loader of `Batch`.
    """
    samples = PlainSamples(entries, _cached(data.reader, loading), preprocessing)
    return _loader(samples, None, loading, drop_last=False)


def _cached(reader: Reader, loading: Loading) -> Reader:
    return keeping(reader, loading.cache_bytes, loading.num_workers) if loading.cache_bytes else reader


def _loader(
    samples: Dataset[Sample], sampler: Sampler[ViewKey] | None, loading: Loading, drop_last: bool
) -> DataLoader[Sample]:
    return _Loader(
        samples,
        batch_size=loading.batch_size,
        sampler=sampler,
        num_workers=loading.num_workers,
        collate_fn=collate,
        pin_memory=torch.cuda.is_available(),
        drop_last=drop_last,
        worker_init_fn=_quiet_worker,
        # A loader draws a seed for its workers; ours use none, and the global generator stays untouched.
        generator=torch.Generator(),
        persistent_workers=loading.num_workers > 0,
    )


class _Loader(DataLoader[Sample]):
    """Says what to do where a worker was killed."""

    def __iter__(self) -> Any:
        batches = super().__iter__()
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except RuntimeError as error:
                if type(error) is RuntimeError and str(error).startswith("DataLoader worker"):
                    raise WorkerError(
                        f"a process that loads images was killed ({first_line(error)}), most likely because memory ran "
                        "out: use fewer (--num-workers 0 has none), or a smaller batch"
                    ) from error
                raise
            yield batch


def _quiet_worker(worker: int) -> None:
    """One thread per worker: the workers themselves are the parallelism."""
    cv2.setNumThreads(0)

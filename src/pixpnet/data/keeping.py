"""A reader that keeps images at the size that is needed of them, within a budget.

Who needs an image says what is to be made of it: the square that the network sees (`for_plain_views`), or the working
image that augmented views are made of (`for_augmented_views`). What is smaller than the decoded file is kept in its
place; where all of the file is needed, the file's image is kept and serves everybody. What is made depends on the file
alone, so nothing depends on what was kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable

from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalog import Entry, Reader
from pixpnet.data.preprocessing import Preprocessing, squared
from pixpnet.data.sample import Sample
from pixpnet.data.shared_cache import SharedCache, Stamp, stamp_of
from pixpnet.data.shared_store import SharedStore
from pixpnet.data.working import working_image

Making = Callable[[Sample], Sample]


@runtime_checkable
class Store(Protocol):
    """Where samples are kept by a key, each for one version of its file; what came first stays."""

    def find(self, key: str, stamp: Stamp, entry: Entry) -> Sample | None:
        """What was kept of this version of an entry's file."""

    def add(self, key: str, stamp: Stamp, sample: Sample) -> None:
        """Keeps a sample, unless there is no room."""


@dataclass(frozen=True)
class KeepingReader:
    """Keeps what another reader read, or what was made of it, until the store is full.

    An epoch visits every image once in random order, so replacing old images by new ones would never find anything; a
    fixed part of the data set always hits. An image whose file has changed since is read anew.

    Attributes:
        reader: where samples come from.
        store: where they are kept.
    """

    reader: Reader
    store: Store

    def __call__(self, entry: Entry) -> Sample:
        """Reads an entry; see `pixpnet.data.catalog.Reader`."""
        return self.made(entry, "", lambda sample: sample)

    def made(self, entry: Entry, purpose: str, make: Making) -> Sample:
        """What is made of an entry's image.

        Args:
            entry: the image.
            purpose: stands for `make` in the key.
            make: gives the same for the same sample, always.
        """
        stamp = stamp_of(entry.path)
        if stamp is None:
            return make(self.reader(entry))  # the reader says what is wrong
        whole = self.store.find(entry.id, stamp, entry)
        if whole is not None:
            return make(whole)
        # An id is a path, which holds no NUL.
        key = f"{entry.id}\0{purpose}"
        sample = self.store.find(key, stamp, entry) if purpose else None
        if sample is not None:
            return sample
        whole = self.reader(entry)
        sample = make(whole)
        if bytes_of(sample) < bytes_of(whole):
            self.store.add(key, stamp, sample)
        else:
            self.store.add(entry.id, stamp, whole)
        return sample


@dataclass
class MemoryStore:
    """Samples in the memory of one process.

    Attributes:
        budget: bytes of images that may be kept.
        used: bytes that are.
    """

    budget: int
    used: int = 0
    _samples: dict[str, tuple[Stamp, Sample]] = field(default_factory=dict, repr=False)

    def find(self, key: str, stamp: Stamp, entry: Entry) -> Sample | None:
        """See `Store`."""
        version, sample = self._samples.get(key, (None, None))
        if sample is None or version == stamp:
            return sample
        del self._samples[key]
        self.used -= bytes_of(sample)
        return None

    def add(self, key: str, stamp: Stamp, sample: Sample) -> None:
        """See `Store`."""
        if self.used + bytes_of(sample) <= self.budget:
            self._samples[key] = stamp, sample
            self.used += bytes_of(sample)

    def __getstate__(self) -> dict[str, object]:
        """What is pickled, as for worker processes that are spawned, starts empty."""
        return {"budget": self.budget, "used": 0, "_samples": {}}


def keeping(reader: Reader, budget: int, num_workers: int) -> KeepingReader:
    """A reader that keeps images: in memory, or, where several processes read, in a file that they share.

    Args:
        reader: where samples come from.
        budget: bytes of images that may be kept, by all processes together.
        num_workers: processes that read beside the main one.
    """
    return KeepingReader(reader, SharedStore(SharedCache(budget)) if num_workers else MemoryStore(budget))


def for_plain_views(reader: Reader, preprocessing: Preprocessing) -> Reader:
    """Reads the square of an image that the network sees, before it is normalised."""
    return _Needed(reader, f"plain {preprocessing}", partial(squared, preprocessing=preprocessing))


def for_augmented_views(reader: Reader, preprocessing: Preprocessing, augmentation: Augmentation) -> Reader:
    """Reads the working image of an image."""
    make = partial(working_image, preprocessing=preprocessing, augmentation=augmentation)
    return _Needed(reader, f"augmented {preprocessing} {augmentation.max_zoom}", make)


@dataclass(frozen=True)
class _Needed:
    """Reads images and makes something of them, or finds it where the reader keeps images."""

    reader: Reader
    purpose: str
    make: Making

    def __call__(self, entry: Entry) -> Sample:
        if isinstance(self.reader, KeepingReader):
            return self.reader.made(entry, self.purpose, self.make)
        return self.make(self.reader(entry))


def bytes_of(sample: Sample) -> int:
    """The memory of a sample's image and masks."""
    return sample.image.nbytes + (0 if sample.masks is None else sample.masks.nbytes)

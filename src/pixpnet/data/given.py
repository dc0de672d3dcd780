"""Datasets of the caller's own: `torch.utils.data.Dataset` objects of (image, label), opened like a folder of images.

Every item is read once, as the files of a folder are: its label, a hash of its pixels, its statistics. So splits go by
pixels, copies across splits are refused, and a run keeps a list by which the same images are known again. That needs
items that stay what they are: an item that gives other pixels the second time (a random transform) is refused, since a
prototype must be a patch of a training image that can be shown. Augmentation is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, default_collate

from pixpnet.class_names import fault_of
from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalog import Catalog, Entry, Split
from pixpnet.data.dataset import DataOptions, DataSet, open_looked_at
from pixpnet.data.errors import ClassNameError, DataError, ImageError
from pixpnet.data.listed import ImageList
from pixpnet.data.pictures import Picture, as_sample
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.sample import Sample
from pixpnet.data.scan import looked_at, pixels_digest
from pixpnet.data.scan_store import FileFacts
from pixpnet.progress import Progress

Items: TypeAlias = Dataset[object] | Sequence[tuple[object, object]]
"""A map-style dataset of (image, label), or a list of such pairs."""

_SPLITS: tuple[Split, ...] = ("train", "val", "test")
# So many items, spread over a split, are read twice at once, to find random transforms before any training.
_READ_TWICE = 8


@dataclass(frozen=True)
class DatasetSplits:
    """Datasets of the caller's own, one for each split that there is.

    Attributes:
        train: map-style, of (image, label): the image a PIL image, a uint8 array or tensor, a path or bytes; the label
            a whole number from 0.
        val: to choose by; where there is none, images are taken from `train`, each by its own pixels.
        test: to evaluate on; likewise.
        class_names: in the order of the labels; by default `train.classes`, as torchvision's datasets have it, or
            "class 0" and so on.
        name: for messages and the run's configuration; by default the name of the class of `train`.

    >>> pictures = [(np.full((4, 4, 3), 9 * k, np.uint8), k % 2) for k in range(4)]
    >>> DatasetSplits(pictures, class_names=("jay", "wren")).name
    'list'
    """

    train: Items
    val: Items | None = None
    test: Items | None = None
    class_names: Sequence[str] = ()
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", type(self.train).__name__)
        if isinstance(self.class_names, str):
            raise TypeError(f"class_names is a list of names, got {self.class_names!r}")
        if not self.name.isprintable():
            raise ValueError(f"the name of a dataset has no control characters, got {self.name!r}")
        for split in _SPLITS:
            dataset = getattr(self, split)
            if dataset is not None or split == "train":
                _refuse_what_has_no_items(dataset, split)


class LoaderNumbers(NamedTuple):
    """What a run takes from a `DataLoader`, beside its dataset."""

    batch_size: int
    num_workers: int


OwnImages: TypeAlias = Items | DataLoader[object] | DatasetSplits
"""Images that are objects of the caller's: a dataset, a loader of one, or a dataset for each split."""


def splits_of(images: OwnImages) -> DatasetSplits:
    """The datasets behind what a caller gave.

    Of a `DataLoader`, the dataset counts (and `loader_numbers`): order, augmentation and batches are the run's own,
    so that they follow from its seed. A loader that chooses items or makes batches in a way of its own is refused.

    Raises:
        TypeError: if it is nothing of the kind; the message says what was expected.
        DataError: if a loader has a sampler or a collate function of its own.
    """
    if isinstance(images, DatasetSplits):
        return images
    if isinstance(images, DataLoader):
        _refuse_own_ways(images)
        return DatasetSplits(images.dataset)
    if isinstance(images, (Dataset, list, tuple)):
        return DatasetSplits(images)
    raise TypeError(
        "images of your own are a torch.utils.data.Dataset of (image, label), a DataLoader of one, or DatasetSplits, "
        f"got {_described(images)}; images on the disk are named in the configuration: RunConfig(data='folder:PATH')"
    )


def loader_numbers(images: OwnImages) -> LoaderNumbers | None:
    """The batch size and the number of worker processes of a loader; None for a dataset."""
    if not isinstance(images, DataLoader) or images.batch_size is None:
        return None
    return LoaderNumbers(images.batch_size, images.num_workers)


def open_datasets(
    images: OwnImages,
    options: DataOptions | None = None,
    progress: Progress | None = None,
    listed: ImageList | None = None,
) -> DataSet:
    """Opens datasets of the caller's own, like `open_data` a folder: every item is read once.

    Args:
        images: datasets.
        options: splits, and what to do about bad images and leaks.
        progress: told how many of how many items have been looked at.
        listed: where a run had the images; see `open_data`.

    Raises:
        DataError: if they cannot be used as they are; the message says what to do.
        TypeError: if an item is no (image, label).

    >>> pictures = [(np.full((4, 4, 3), 9 * k, np.uint8), k % 2) for k in range(20)]
    >>> data = open_datasets(DatasetSplits(pictures, class_names=("jay", "wren")))
    >>> len(data.train) + len(data.val) + len(data.test), data.class_names
    (20, ('jay', 'wren'))
    """
    splits = splits_of(images)
    reader = DatasetReader(dict(_given(splits)), splits.name)
    facts: dict[str, FileFacts] = {}
    entries: list[Entry] = []
    total = sum(_length(dataset) for dataset in reader.datasets.values())
    for split, dataset in reader.datasets.items():
        count = _length(dataset)
        twice = {round(step * (count - 1) / _READ_TWICE) for step in range(_READ_TWICE + 1)}
        for index in range(count):
            id_ = f"{split}/{index:06d}"
            try:
                sample = reader.read(split, index)
                facts[id_] = looked_at(sample)
            except ImageError as error:
                facts[id_] = FileFacts(error.reason)
            else:
                entries.append(Entry(id_, sample.label, split, index=index, digest=facts[id_].digest))
                if index in twice:
                    reader(entries[-1])
            if progress is not None:
                progress("looking at the images", len(facts), total)
    return open_looked_at(_catalog(splits, reader, entries), facts, options or DataOptions(), listed)


@dataclass(frozen=True)
class DatasetReader:
    """Reads entries from datasets, and refuses an item that is not the picture it was.

    Attributes:
        datasets: by split.
        name: of all of them, for messages.
    """

    datasets: Mapping[Split, Items] = field(repr=False)  # an address in memory says nothing
    name: str

    def __call__(self, entry: Entry) -> Sample:
        """Reads an entry; see `pixpnet.data.catalog.Reader`."""
        sample = self.read(entry.split, entry.index)
        if entry.digest is not None and pixels_digest(sample) != entry.digest:
            raise DataError(
                f"item {entry.index} of {self.name} ({entry.split}) gives another picture each time it is asked for: a "
                "prototype must be a patch of a picture that stays what it is, so take random transforms out of the "
                "dataset (training augments by itself)"
            )
        return sample

    def read(self, split: Split, index: int) -> Sample:
        """Reads an item, whatever picture it is.

        Raises:
            ImageError: if its picture cannot be read.
            TypeError: if it is no (image, label).
        """
        where = f"item {index} of {self.name} ({split})"
        item = self.datasets[split][index]
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise TypeError(f"{where} is not (image, label), got {_described(item)}")
        picture, label = item
        try:
            sample = as_sample(cast("Picture", picture), where)
        except TypeError as error:
            raise TypeError(
                f"{error}; the dataset gives pictures as they are, without ToTensor and Normalize, which the network "
                "carries itself"
            ) from error
        return replace(sample, label=_label(label, where), id=f"{split}/{index:06d}")


@runtime_checkable
class _NamesItsClasses(Protocol):
    """As torchvision's datasets do."""

    classes: Sequence[str]


def _catalog(splits: DatasetSplits, reader: DatasetReader, entries: Sequence[Entry]) -> Catalog:
    if not entries:
        raise DataError(f"{splits.name}: there is no image in it that can be used")
    labels = {entry.label for entry in entries}
    names = _class_names(splits, max(labels) + 1)
    if max(labels) >= len(names):
        raise DataError(
            f"{splits.name}: there are {len(names)} class names, and a label {max(labels)} (labels count from 0): give "
            "a name for each class"
        )
    fault = fault_of(names)
    if fault is not None:
        raise ClassNameError(f"{splits.name}: {fault}")
    decided: frozenset[Split] = frozenset(split for split in reader.datasets if split != "train")
    return Catalog(
        name=splits.name,
        class_names=names,
        part_names=(),
        point_parts=(),
        entries=tuple(entries),
        reader=reader,
        preprocessing=Preprocessing(),
        augmentation=Augmentation(),
        statistics_known=False,
        decided=decided,
    )


def _class_names(splits: DatasetSplits, count: int) -> tuple[str, ...]:
    given: Sequence[object] = splits.class_names
    if not given and isinstance(splits.train, _NamesItsClasses):
        given = splits.train.classes
    return tuple(map(str, given)) or tuple(f"class {label}" for label in range(count))


def _given(splits: DatasetSplits) -> list[tuple[Split, Items]]:
    named: list[tuple[Split, Items | None]] = [("train", splits.train), ("val", splits.val), ("test", splits.test)]
    return [(split, dataset) for split, dataset in named if dataset is not None]


def _length(dataset: object) -> int:
    return len(dataset)  # type: ignore[arg-type]  # looked at when the splits were made


def _label(label: object, where: str) -> int:
    if isinstance(label, Tensor) and label.ndim == 0 and not label.is_floating_point():
        label = label.item()
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool) and label >= 0:
        return int(label)
    raise TypeError(f"{where}: a label is a whole number from 0, got {_described(label)}")


def _refuse_what_has_no_items(dataset: object, split: str) -> None:
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            f"{split}: an IterableDataset has no items that can be asked for again, by which a prototype's picture is "
            "found: give a map-style dataset (__len__ and __getitem__)"
        )
    if isinstance(dataset, DataLoader):
        raise TypeError(f"{split}: give the dataset of the loader (loader.dataset)")
    if not isinstance(dataset, (Dataset, list, tuple)):
        raise TypeError(f"{split}: expected a torch.utils.data.Dataset of (image, label), got {_described(dataset)}")
    try:
        len(dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError) as error:
        raise TypeError(f"{split}: {type(dataset).__name__} has no length (__len__)") from error


def _refuse_own_ways(loader: DataLoader[object]) -> None:
    """Refuses a loader whose choice of items, or whose batches, a run could not honour."""
    if isinstance(loader.dataset, IterableDataset):
        _refuse_what_has_no_items(loader.dataset, "loader")
    if loader.batch_size is None:
        raise DataError(
            "the loader makes its batches in a way of its own (batch_sampler, or batch_size=None), which a run cannot "
            "keep to: give a loader with a batch_size, or its dataset"
        )
    plain = isinstance(loader.sampler, SequentialSampler) or (
        isinstance(loader.sampler, RandomSampler) and not loader.sampler.replacement
    )
    if not plain or len(loader.sampler) != _length(loader.dataset):  # type: ignore[arg-type]
        raise DataError(
            f"the loader chooses items by a {type(loader.sampler).__name__}, and a run shows every training image in "
            "each epoch, in an order that follows from its seed: give torch.utils.data.Subset(dataset, indices) to "
            "leave items out"
        )
    if loader.collate_fn is not default_collate:
        raise DataError(
            "the loader has a collate function of its own, and a run makes its batches itself, of pictures that it "
            "augments: do that work in the dataset's __getitem__"
        )


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r}" if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__

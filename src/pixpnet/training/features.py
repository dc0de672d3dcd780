"""Features of a backbone that does not learn: computed once for each view of an image, and kept on disk.

What a frozen stem gives for a view never changes, so epochs, replacement, evaluation, other seeds and other settings
all read it from the cache folder. A *set* holds the features of one stem, one preprocessing and one augmentation; its
name is a hash of those and of the weights. Inside, each file holds the features of some views, is written whole or not
at all, and is read by memory mapping. Whatever is missing is computed and becomes another file; so an interrupted pass
goes on where it stopped, and processes that fill one set at a time do not disturb each other.

A view is decided by the image's pixels and its number alone, not by the run's seed, and is computed by itself, not in a
batch: the same view always has the same bits.
"""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pixpnet.data import Augmentation, Batch, Entry, Preprocessing, Sample, draw
from pixpnet.data.catalog import Reader
from pixpnet.data.fused import augment
from pixpnet.data.loader import EpochSampler, ViewKey
from pixpnet.data.preprocessing import preprocess
from pixpnet.data.scan import Progress, cache_folder
from pixpnet.model import Backbone
from pixpnet.model.modes import evaluating
from pixpnet.records import to_plain
from pixpnet.whole_file import written_whole

_FORMAT = 1
_VIEW_RANDOMNESS = 4
_FILE_BYTES, _FILE_VIEWS = 2**26, 256
_BUDGET = "PIXPNET_FEATURES_GB"
_DEFAULT_GIGABYTES = 20.0
_PLAIN = 0


class FeaturesError(RuntimeError):
    """Features that cannot be kept; the message says what to do."""


class ViewOf(NamedTuple):
    """A view of an image: number 0 as at test time, from 1 on augmented."""

    entry: Entry
    view: int = _PLAIN


@dataclass(frozen=True)
class FeatureBatch:
    """A batch whose images are what the stem made of them; `pixpnet.data.Batch` says what the rest is."""

    images: Shaped[Tensor, "..."]
    labels: Int64[Tensor, " batch"]
    ids: tuple[str, ...]
    to_source: Shaped[Tensor, "batch 3 3"]

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "FeatureBatch":
        """The same batch on another device; `to_source` stays on the CPU."""
        return replace(
            self,
            images=self.images.to(device, non_blocking=non_blocking),
            labels=self.labels.to(device, non_blocking=non_blocking),
        )


AnyBatch = Batch | FeatureBatch
"""What a step of learning gets: images, or what a frozen stem made of them."""


class Features:
    """The features of one stem: of plain views, and of augmented ones.

    Example:
        features = Features(model.backbone, preprocessing, augmentation, data.reader)
        views = [ViewOf(entry, view) for entry in data.train for view in range(4)]
        features.compute(views)  # what is not there yet
        batch = features.batch(views[:32])
    """

    def __init__(
        self,
        backbone: Backbone,
        preprocessing: Preprocessing,
        augmentation: Augmentation,
        reader: Reader,
        reader_name: str,
        folder: Path | None = None,
    ) -> None:
        """Opens what there is.

        Args:
            backbone: frozen, up to some layer or whole (`Backbone.freeze`).
            preprocessing: from files to the network.
            augmentation: of views from number 1 on.
            reader: of images.
            reader_name: what decides the pixels that it gives, beside the file.
            folder: for all sets; `features` in the cache folder by default.
        """
        if not backbone.frozen:
            raise ValueError("a backbone that learns has no features to keep: say what is frozen (Backbone.freeze)")
        self.backbone = backbone
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self.reader = reader
        root = cache_folder() / "features" if folder is None else folder
        stem = _identity(backbone, preprocessing, reader_name)
        choices = to_plain(replace(augmentation, factor=1))
        self.plain = _Set(root / _name(stem, "plain"))
        self.augmented = _Set(root / _name(stem, json.dumps(choices, sort_keys=True)))
        self._root = root

    def compute(
        self, views: Sequence[ViewOf], device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> int:
        """Computes what is missing of these views, and says how many those were.

        Raises:
            FeaturesError: if they do not fit into the budget or on the disk.
        """
        wanted = {_key(view): view for view in views}
        missing = [view for key, view in wanted.items() if not self._set_of(view).holds(key)]
        self._check_what_is_there(views, device)
        done = len(views) - len(missing)
        if progress is not None:
            progress(done, len(views))
        # Augmented and plain ones go to different files.
        for kind in (self.plain, self.augmented):
            waiting: list[tuple[ViewOf, Tensor, Tensor]] = []
            mine = [view for view in missing if self._set_of(view) is kind]
            for count, view in enumerate(mine, start=1):
                sample = self._sample(view)
                waiting.append((view, self._stem(sample, device), sample.to_source.double()))
                size = waiting[0][1].nbytes
                if count == 1:
                    self._make_room(size * len(mine))
                if count == len(mine) or len(waiting) >= min(_FILE_VIEWS, max(1, _FILE_BYTES // size)):
                    kind.add(
                        [_key(waiting_view) for waiting_view, _, _ in waiting],
                        *map(_stacked, list(zip(*waiting, strict=True))[1:]),
                    )
                    waiting = []
                done += 1
                if progress is not None:
                    progress(done, len(views))
        return len(missing)

    def batch(self, views: Sequence[ViewOf]) -> FeatureBatch:
        """Features of views that were computed, as one batch."""
        stored = [self._set_of(view).read(_key(view)) for view in views]
        return FeatureBatch(
            torch.stack([features for features, _ in stored]),
            torch.tensor([view.entry.label for view in views]),
            tuple(view.entry.id for view in views),
            torch.stack([to_source for _, to_source in stored]),
        )

    def refresh(self) -> None:
        """Looks for what other processes have added."""
        for kind in (self.plain, self.augmented):
            kind.refresh()

    def _set_of(self, view: ViewOf) -> "_Set":
        return self.plain if view.view == _PLAIN else self.augmented

    def _sample(self, view: ViewOf) -> Sample:
        sample = self.reader(view.entry)
        if view.view == _PLAIN:
            return preprocess(sample, self.preprocessing)
        choices = draw(self.augmentation, _view_generator(view))
        return augment(sample, choices, self.preprocessing, self.augmentation)

    def _stem(self, sample: Sample, device: torch.device | str) -> Tensor:
        image = sample.image.as_subclass(Tensor)[None].to(device)
        with evaluating(self.backbone):
            return self.backbone.stem(image)[0].float().cpu().contiguous()

    def _check_what_is_there(self, views: Sequence[ViewOf], device: torch.device | str) -> None:
        """Computes one view again: code that changed under the same name and weights must not go unnoticed."""
        for kind in (self.plain, self.augmented):
            known = next((view for view in views if self._set_of(view) is kind and kind.holds(_key(view))), None)
            if known is None or kind.checked:
                continue
            expected, stored = self._stem(self._sample(known), device), kind.read(_key(known))[0]
            if stored.shape != expected.shape or not torch.allclose(stored, expected, rtol=1e-3, atol=1e-3):
                raise FeaturesError(
                    f"the features in {kind.folder} are not those of this network (its code, or a library under it, "
                    "has changed): delete that folder, and they are computed again"
                )
            kind.checked = True

    def _make_room(self, needed: int) -> None:
        """Removes the sets that were not used for longest, until what is to come fits into the budget."""
        budget = _budget()
        own = {self.plain.folder, self.augmented.folder}
        sizes = (
            {folder: _size(folder) for folder in self._root.iterdir() if folder.is_dir()} if self._root.is_dir() else {}
        )
        used = sum(sizes.values())
        own_bytes = sum(size for folder, size in sizes.items() if folder in own)
        if own_bytes + needed > budget:
            raise FeaturesError(
                f"the features of these views take {_gigabytes(own_bytes + needed)}, and the cache may hold "
                f"{_gigabytes(budget)}: take fewer views (--views) or fewer cells (--window-stride), or "
                f"allow more (set {_BUDGET}, in gigabytes)"
            )
        free = shutil.disk_usage(_existing(self._root)).free
        others = sorted((folder for folder in sizes if folder not in own), key=lambda folder: _last_used(folder))
        while others and (used + needed > budget or needed > free):
            used, free = used - sizes[others[0]], free + sizes[others[0]]
            shutil.rmtree(others.pop(0), ignore_errors=True)
        if needed > free:
            raise FeaturesError(
                f"the features of these views take {_gigabytes(needed)}, and there are {_gigabytes(free)} left on the "
                f"disk of {self._root}: make room, or set PIXPNET_CACHE to a folder on another one"
            )


def feature_loader(
    features: Features, views: Sequence[ViewOf], batch_size: int, seed: int, rank: int = 0, world_size: int = 1
) -> "DataLoader[ViewOf]":
    """Batches of features in random order, the same as `training_loader` gives images: by (seed, epoch) alone."""
    sampler = EpochSampler(len(views), seed, rank, world_size)
    return DataLoader(
        _Views(views), batch_size, sampler=sampler, collate_fn=features.batch, generator=torch.Generator()
    )


def plain_feature_loader(features: Features, entries: Sequence[Entry], batch_size: int) -> "DataLoader[ViewOf]":
    """Batches of features of un-augmented images, in their order."""
    views = _Views([ViewOf(entry) for entry in entries])
    sampler = [ViewKey(0, number) for number in range(len(views))]
    return DataLoader(views, batch_size, sampler=sampler, collate_fn=features.batch, generator=torch.Generator())


class _Views(Dataset[ViewOf]):
    def __init__(self, views: Sequence[ViewOf]) -> None:
        self.views = views

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, key: ViewKey) -> ViewOf:
        return self.views[key.view]


class _Set:
    """A folder of files with features."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checked = False
        self._places: dict[str, tuple[int, int]] = {}
        self._files: dict[str, int] = {}
        self._tensors: list[tuple[Tensor, Tensor]] = []
        self.refresh()

    def refresh(self) -> None:
        """Opens files that were not there before; a damaged one is deleted, and its views are computed again."""
        if not self.folder.is_dir():
            return
        (self.folder / ".used").touch()
        for path in sorted(self.folder.glob("*.safetensors")):
            if path.name in self._files:
                continue
            try:
                keys, features, to_source = _read(path)
            except (SafetensorError, OSError, ValueError, KeyError, TypeError):
                path.unlink(missing_ok=True)
                continue
            self._files[path.name] = len(self._tensors)
            self._places.update({key: (len(self._tensors), row) for row, key in enumerate(keys)})
            self._tensors.append((features, to_source))

    def holds(self, key: str) -> bool:
        """Whether a view is there."""
        return key in self._places

    def read(self, key: str) -> tuple[Tensor, Tensor]:
        """Its features, and the way from its pixels to the file's."""
        file, row = self._places[key]
        features, to_source = self._tensors[file]
        return features[row], to_source[row]

    def add(self, keys: Sequence[str], features: Tensor, to_source: Tensor) -> None:
        """Writes a file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b("\n".join(keys).encode(), digest_size=12).hexdigest()
        header = {"keys": json.dumps(list(keys)), "checksum": str(_checksum(features))}
        with written_whole(self.folder / f"{name}.safetensors") as temporary:
            temporary.write_bytes(save({"features": features, "to_source": to_source}, metadata=header))
        self.refresh()


def _read(path: Path) -> tuple[list[str], Tensor, Tensor]:
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        features, to_source = file.get_tensor("features"), file.get_tensor("to_source")
    keys = json.loads(header["keys"])
    if len(keys) != len(features) or int(header["checksum"]) != _checksum(features):
        raise ValueError(f"{path} is damaged")
    return keys, features, to_source


def _checksum(features: Tensor) -> int:
    return zlib.crc32(features.contiguous().numpy().view(np.uint8).data)


def _identity(backbone: Backbone, preprocessing: Preprocessing, reader_name: str) -> str:
    """Everything that decides the features of a plain view, beside the image."""
    weights = hashlib.blake2b(digest_size=16)
    for name, tensor in backbone.frozen_state().items():
        weights.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        weights.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    parts = {
        "format": _FORMAT,
        "weights": weights.hexdigest(),
        "structure": repr(backbone.network),
        "at": backbone.at,
        "edits": list(backbone.edits),
        "windows": to_plain(backbone.windows),
        "frozen": backbone.frozen,
        "preprocessing": to_plain(preprocessing),
        "reader": reader_name,
    }
    if backbone.watched:
        parts["watched"] = backbone.watched
    return json.dumps(parts, sort_keys=True)


def _name(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def _key(view: ViewOf) -> str:
    return f"{view.entry.digest or view.entry.id}:{view.view}"


def _view_generator(view: ViewOf) -> np.random.Generator:
    image = hashlib.blake2b((view.entry.digest or view.entry.id).encode(), digest_size=8).digest()
    return np.random.default_rng([_VIEW_RANDOMNESS, int.from_bytes(image, "big"), view.view])


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors))


def _budget() -> int:
    text = os.environ.get(_BUDGET, str(_DEFAULT_GIGABYTES))
    try:
        gigabytes = float(text)
    except ValueError as error:
        raise FeaturesError(f"{_BUDGET} is a number of gigabytes, got {text!r}") from error
    return int(gigabytes * 1e9)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _last_used(folder: Path) -> float:
    mark = folder / ".used"
    return (mark if mark.exists() else folder).stat().st_mtime


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"

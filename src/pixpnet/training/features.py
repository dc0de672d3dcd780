"""Features of a backbone that does not learn: computed once for each view of an image, and kept on disk.

What a frozen stem gives for a view never changes, so epochs, replacement, evaluation, other seeds and other settings
all read it from the cache folder. A *set* (`feature_sets`) holds the features of one stem, one preprocessing and one
augmentation; its name is a hash of those and of the weights. Whatever is missing is computed and becomes another file;
so an interrupted pass goes on where it stopped, and processes that fill one set at a time do not disturb each other.
Windows of several sizes have a set for each size, which is that of a backbone on windows of that size alone: networks
with one size, with another and with both read the same files.

A view is decided by the image's pixels and its number alone, not by the run's seed, and is computed by itself, not in a
batch and by one thread, as many views at a time as there are threads: the same view always has the same bits.

Plain views become patches and answers, so they are computed as the network computes them in use. Augmented views are
learnt from and nothing else: where a run learns in reduced precision, they are computed and kept in it.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pixpnet.data import Augmentation, Batch, Entry, Preprocessing, draw
from pixpnet.data.catalog import Reader
from pixpnet.data.fused import augment
from pixpnet.data.keeping import for_augmented_views, for_plain_views
from pixpnet.data.loader import EpochSampler, ViewKey
from pixpnet.data.preprocessing import normalize
from pixpnet.data.scan import cache_folder
from pixpnet.model import Backbone
from pixpnet.model.backbone import joined
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress
from pixpnet.records import to_plain
from pixpnet.training.feature_sets import FeaturesError, FeatureSet, make_room
from pixpnet.training.side_by_side import side_by_side
from pixpnet.windows import Windows

_FORMAT = 1
_VIEWS_FROM = "working images"  # what augmented views are made of; says that features of other ones are other features
_VIEW_RANDOMNESS = 4
_FILE_BYTES, _FILE_VIEWS = 2**26, 256
_PLAIN = 0
# bfloat16 has a rounding error of 0.4 %; on the 17 convolutions of a ResNet-18 it comes to as much in all.
_REDUCED_TOLERANCE = 0.03


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
        learning_precision: torch.dtype = torch.float32,
    ) -> None:
        """Opens what there is.

        Args:
            backbone: frozen, up to some layer or whole (`Backbone.freeze`).
            preprocessing: from files to the network.
            augmentation: of views from number 1 on.
            reader: of images.
            reader_name: what decides the pixels that it gives, beside the file.
            folder: for all sets; `features` in the cache folder by default.
            learning_precision: in which augmented views are computed and kept.
        """
        if not backbone.frozen:
            raise ValueError("a backbone that learns has no features to keep: say what is frozen (Backbone.freeze)")
        self.backbone = backbone
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self._plain_reader = for_plain_views(reader, preprocessing)
        self._augmented_reader = for_augmented_views(reader, preprocessing, augmentation)
        self.learning_precision = learning_precision
        self._reading = threading.Lock()
        root = cache_folder() / "features" if folder is None else folder
        weights = _weights(backbone)
        choices = f"{json.dumps(to_plain(replace(augmentation, factor=1)), sort_keys=True)} from {_VIEWS_FROM}"
        if learning_precision != torch.float32:
            choices = f"{choices} in {learning_precision}"
        stems = [_identity(backbone, weights, windows, preprocessing, reader_name) for windows in backbone.stem_windows]
        self.plain = tuple(FeatureSet(root / _name(stem, "plain")) for stem in stems)
        self.augmented = tuple(FeatureSet(root / _name(stem, choices)) for stem in stems)
        self._root = root

    def compute(
        self, views: Sequence[ViewOf], device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> int:
        """Computes what is missing of these views, and says how many those were.

        Raises:
            FeaturesError: if they do not fit into the budget or on the disk.
        """
        wanted = {_key(view): view for view in views}
        missing = [view for key, view in wanted.items() if self._missing_parts(view)]
        self._check_what_is_there(views, device)
        done = len(views) - len(missing)
        if progress is not None:
            progress("features of the frozen backbone", done, len(views))
        # Augmented and plain ones, and those that lack different parts, go to different files.
        kinds = dict.fromkeys((view.view == _PLAIN, self._missing_parts(view)) for view in missing)
        for plain, parts in kinds:
            waiting: list[_Computed] = []
            mine = [view for view in missing if (view.view == _PLAIN, self._missing_parts(view)) == (plain, parts)]
            work = partial(self._computed, device=device, parts=parts)
            with closing(side_by_side(work, mine, device)) as computed:
                for count, features in enumerate(computed, start=1):
                    waiting.append(features)
                    size = sum(part.nbytes for part in features.parts)
                    if count == 1:
                        own = {kind.folder for kind in (*self.plain, *self.augmented)}
                        make_room(self._root, own, size * len(mine))
                    if count == len(mine) or len(waiting) >= min(_FILE_VIEWS, max(1, _FILE_BYTES // size)):
                        self._store(waiting, self.plain if plain else self.augmented, parts)
                        waiting = []
                    done += 1
                    if progress is not None:
                        progress("features of the frozen backbone", done, len(views))
        return len(missing)

    def batch(self, views: Sequence[ViewOf]) -> FeatureBatch:
        """Features of views that were computed, as one batch."""
        read = [[part.read(_key(view)) for part in self._sets_of(view)] for view in views]
        return FeatureBatch(
            joined([torch.stack([features.float() for features, _ in part]) for part in zip(*read, strict=True)]),
            torch.tensor([view.entry.label for view in views]),
            tuple(view.entry.id for view in views),
            torch.stack([parts[0][1] for parts in read]),
        )

    def refresh(self) -> None:
        """Looks for what other processes have added."""
        for kind in (*self.plain, *self.augmented):
            kind.refresh()

    def _sets_of(self, view: ViewOf) -> tuple[FeatureSet, ...]:
        """The sets that hold the parts of a view's features."""
        return self.plain if view.view == _PLAIN else self.augmented

    def _missing_parts(self, view: ViewOf) -> tuple[int, ...]:
        key = _key(view)
        return tuple(part for part, stored in enumerate(self._sets_of(view)) if not stored.holds(key))

    @staticmethod
    def _store(computed: "Sequence[_Computed]", sets: Sequence[FeatureSet], parts: Sequence[int]) -> None:
        keys = [view.key for view in computed]
        to_source = torch.stack([view.to_source for view in computed])
        for index, part in enumerate(parts):
            sets[part].add(keys, torch.stack([view.parts[index] for view in computed]), to_source)

    def _computed(self, view: ViewOf, device: torch.device | str, parts: Sequence[int]) -> "_Computed":
        """Parts of a view's features; several threads may ask at the same time."""
        plain = view.view == _PLAIN
        with self._reading:  # a reader, or a dataset of the caller's, need not stand several threads
            picture = (self._plain_reader if plain else self._augmented_reader)(view.entry)
        if plain:
            sample = normalize(picture, self.preprocessing)
        else:
            choices = draw(self.augmentation, _view_generator(view))
            sample = augment(picture, choices, self.preprocessing, self.augmentation)
        image = sample.image.as_subclass(Tensor)[None].to(device)
        precision = torch.float32 if plain else self.learning_precision
        reduced = torch.autocast(image.device.type, precision, enabled=precision != torch.float32)
        with evaluating(self.backbone), reduced:
            features = self.backbone.stem_parts(image, parts)
        rows = tuple(part[0].to("cpu", precision).contiguous() for part in features)
        return _Computed(_key(view), rows, sample.to_source.double())

    def _check_what_is_there(self, views: Sequence[ViewOf], device: torch.device | str) -> None:
        """Computes one view again: code that changed under the same name and weights must not go unnoticed."""
        for part, kind in [*enumerate(self.plain), *enumerate(self.augmented)]:
            mine = (view for view in views if self._sets_of(view)[part] is kind)
            known = next((view for view in mine if kind.holds(_key(view))), None)
            if known is None or kind.checked:
                continue
            (expected,), stored = self._computed(known, device, (part,)).parts, kind.read(_key(known))[0]
            if stored.shape != expected.shape or not _agree(stored, expected):
                raise FeaturesError(
                    f"the features in {kind.folder} are not those of this network (its code, or a library under it, "
                    "has changed): delete that folder, and they are computed again"
                )
            kind.checked = True


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


class _Computed(NamedTuple):
    """A view that is not on disk yet."""

    key: str
    parts: tuple[Tensor, ...]
    to_source: Tensor


def _agree(stored: Tensor, expected: Tensor) -> bool:
    """Whether features differ by no more than other kernels for the same operations round."""
    if expected.dtype == torch.float32:
        return torch.allclose(stored, expected, rtol=1e-3, atol=1e-3)
    difference, size = (stored.float() - expected.float()).norm(), expected.float().norm()
    return bool(difference <= _REDUCED_TOLERANCE * size)


def _weights(backbone: Backbone) -> str:
    weights = hashlib.blake2b(digest_size=16)
    for name, tensor in backbone.frozen_state().items():
        weights.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        weights.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return weights.hexdigest()


def _identity(
    backbone: Backbone, weights: str, windows: Windows | None, preprocessing: Preprocessing, reader_name: str
) -> str:
    """Everything that decides one part of the features of a plain view, beside the image."""
    parts = {
        "format": _FORMAT,
        "weights": weights,
        "structure": repr(backbone.network),
        "at": backbone.at,
        "edits": list(backbone.edits),
        "windows": to_plain(windows, for_all=True),
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

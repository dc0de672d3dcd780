"""What a run learns from: images, or features that were kept of them, in batches and shared out among processes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import DataLoader

from pixpnet.data import Augmentation, DataSet, Entry, Loading, Preprocessing, plain_loader, training_loader
from pixpnet.training.evaluation import shard
from pixpnet.training.features import Features, ViewOf, feature_loader, plain_feature_loader


@dataclass(frozen=True)
class Material:
    """What is learnt from, and how it is shown to the network."""

    data: DataSet
    preprocessing: Preprocessing
    augmentation: Augmentation
    loading: Loading
    features: Features | None = None

    @property
    def kept_views(self) -> list[ViewOf]:
        """Of which training images, and how often, features are kept: as they are, and augmented."""
        return [ViewOf(entry, view) for view in range(self.augmentation.factor + 1) for entry in self.data.train]

    def training_batches(self, seed: int, rank: int, world: int) -> DataLoader[Any]:
        """Augmented batches; each process gets its share of every batch."""
        share = max(1, self.loading.batch_size // world)
        if self.features is not None:
            return feature_loader(self.features, self.kept_views, share, seed, rank, world)
        loading = replace(self.loading, batch_size=share)
        return training_loader(self.data, self.preprocessing, self.augmentation, loading, seed, rank, world)

    def plain_batches(self, entries: Sequence[Entry], rank: int, world: int) -> DataLoader[Any]:
        """Images as they are, in batches; each process gets whole ones."""
        share = shard(entries, self.loading.batch_size, rank, world)
        if self.features is not None:
            return plain_feature_loader(self.features, share, self.loading.batch_size)
        return plain_loader(self.data, share, self.preprocessing, self.loading)

    def fingerprint(self) -> str:
        """Tells whether the images to learn from and to choose by are the same."""
        data = self.data
        splits = [*((0, entry) for entry in data.train), *((1, entry) for entry in data.val)]
        names = [*data.class_names, *(f"{split} {entry.label} {entry.id}" for split, entry in splits)]
        return hashlib.blake2b("\n".join(names).encode(), digest_size=16).hexdigest()

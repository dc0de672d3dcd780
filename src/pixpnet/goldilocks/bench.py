"""What every method of a search works with: images to learn from, images to choose by, and on what it computes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from pixpnet.data import DataSet, Loading, Preprocessing, Sample, plain_loader, training_loader
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.settings import SearchSettings, preset
from pixpnet.model import Backbone
from pixpnet.model.build import build_backbone
from pixpnet.settings import Optimization


@dataclass(frozen=True)
class Outcome:
    """What a method found of a candidate.

    Attributes:
        candidate: which one.
        accuracy: on the validation images, 0-1; None if it came to nothing.
        images: how many validation images.
        error: why it came to nothing.
        probe: accuracy of a linear classifier on the same features, where the method has one beside.
    """

    candidate: Candidate
    accuracy: float | None
    images: int = 0
    error: str | None = None
    probe: float | None = None


@dataclass(frozen=True)
class Bench:
    """A workplace. The test split stays locked in `data.test`; no method opens it.

    Attributes:
        settings: what decides the outcome.
        data: the images, split.
        weights: for each backbone a file, "imagenet", "none" or None.
        device: where networks are.
        num_workers: processes that load images.
        folder: where a method may leave what it makes.
        share_done: told which share of the present work is done, 0-1.
    """

    settings: SearchSettings
    data: DataSet
    weights: dict[str, str | None]
    device: torch.device
    num_workers: int
    folder: Path
    share_done: Callable[[float], None]

    @property
    def preprocessing(self) -> Preprocessing:
        """Of the data set, at the size of the search."""
        return self.data.preprocessing.scaled_to(self.settings.size)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.data.class_names)

    def backbone(self, candidate: Candidate) -> Backbone:
        """The candidate's network, cut, with its weights, on the device."""
        settings = self.settings
        weights = self.weights[candidate.backbone]
        backbone = build_backbone(
            candidate.backbone, candidate.at, weights, settings.size, settings.seed, candidate.edits, candidate.windows
        )
        return backbone.to(self.device)

    def training_batches(self, batch_size: int, views: int | None) -> DataLoader[Sample]:
        """Augmented views of the training images; call `sampler.set_epoch` before each epoch."""
        augmentation = self.data.augmentation if views is None else replace(self.data.augmentation, factor=views)
        loading = Loading(batch_size, self.num_workers)
        return training_loader(self.data, self.preprocessing, augmentation, loading, self.settings.seed)

    def validation_batches(self, batch_size: int) -> DataLoader[Sample]:
        """The validation images as they are."""
        return plain_loader(self.data, self.data.val, self.preprocessing, Loading(batch_size, self.num_workers))


def plain_learning(optim: Optimization, random: bool) -> Optimization:
    """How a plain classifier learns: as the preset says, and a backbone with random weights from the start.

    App. F: the procedure of PixPNet without what belongs to prototypes. The paper's backbones are all pretrained; one
    with random weights learns with the rates of `scratch`, and is not frozen at first, when it knows nothing.
    """
    if not random:
        return optim
    scratch = preset("scratch").optimization
    return replace(
        optim,
        warm_up_epochs=0,
        lr_backbone=scratch.lr_backbone,
        weight_decay=scratch.weight_decay,
        lr_rise=scratch.lr_rise,
    )

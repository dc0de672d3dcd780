"""What decides the outcome of a search, so that two searches are the same study exactly when these agree."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pixpnet.config import NumWorkers, RunConfig
from pixpnet.data import DataSet
from pixpnet.earlier_names import in_earlier_names
from pixpnet.family import DEFAULT, member_named
from pixpnet.goldilocks.weights import is_random
from pixpnet.records import to_plain
from pixpnet.settings import MemberSettings, Optimization
from pixpnet.windows import Windows

FINETUNE_EPOCHS, BATCH = 10, 32  # App. F
WHOLE = "pixpnet"  # the method that trains networks with prototypes
FROZEN = "frozen"  # the method that trains prototypes alone, on features of a backbone that stays as it is
FROZEN_VIEWS = 2  # augmented views that are kept of each image: four were not told apart from two
_DIGEST_BYTES = 8
# Settings that the digests of earlier studies do not know, and what those studies did.
_ADDED_SINCE: Mapping[str, Mapping[str, object]] = {
    "optimization": {"pretraining_cells": 1, "windows_at_once": None},
    "architecture": {"terms_per_class": None, "field_price": 0.0},
}


@dataclass(frozen=True)
class SearchSettings:
    """What decides the outcome for a candidate, besides the candidate and its weights.

    Attributes:
        data: as it was asked for; where the images lie is no part of the study's identity, which they are is.
        images: a fingerprint of classes, training and validation images.
        birds: how many birds to draw to learn from, where the data are birds.
        method: how a candidate is evaluated.
        size: side of the network's input in pixels.
        epochs: passes over the views; None for what the method's preset says.
        batch: images in a batch; None for what the method's preset says.
        views: augmented views of each image in a pass; None for what suits the data set or the preset.
        seed: of initial weights, order, augmentation and the validation split.
    """

    data: str
    images: str
    birds: int
    method: str
    size: int
    epochs: int | None
    batch: int | None
    views: int | None
    seed: int

    @property
    def data_name(self) -> str:
        """The data without the folders they lie in, for people.

        >>> SearchSettings("cub:../shared/cub12/", "", 0, "probe", 96, None, None, None, 0).data_name
        'cub12'
        """
        return Path(self.data.rpartition(":")[2]).name or self.data

    @property
    def digest(self) -> str:
        """A hash of everything but where the images lie; of whole trainings, also of the presets they follow."""
        decides = to_plain(replace(self, data=""))
        if self.method == WHOLE:
            # Under the names of earlier versions, whose studies go on.
            decides["recipes"] = [_as_earlier(preset(name)) for name in ("laptop", "scratch")]
        elif self.method == FROZEN:
            decides["presets"] = [to_plain(preset(FROZEN), for_all=True)]
        return _digest(decides)

    @property
    def ground(self) -> str:
        """A hash of what must agree for two methods to be compared: the images, their size and the seed."""
        return _digest([self.images, self.size, self.seed])


def fingerprint(data: DataSet) -> str:
    """The same words for the same classes, training and validation images; test images are not looked at.

    Names and labels of images are compared, not their pixels.
    """
    splits = [[(entry.id, entry.label) for entry in split] for split in (data.train, data.val)]
    return _digest([list(data.class_names), splits])


def data_config(data: str, seed: int, birds: int) -> RunConfig:
    """Opens the data set as `pixpnet train` will with the same seed."""
    return RunConfig(data=data, seed=seed, birds=birds)


def preset(name: str) -> MemberSettings:
    """A preset of the member that a search is for."""
    return member_named(DEFAULT).preset(name)


def training_config(
    settings: SearchSettings,
    backbone: str,
    at: str,
    weights: str | None,
    num_workers: NumWorkers = "auto",
    edits: tuple[str, ...] = (),
    windows: Windows | None = None,
) -> RunConfig:
    """The run that `pixpnet train` makes of a cut, with the preset that suits its weights.

    On windows a pretrained backbone stays as it is: to train it there would cost a pass of many windows in every step.
    With the method `frozen` the run is the very one that was evaluated, and reads the features that were kept then.

    >>> settings = SearchSettings("birds", "", 4800, "probe", 96, None, None, None, 0)
    >>> training_config(settings, "small-61", "stage3", None).optimization.pretraining_epochs
    3
    """
    chosen = "scratch" if is_random(weights) else "laptop" if windows is None else FROZEN
    config = RunConfig(
        data=settings.data,
        backbone=backbone,
        at=at,
        edits=edits,
        window=None if windows is None else float(windows.size),
        window_stride=None if windows is None else float(windows.stride),
        window_from="" if windows is None else windows.start,
        weights=weights,
        size=settings.size,
        seed=settings.seed,
        num_workers=num_workers,
        birds=settings.birds,
        settings=preset(FROZEN if settings.method == FROZEN else chosen),
    )
    if settings.method != FROZEN:
        return config
    budget = replace(settings, views=settings.views or FROZEN_VIEWS)
    return config.with_settings(optimization=with_budget(config.optimization, budget))


def with_budget(optim: Optimization, settings: SearchSettings) -> Optimization:
    """The epochs, batch size and views of the search, where it says any; stages shrink with them."""
    epochs = settings.epochs or optim.epochs
    return replace(
        optim,
        epochs=epochs,
        warm_up_epochs=optim.warm_up_epochs if epochs >= optim.epochs else min(optim.warm_up_epochs, epochs // 2),
        pretraining_epochs=(
            optim.pretraining_epochs if epochs >= optim.epochs else min(optim.pretraining_epochs, epochs // 2)
        ),
        batch_size=settings.batch or optim.batch_size,
        views=settings.views or optim.views,
    )


def _as_earlier(settings: MemberSettings) -> dict[str, Any]:
    """A preset as versions before wrote it: under their names, without what came since and is as it was."""
    values = to_plain(settings)
    for section, added in _ADDED_SINCE.items():
        for name, before in added.items():
            if values[section][name] == before:
                del values[section][name]
    earlier: dict[str, Any] = in_earlier_names(values)
    return earlier


def _digest(values: object) -> str:
    return hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=_DIGEST_BYTES).hexdigest()

"""The scores of all prototypes on the images of a split, kept in the run folder: what edits and reviews are made of.

One pass over the images; afterwards every question about prototypes is arithmetic. The file says of which model it is
(`Run.fingerprint`); one of another model is made again.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.utils.data import DataLoader

from pixpnet.data import DataSet, Entry, Loading, plain_loader
from pixpnet.data.reader import WithoutMasks
from pixpnet.family import member_named
from pixpnet.model import BehindStem, PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress
from pixpnet.training.features import Features, ViewOf, plain_feature_loader
from pixpnet.training.preparing import freeze
from pixpnet.training.run import Run
from pixpnet.whole_file import written_whole

REVIEW_FOLDER = "review"
Split = Literal["train", "val"]
_BATCH = 32
# Of scores and cells; a larger table is worked out again each time.
_MOST_NUMBERS = 100_000_000


@dataclass(frozen=True)
class PrototypeScores:
    """How each prototype scored on each image of a split.

    Attributes:
        ids: of the images.
        labels: their classes.
        scores: of every prototype.
        cells: row and column of the cell that speaks for each prototype, in its own grid.
    """

    ids: tuple[str, ...]
    labels: Int64[Tensor, " images"]
    scores: Float[Tensor, "images protos"]
    cells: Int64[Tensor, "images protos 2"]

    def __len__(self) -> int:
        return len(self.ids)


def prototype_scores(
    run: Run,
    split: Split = "val",
    model: PixPNet | None = None,
    data: DataSet | None = None,
    progress: Progress | None = None,
) -> PrototypeScores:
    """The scores of a run's model on its own training or validation images; the test split stays closed.

    Args:
        run: whose model and images.
        split: ``val`` or ``train``.
        model: of the run, where it is open already.
        data: of the run, where it is open already.
        progress: told how many images are done.

    Raises:
        ValueError: if the split is another one.
    """
    if split not in get_args(Split):
        raise ValueError(f"prototypes are reviewed on 'val' or 'train', not on {split!r}: the test split stays closed")
    stored = _read(run, split)
    if stored is not None:
        return stored
    model = run.model() if model is None else model
    data = run.data(progress) if data is None else data
    scores = _computed(run, model, data, data.val if split == "val" else data.train, progress)
    _write(run, split, scores)
    return scores


def _computed(
    run: Run, model: PixPNet, data: DataSet, entries: tuple[Entry, ...], progress: Progress | None
) -> PrototypeScores:
    config = run.config
    network: PixPNet | BehindStem = model
    loader: DataLoader[Any]
    if config.optimization.frozen:
        # What the stem gives was kept when the run was trained.
        freeze(model.backbone, config, model.preprocessing.size)
        member_named(config.member).ready(model, config.settings)
        features = Features(
            model.backbone, model.preprocessing, data.augmentation, WithoutMasks(data.reader), repr(data.reader)
        )
        features.compute([ViewOf(entry) for entry in entries], model.device, progress)
        loader, network = plain_feature_loader(features, entries, _BATCH), model.behind_stem.eval()
    else:
        unmasked = replace(data, reader=WithoutMasks(data.reader))
        loader = plain_loader(unmasked, entries, model.preprocessing, Loading(_BATCH, cache_bytes=0))
    ids: list[str] = []
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    with evaluating(network):
        for batch in loader:
            matches = network(batch.images.to(model.device, model.dtype)).matches
            parts.append((batch.labels, matches.scores.float().cpu(), matches.cells.cpu()))
            ids += batch.ids
            if progress is not None:
                progress("scores of prototypes", len(ids), len(entries))
    labels, scores, cells = (torch.cat(part) for part in zip(*parts, strict=True))
    return PrototypeScores(tuple(ids), labels, scores, cells)


def _read(run: Run, split: Split) -> PrototypeScores | None:
    """What was kept; None where there is nothing, or nothing of this model: it is made again."""
    path = run.path / REVIEW_FOLDER / f"scores-{split}.safetensors"
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as opened:
            about = opened.metadata() or {}
            if about.get("model") != run.fingerprint():
                return None
            ids = json.loads(about["ids"])
            # Copies: tensors of an open file change, or end the process, when somebody writes over it.
            labels, scores, cells = (opened.get_tensor(name).clone() for name in ("labels", "scores", "cells"))
        stored = PrototypeScores(tuple(map(str, ids)), labels, scores, cells.long())
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RecursionError):
        return None
    whole = len(ids) == len(labels) == len(scores) == len(cells) and cells.shape == (*scores.shape, 2)
    return stored if whole and bool(scores.isfinite().all()) else None


def _write(run: Run, split: Split, scores: PrototypeScores) -> None:
    if 3 * scores.scores.numel() > _MOST_NUMBERS:
        return
    folder = run.path / REVIEW_FOLDER
    folder.mkdir(exist_ok=True)
    tensors = {
        "labels": scores.labels.contiguous(),
        "scores": scores.scores.contiguous(),
        "cells": scores.cells.to(torch.int32).contiguous(),
    }
    about = {"model": run.fingerprint(), "ids": json.dumps(scores.ids)}
    with written_whole(folder / f"scores-{split}.safetensors") as temporary:
        temporary.write_bytes(save(tensors, about))

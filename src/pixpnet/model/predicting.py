"""Answers for picture files: in the order of the files, in batches, and in the memory of one batch."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from pixpnet.data import ImageError, Sample, preprocess, read_sample
from pixpnet.model.calibration import doubt, probabilities
from pixpnet.model.doubt import Doubt
from pixpnet.model.network import PixPNet

BATCH_SIZE = 32
_MOST_READERS = 8


@dataclass(frozen=True)
class Ranking:
    """How a model ranks the classes for a picture.

    Attributes:
        logits: of every class.
        probabilities: calibrated where the model is (`PixPNet.calibration`), else the softmax of the logits.
        labels: of all classes, the most probable first; of equals the one with the lower number.
        doubt: whether the picture looks like something that the model knows; None where it has no limit for that.
    """

    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    labels: tuple[int, ...]
    doubt: Doubt | None = None


@dataclass(frozen=True)
class Prediction:
    """What a model takes a picture file for."""

    path: Path
    ranking: Ranking


@dataclass(frozen=True)
class Unreadable:
    """A picture that cannot be read, and why."""

    path: Path
    reason: str


def rankings(model: PixPNet, samples: Sequence[Sample]) -> tuple[Ranking, ...]:
    """One forward pass for preprocessed pictures, and what it says of each."""
    if not samples:
        return ()
    images = torch.stack([sample.image.as_subclass(Tensor) for sample in samples])
    with torch.no_grad():
        output = model(images.to(model.device, model.dtype))
    logits = output.logits.double().cpu()
    largest_scores = output.matches.scores.amax(dim=1).double().tolist()
    order = logits.argsort(dim=1, descending=True, stable=True)
    known = model.calibration
    chances = probabilities(logits, 1.0 if known is None else known.temperature)
    rows = zip(logits.tolist(), chances.tolist(), order.tolist(), largest_scores, strict=True)
    return tuple(
        Ranking(tuple(row), tuple(shares), tuple(best), doubt(known, max(row), score))
        for row, shares, best, score in rows
    )


def predict_files(
    model: PixPNet, paths: Iterable[Path], batch_size: int = BATCH_SIZE
) -> Iterator[Prediction | Unreadable]:
    """Yields an answer for each file, with one forward pass for each batch; no more than one batch is in memory.

    Args:
        model: in eval mode.
        paths: of pictures.
        batch_size: how many pictures are read and answered at a time.

    Raises:
        ValueError: if the model is in training mode, or the batch size is not positive.
    """
    if model.training:
        raise ValueError("the model is in training mode, in which a picture's answer depends on others: model.eval()")
    if batch_size < 1:
        raise ValueError(f"a batch has at least 1 picture, got {batch_size}: --batch-size 1")
    rest = iter(paths)
    # Decoding leaves the interpreter lock, so threads are enough.
    with ThreadPoolExecutor(max_workers=min(batch_size, _MOST_READERS, os.cpu_count() or 1)) as pool:
        while some := tuple(islice(rest, batch_size)):
            yield from _answers(model, some, tuple(pool.map(lambda path: _read(model, path), some)))


def _answers(
    model: PixPNet, paths: tuple[Path, ...], samples: tuple[Sample | str, ...]
) -> Iterator[Prediction | Unreadable]:
    ranked = iter(rankings(model, [sample for sample in samples if isinstance(sample, Sample)]))
    for path, sample in zip(paths, samples, strict=True):
        yield Prediction(path, next(ranked)) if isinstance(sample, Sample) else Unreadable(path, sample)


def _read(model: PixPNet, path: Path) -> Sample | str:
    """The picture as the network sees it, or why it cannot be read."""
    try:
        return preprocess(read_sample(path), model.preprocessing)
    except (ImageError, OSError) as error:
        return str(error)

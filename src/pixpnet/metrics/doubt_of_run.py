"""Doubt of a run's model against other data: what is read, what is drawn, and where the result is kept."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pixpnet.data import DataOptions, Loading, open_data, plain_loader
from pixpnet.metrics.doubt import DoubtResult, compare_doubt, scores_of
from pixpnet.model import PixPNet
from pixpnet.progress import Progress, named
from pixpnet.records import from_plain, to_plain
from pixpnet.training import Run, RunError
from pixpnet.training.answers import EvaluatedSplit
from pixpnet.training.kept_scores import SplitScores, read_scores
from pixpnet.whole_file import written_whole

DOUBT_FOLDER = "doubt"
NOISE = "noise"
_FILE = "doubt.json"


def doubt_of_run(
    run: Run | Path | str,
    against: Sequence[str],
    *,
    images: int = 500,
    seed: int = 0,
    batch_size: int = 32,
    device: torch.device | str = "cpu",
    trust_code: bool = False,
    split: EvaluatedSplit = "test",
    moved_to: str | None = None,
    progress: Progress | None = None,
    ended: Callable[[DoubtResult], None] | None = None,
) -> tuple[DoubtResult, ...]:
    """How well a run's model tells images of its own data set from others.

    Args:
        run: a finished one.
        against: `noise` (uniformly random pixels), or names of data sets, of which training and validation images are
            drawn: no test split is opened.
        images: of each of them, at most.
        seed: of all draws.
        batch_size: images at a time.
        device: where to compute.
        trust_code: whether a backbone that is code of its own may be called.
        split: which images of its own: ``test`` for those that were evaluated at the end of the run, from the scores
            that it kept (where it kept none, validation images), ``val`` for validation images.
        moved_to: where the run's data set is now (`folder:PATH`), if it is not where it was.
        progress: told what is being done.
        ended: told of each result as soon as it is there.

    Raises:
        RunError: if the run is not finished.
        ValueError: if nothing is to be drawn.
        DataError: if there is no such data set.
    """
    if images < 1:
        raise ValueError(f"at least 1 image of each data set is drawn, got {images}")
    folder = Run.of(run)
    if not folder.finished:
        raise RunError(f"{folder.path} is not finished: pixpnet train --resume {folder.path}")
    model = folder.model(trust_code).to(device)
    known, known_split, refusal = _known(folder, model, split, moved_to, batch_size, device, progress)
    calibrated_on, asked = _calibrated_on(folder, model), folder.fingerprint()
    results = []
    for name in against:
        batches = (
            _noise(model, images, batch_size, seed)
            if name == NOISE
            else _drawn(model, name, images, batch_size, seed, progress)
        )
        others, why_not = scores_of(model, batches, device, named(progress, f"asking about {name}"))
        result = compare_doubt(model, known, known_split, others, name, refusal or why_not, seed, calibrated_on)
        results.append(replace(result, model=asked))
        if ended is not None:
            ended(results[-1])
    return tuple(results)


def check_other_data(names: Sequence[str], progress: Progress | None = None) -> None:
    """Says before anything is computed that data to doubt are not there.

    Raises:
        DataError: if there is no such data set.
    """
    for name in names:
        if name != NOISE:
            open_data(name, DataOptions(), progress)


def keep_doubt(run: Run | Path | str, results: Sequence[DoubtResult]) -> None:
    """Writes results into the run's folder, beside those against other data."""
    path = Run.of(run).path / DOUBT_FOLDER / _FILE
    path.parent.mkdir(exist_ok=True)
    merged = {result.against: result for result in (*read_doubt(run), *results)}
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(to_plain(list(merged.values()))), encoding="utf-8")


def read_doubt(run: Run | Path | str) -> tuple[DoubtResult, ...]:
    """What `keep_doubt` wrote of the model as it is now: a calibration has other limits, and is measured again.

    Raises:
        RunError: if the file is damaged.
    """
    folder = Run.of(run)
    path = folder.path / DOUBT_FOLDER / _FILE
    try:
        results = [from_plain(DoubtResult, plain, _FILE) for plain in json.loads(path.read_text(encoding="utf-8"))]
        current = folder.fingerprint()
        return tuple(result for result in results if result.model == current)
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}): delete it, and measure again") from error


def _known(
    run: Run,
    model: PixPNet,
    split: EvaluatedSplit,
    moved_to: str | None,
    batch_size: int,
    device: torch.device | str,
    progress: Progress | None,
) -> tuple[SplitScores, str, str]:
    """Scores of images of the run's own kind: kept ones, else those of the validation images."""
    scores_by_split = read_scores(run)
    if split == "test" and len(scores_by_split.get("test", ())):
        return scores_by_split["test"], "test", ""
    data = run.data(progress, moved_to)
    loader = plain_loader(data, data.val, model.preprocessing, Loading(batch_size, 0))
    scores, refusal = scores_of(model, (batch.images for batch in loader), device, named(progress, "validation images"))
    return scores, "validation", refusal


def _calibrated_on(run: Run, model: PixPNet) -> SplitScores | None:
    """Kept scores of the images that the model's limits are from; None where there are none."""
    if model.calibration is None:
        return None
    scores = read_scores(run).get("folds" if model.calibration.source == "folds" else "val")
    return scores if scores is not None and len(scores) == model.calibration.images else None


def _noise(model: PixPNet, count: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Uniformly random pixels, as the network gets images."""
    generator = torch.Generator().manual_seed(seed)
    mean, std = (torch.tensor(part)[:, None, None] for part in (model.preprocessing.mean, model.preprocessing.std))
    side = model.preprocessing.size
    for start in range(0, count, batch_size):
        pixels = torch.rand(min(batch_size, count - start), 3, side, side, generator=generator)
        yield (pixels - mean) / std


def _drawn(
    model: PixPNet, name: str, count: int, batch_size: int, seed: int, progress: Progress | None
) -> Iterator[Tensor]:
    """Training and validation images of another data set, as this network gets images."""
    data = open_data(name, DataOptions(), progress)
    entries = (*data.train, *data.val)
    chosen = np.random.default_rng(seed).permutation(len(entries))[:count]
    for batch in plain_loader(data, [entries[index] for index in chosen], model.preprocessing, Loading(batch_size, 0)):
        yield batch.images

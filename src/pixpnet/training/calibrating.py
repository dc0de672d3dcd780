"""Calibrating a finished run: certainty measured again, or for the first time, without any test image.

The model's file is written again with the new calibration. That changes its fingerprint but nothing that decides an
answer, so a line in `recalibrations.jsonl` says what it was before and after, with a hash of everything else in the
file: an audit can tell that the test split was opened for this very model all the same. The line is written before the
file is: an interruption leaves a line that leads to no model, which readers skip, and never a model that nobody knows.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from pixpnet.config import RunConfig
from pixpnet.data import DataSet, Loading, plain_loader
from pixpnet.manifest import digest_of
from pixpnet.model import PixPNet
from pixpnet.model.calibration import Calibration
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress, named, silent
from pixpnet.records import from_plain, to_plain
from pixpnet.training.converting import CONVERSION_FILE
from pixpnet.training.doubt_signals import DoubtSignals
from pixpnet.training.finishing import calibration_of
from pixpnet.training.folds import FoldScores, cheap_folds, scores_by_folds
from pixpnet.training.kept_scores import SplitScores, read_scores, write_scores
from pixpnet.training.location import located_weights
from pixpnet.training.preparing import prepare
from pixpnet.training.run import Run, RunError
from pixpnet.training.watching import Nobody
from pixpnet.whole_file import written_whole

RECALIBRATIONS_FILE = "recalibrations.jsonl"
_BATCH = 32


@dataclass(frozen=True)
class Recalibration:
    """One line of `recalibrations.jsonl`.

    Attributes:
        time: when (UTC).
        before: fingerprint of the model's file until then.
        after: fingerprint since.
        core: hash of the model without any calibration, which is the same before and after.
    """

    time: str
    before: str
    after: str
    core: str


@dataclass(frozen=True)
class CalibratedRun:
    """What calibrating a run came to.

    Attributes:
        before: what the model knew; None where nothing.
        after: what it knows now.
        fold_note: why no folds were trained, where validation images are few; empty where they were, or need not be.
    """

    before: Calibration | None
    after: Calibration
    fold_note: str


def calibrate_run(
    run: Run | Path | str,
    *,
    folds: bool = True,
    device: torch.device | str = "cpu",
    trust_code: bool = False,
    moved_to: str | None = None,
    progress: Progress | None = None,
) -> CalibratedRun:
    """Measures how certain a finished run's model may say to be, and keeps that in its file.

    Args:
        run: a finished one.
        folds: train networks on folds of the training images where validation images are few and that is cheap.
        device: where to compute.
        trust_code: the backbone may be user code, which is imported and called; only for runs that you trust.
        moved_to: where the run's data set is now (`folder:PATH`), if it is not where it was.
        progress: told what is being done, how much of it is done, of how much.

    Raises:
        RunError: if the run is not finished, or has no validation images.
        DataError: if its data set is not at hand.
    """
    folder, progress = Run.of(run), progress or silent
    if not folder.finished:
        raise RunError(f"{folder.path} is not finished: pixpnet train --resume {folder.path}")
    with folder.locked():
        model = folder.model(trust_code)
        data = folder.data(progress, moved_to)
        if not data.val:
            raise RunError(f"{folder.path} has no validation images, so nothing can be said about its certainty")
        validation = _scores(model.to(device), data, device, named(progress, "validation images"))
        by_folds, note = None, "folds were not asked for"
        if folds:
            by_folds, note = _folds(folder, model, data, torch.device(device), progress)
        before, after = model.calibration, calibration_of(validation, by_folds)
        assert after is not None  # there are images
        model.calibration = after
        _keep(folder, model.cpu())
        splits = {**read_scores(folder), "val": validation}
        splits.pop("folds", None)
        write_scores(folder, splits if by_folds is None else {**splits, "folds": by_folds.scores})
    return CalibratedRun(before, after, note)


def recalibrations(run: Run) -> tuple[Recalibration, ...]:
    """What `calibrate_run` wrote down, oldest first.

    Raises:
        RunError: if the file is damaged.
    """
    path = run.path / RECALIBRATIONS_FILE
    try:
        lines = path.read_bytes().decode().split("\n")
        return tuple(from_plain(Recalibration, json.loads(line), RECALIBRATIONS_FILE) for line in lines if line.strip())
    except FileNotFoundError:
        return ()
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}: put a copy back") from error


def earlier_fingerprints(run: Run, model: PixPNet) -> frozenset[str]:
    """The fingerprints that this very model had before it was calibrated again; empty where lines do not lead to it.

    Lines of calibrations that were interrupted lead to no model, and are skipped.
    """
    lines = recalibrations(run)
    if not lines or {line.core for line in lines} != {core_digest(model)}:
        return frozenset()
    current, known = run.fingerprint(), set[str]()
    for line in reversed(lines):
        if line.after == current:
            current = line.before
            known.add(current)
    return frozenset(known)


def core_digest(model: PixPNet) -> str:
    """A hash of everything that a model's file holds but its calibration."""
    calibration = model.calibration
    try:
        model.calibration = None
        with TemporaryDirectory(prefix="pixpnet-core-") as temporary:
            path = Path(temporary) / "model.safetensors"
            model.save(path)
            return digest_of(path)
    finally:
        model.calibration = calibration


def _keep(run: Run, model: PixPNet) -> None:
    before, core = run.fingerprint(), core_digest(model)
    path = run.path / RECALIBRATIONS_FILE

    def announce(after: str) -> None:
        if after != before:
            line = Recalibration(datetime.now(UTC).isoformat(timespec="seconds"), before, after, core)
            written = path.read_bytes() if path.exists() else b""
            with written_whole(path) as temporary:
                temporary.write_bytes(written + json.dumps(to_plain(line)).encode() + b"\n")

    run.keep_calibrated(model, announce)


def _scores(model: PixPNet, data: DataSet, device: torch.device | str, progress: Progress | None) -> SplitScores:
    """What the model makes of the validation images."""
    signals, logits, labels = DoubtSignals(model), list[Tensor](), list[Tensor]()
    batches = plain_loader(data, data.val, model.preprocessing, Loading(_BATCH, 0))
    with evaluating(model), torch.no_grad():
        for done, batch in enumerate(batches, start=1):
            output = model(batch.images.to(device, model.dtype))
            signals.add(output)
            logits.append(output.logits.float().cpu())
            labels.append(batch.labels)
            if progress is not None:
                progress("validation images", done, len(batches))
    return SplitScores(torch.cat(logits), torch.cat(labels), *signals.compute())


def _folds(
    run: Run, model: PixPNet, data: DataSet, device: torch.device, progress: Progress
) -> tuple[FoldScores | None, str]:
    """Scores by folds where they are cheap, and else why they are not made."""
    config: RunConfig = replace(located_weights(run.config, run.path), calibrate_by_folds=True)
    if model.mendings or (run.path / CONVERSION_FILE).exists():
        return None, "the model was changed after its training, and models of folds would not be"
    if not config.optimization.frozen:
        return None, "the backbone learnt, so that each fold would take a whole training"
    with TemporaryDirectory(prefix="pixpnet-calibrate-") as temporary:
        other = Run(Path(temporary) / "run", run.backbone, run.dataset)
        fitting = prepare(config, data, other, Nobody())
        if not cheap_folds(fitting, config, data, world_size=1):
            return None, "validation images are enough, or training images too few, or the run builds on another"
        return scores_by_folds(fitting, config, data, device, progress), ""

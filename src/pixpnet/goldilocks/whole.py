"""A whole PixPNet at every cut: it is trained, and evaluated after its prototypes were replaced (App. B).

Expensive, and what the other methods stand in for. Each candidate has a run folder, so an interrupted one goes on from
its last whole epoch, and the model of the cut that is chosen in the end is there already.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pixpnet.config import RunConfig, TrainerOptions, plain_config
from pixpnet.data import parse_spec
from pixpnet.goldilocks.bench import Bench, Outcome
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.settings import WHOLE, SearchSettings, training_config, with_budget
from pixpnet.goldilocks.weights import identity
from pixpnet.records import from_plain
from pixpnet.training import LogLine, Metrics, Nobody, Run, RunError, resume, train
from pixpnet.training.workload import RunProgress, Workload

_SHOWN = 80  # letters of a cut's name in the name of its folder


def pixpnet(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
    """Trains a part network at each cut; its accuracy is that on validation, after replacement. Test stays closed."""
    for candidate in candidates:
        metrics = trained(candidate, bench, bench.share_done)
        yield Outcome(candidate, metrics.validation.accuracy, metrics.validation.images)


class CandidateRun(NamedTuple):
    """The run that is trained for a candidate, and what decides it."""

    config: RunConfig
    run: Run


def run_of(candidate: Candidate, bench: Bench) -> CandidateRun:
    """The run that is trained for a candidate, and its folder."""
    settings = bench.settings
    weights = bench.weights[candidate.backbone]
    config = training_config(
        settings, candidate.backbone, candidate.at, weights, bench.num_workers, candidate.edits, candidate.windows
    )
    if settings.method == WHOLE:
        config = config.with_settings(optimization=with_budget(config.optimization, settings))
    config = replace(config, evaluate_on_test=False)
    config = replace(config, trainer=replace(config.trainer, device=_accelerator(bench)))
    return CandidateRun(config, Run(bench.folder / "runs" / run_name(candidate, weights, settings)))


def trained(candidate: Candidate, bench: Bench, share_done: Callable[[float], None]) -> Metrics:
    """Trains a candidate's run, goes on with one that was interrupted, or reads the metrics of a finished one."""
    config, run = run_of(candidate, bench)
    watcher = _Share(share_done)
    if not (run.path / "config.yaml").exists():
        if run.path.is_dir():
            shutil.rmtree(run.path)  # a kill came before its configuration, so there is nothing in it
        metrics = train(config, run.path, watcher)
    else:
        _refuse_another(run, config)
        if run.finished:
            metrics = from_plain(Metrics, run.read_metrics(), f"{run.path}: metrics")
        else:
            # The caller of this search named the backbone, and the run has the same one.
            metrics = resume(run.path, watcher, trust_code=True)
    assert metrics is not None  # a search is one process
    return metrics


def _refuse_another(run: Run, wanted: RunConfig) -> None:
    """A folder of the right name may hold anything: its run must be the one that is wanted, file by file.

    Raises:
        RunError: if it is another, with what differs.
    """
    run.check()
    existing, new = plain_config(_decisive(run.config)), plain_config(_decisive(wanted))
    # Where the images lie does not matter for figures that are there; which they are is in the name of the folder.
    differs = [name for name in new if existing.get(name) != new[name] and not (name == "data" and run.finished)]
    if differs:
        raise RunError(
            f"{run.path} holds another run than this search wants ({differs[0]} is {existing.get(differs[0])!r} there "
            f"and {new[differs[0]]!r} here): move it away and search again with --retry-failed"
        )


def _decisive(config: RunConfig) -> RunConfig:
    """What decides a run, with paths in one spelling: neither the machine nor the number of workers does."""
    spec = parse_spec(config.data)
    weights = config.weights
    if weights not in (None, "none", "imagenet"):
        weights = str(Path(weights).expanduser().resolve())
    trainer = TrainerOptions(precision=config.trainer.precision)
    return replace(config, data=f"{spec.kind}:{spec.path.resolve()}", weights=weights, num_workers=0, trainer=trainer)


class _Share(Nobody):
    """Says which share of a run is done, with validation, replacement and the final evaluation."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._told = tell
        self._progress = RunProgress()

    def planned(self, work: Workload) -> None:
        """See `Watcher`."""
        self._progress.planned(work)

    def begins(self, epochs: int, done: int, steps: int) -> None:
        """See `Watcher`."""
        self._progress.begins(done)
        self._tell()

    def stepped(self, epoch: int, loss: float, accuracy: float) -> None:
        """See `Watcher`."""
        self._progress.stepped()
        self._tell()

    def busy(self, task: str, done: int, total: int) -> None:
        """See `Watcher`."""
        self._progress.busy(task, done, total)
        self._tell()

    def epoch_ended(self, line: LogLine) -> None:
        """See `Watcher`."""
        self._progress.epoch_ended(line.epoch)
        self._tell()

    def _tell(self) -> None:
        self._told(self._progress.share)


def _accelerator(bench: Bench) -> str:
    return {"cuda": "gpu"}.get(bench.device.type, bench.device.type)


def run_name(candidate: Candidate, weights: str | None, settings: SearchSettings) -> str:
    """Of the folder of a cut's run: another one for other edits, weights or settings, and no longer than disks take."""
    parts = (candidate.name, identity(weights), settings.digest)
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", candidate.name)[:_SHOWN].strip("-")
    return f"{plain}-{digest}"

"""Runs that are made of other runs without training: converted ones, and edited ones."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from pixpnet.data import DataSet, Entry, Loading, plain_loader
from pixpnet.model import PixPNet
from pixpnet.progress import Progress, named
from pixpnet.training.final_evaluation import Evaluated, evaluate_both
from pixpnet.training.finishing import Metrics, evaluated
from pixpnet.training.run import Run

_BATCH = 32


def derive_run(
    run: Run,
    out: Path,
    model: PixPNet,
    before: PixPNet,
    learnt: Mapping[str, Tensor],
    data: DataSet,
    files: Mapping[str, str],
    opening: str = "",
    progress: Progress | None = None,
    finish: Callable[[Run], None] = lambda new: None,
) -> Metrics:
    """Keeps and evaluates a model that was made of a finished run's, in a run folder of its own.

    Configuration and log are those of the training that it comes from.

    Args:
        run: that it was made of.
        out: a new folder.
        model: of the new run.
        before: the same, as it was before its prototypes were replaced.
        learnt: what was in the places of prototypes and head before replacement.
        data: of the run.
        files: texts by name, which say what was done.
        opening: why the test split is opened; empty where it stays closed.
        progress: told how many batches are done.
        finish: what else is written into the new folder.
    """
    Run.refuse_if_used(out)
    # In a folder beside it, which gets its name when it is whole: half of it looks like a run to be resumed.
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as temporary:
        new = Run.create(Path(temporary) / out.name, run.config, data.listed)
        new.keep(model, dict(learnt), run.learnt_architecture())
        new.write("log.csv", (run.path / "log.csv").read_text(encoding="utf-8"))
        for name, text in files.items():
            new.write(name, text)
        if run.crops.is_dir():
            shutil.copytree(run.crops, new.crops, dirs_exist_ok=True)
        evaluate_on = partial(_evaluate_on, model, before, data, progress)
        former = run.read_metrics()
        metrics = evaluated(new, model, data, evaluate_on, opening, int(former["chosen_epoch"]), int(former["epochs"]))
        new.write_metrics(metrics)
        finish(new)
        if out.exists():
            out.rmdir()  # it is empty
        new.path.rename(out)
    return metrics


def _evaluate_on(
    model: PixPNet, before: PixPNet, data: DataSet, progress: Progress | None, entries: tuple[Entry, ...], task: str
) -> Evaluated:
    batches = plain_loader(data, entries, model.preprocessing, Loading(_BATCH))
    return evaluate_both(model, before, batches, progress=named(progress, task))

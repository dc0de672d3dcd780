"""A training run from its configuration to the evaluated model, from the start or from where it was interrupted."""

from pathlib import Path

import pytorch_lightning as pl

from pixpnet.config import RunConfig, is_user_code
from pixpnet.data import DataSet
from pixpnet.training.environment import keep_environment, warn_of_other_threads
from pixpnet.training.finishing import Metrics, finish
from pixpnet.training.fitting import Fitting
from pixpnet.training.given import NOTHING, Given, naming, refuse_other_objects
from pixpnet.training.mending.feedback import keep_feedback, with_feedback_hash
from pixpnet.training.other_runs import keep_copies, with_hashes
from pixpnet.training.preparing import prepare, verify_fields_of
from pixpnet.training.run import Run, RunError
from pixpnet.training.run_data import open_data_to_resume, open_run_data
from pixpnet.training.trainer import fit, leads, make_trainer
from pixpnet.training.watching import Nobody, Watcher


def train(
    config: RunConfig,
    out: Path,
    watcher: Watcher | None = None,
    trust_code: bool = False,
    given: Given = NOTHING,
) -> Metrics | None:
    """Trains a network and evaluates it, with everything on record in a run folder.

    Args:
        config: what to do.
        out: a new folder for the run.
        watcher: told what happens.
        trust_code: a backbone that is user code (``module.path:callable``) is imported and called even though
            a file names it (`RunConfig.read_from`). A configuration that the caller made names what the caller wants,
            and needs no permission.
        given: objects that the run is made with.

    Returns:
        the figures of the model that was kept (`settings.kept_epoch`); None in processes of
        other ranks than 0.

    Raises:
        RunError: if the folder is in use, or the configuration needs code that was not allowed.
        DataError, UnknownModel, WeightsError, CutError, EditError: if the configuration cannot be carried out.
        FieldMismatch: if the fields of a backbone that is not among the tested ones (`pixpnet.fields.tested`) are not
            what the NaN probe sees. Nothing has been written then.
        TrainingDiverged: if the loss becomes NaN or infinite.
    """
    _refuse_code(config, trust_code)
    if leads():
        Run.refuse_if_used(out)  # before any work is done
    config = naming(config, given)
    watcher = watcher or Nobody()
    return train_on(open_run_data(config, watcher.busy, given.dataset), config, out, watcher, given)


def train_on(
    data: DataSet, config: RunConfig, out: Path, watcher: Watcher | None = None, given: Given = NOTHING
) -> Metrics | None:
    """Like `train`, on a data set that is open already: one that was put together otherwise, or split into folds."""
    fitting = prepare(config, data, Run(out, given.backbone, given.dataset), watcher or Nobody())
    config = with_feedback_hash(with_hashes(config, fitting.run), fitting.run)
    if leads():
        verify_fields_of(fitting, config)
    trainer = make_trainer(config.trainer, out, fitting, given.callbacks, given.loggers)
    if leads():
        new = Run.create(out, config, data.listed, given.backbone)
        keep_environment(out)
        keep_copies(config, new)
        keep_feedback(config, new)
    return _carry_out(fitting, trainer, config, data)


def resume(
    out: Path,
    watcher: Watcher | None = None,
    trust_code: bool = False,
    given: Given = NOTHING,
) -> Metrics | None:
    """Goes on with a run that was interrupted, from the end of its last whole epoch.

    On the CPU, with as many threads as before, it ends with bit for bit the model that the uninterrupted run would have
    made.

    Args:
        out: the folder of the run.
        watcher: told what happens.
        trust_code: the backbone may be user code (``module.path:callable``), which is imported and called. Only
            say so for runs that you trust.
        given: the objects that the run was made with. A network may have any weights: the run has kept those that it
            began with. Images are known by their pixels, and refused if they are others.

    Raises:
        RunError: if the run is finished or damaged, or needs code that was not allowed or an object that was not given.
        ManifestError: if a file in the folder is not the run's.

    Warns:
        EnvironmentWarning: if it began with another number of threads.
    """
    run = Run(out, given.backbone, given.dataset)
    config = run.config
    _refuse_code(config, trust_code)
    run.check_for_resuming()
    if run.finished:
        raise RunError(f"{out} is finished: pixpnet evaluate {out}, or train anew with another --out")
    refuse_other_objects(config, given, out)
    if leads():
        warn_of_other_threads(out)
    watcher = watcher or Nobody()
    data = open_data_to_resume(run, watcher.busy)
    fitting = prepare(config, data, run, watcher)
    trainer = make_trainer(config.trainer, out, fitting, given.callbacks, given.loggers)
    if leads() and not run.checkpoint.exists():
        run.write_images(data.listed)  # nothing was learnt yet
    return _carry_out(fitting, trainer, config, data)


def _refuse_code(config: RunConfig, trust_code: bool) -> None:
    """Code is called where the caller named it, or allowed what a file names; before anything is imported."""
    if is_user_code(config.backbone) and config.read_from is not None and not trust_code:
        raise RunError(
            f"{config.read_from} names code as its backbone, {config.backbone!r}, which would be imported and called: "
            "if you trust it, allow it (--trust-code, trust_code=True)"
        )


def _carry_out(fitting: Fitting, trainer: pl.Trainer, config: RunConfig, data: DataSet) -> Metrics | None:
    run = fitting.run
    if not leads():
        fit(trainer, fitting)
        return None
    with run.locked():
        run.sweep()
        fit(trainer, fitting)
        metrics = finish(fitting, config, data, trainer.strategy.root_device)
        run.write_metrics(metrics)
    return metrics

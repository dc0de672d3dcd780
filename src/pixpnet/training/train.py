"""A training run from its configuration to the judged model, from the start or from where it was interrupted."""

import copy
import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.rank_zero import rank_zero_only
from pytorch_lightning.loggers import Logger, TensorBoardLogger

from pixpnet import zoo
from pixpnet.config import RunConfig, TrainerOptions, is_own_code
from pixpnet.data import DataSet, Entry, Loading, Preprocessing, plain_loader
from pixpnet.data.reader import CachedReader, WithoutMasks
from pixpnet.data.scan import Progress
from pixpnet.family import member_named
from pixpnet.fields.tested import is_tested
from pixpnet.fields.verify import refuse_unless_verified, verify_fields
from pixpnet.messages import first_line
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.build import build_backbone, build_model
from pixpnet.model.file import backbone_in
from pixpnet.model.modes import evaluating
from pixpnet.model.weights import read_state
from pixpnet.option_names import option_of
from pixpnet.training.answers import AnswerLine, answer_lines
from pixpnet.training.checkpoint import LastEpoch
from pixpnet.training.crops import write_crops
from pixpnet.training.features import Features, ViewOf, plain_feature_loader
from pixpnet.training.final_evaluation import Evaluated, evaluate_both
from pixpnet.training.fitting import Fitting, Material
from pixpnet.training.judging import Judgement
from pixpnet.training.processes import refuse_other_count
from pixpnet.training.run import Run, RunError
from pixpnet.training.run_data import open_data_to_resume, open_run_data
from pixpnet.training.watching import Nobody, Watcher

_CACHE_BYTES = 2**31
# A picture that is shown whole has no room to move in; the paper's crop, 384 of 510 pixels, has this much.
_ZOOM = 4 / 3
_VERIFIED_PIXELS = 8  # the four corners, the centre and three random ones
# So many processes may share a smaller machine, to try it out.
_FEW_CORES = 8
# What Lightning says at every start and nobody needs to act on.
_CHATTER = (
    "pytorch_lightning",
    "pytorch_lightning.utilities.rank_zero",
    "pytorch_lightning.accelerators.cuda",
    "lightning.pytorch.utilities.rank_zero",
    "lightning_fabric",
    "lightning_fabric.utilities.distributed",
)


@dataclass(frozen=True)
class Metrics:
    """What came out of a run, in `metrics.json`.

    Attributes:
        chosen_epoch: of the model that was kept (`settings.KEPT_EPOCH`); other epochs may have been more accurate.
        epochs: how many there were.
        validation: the model that was kept, on the validation images.
        validation_before: the same before its prototypes were replaced.
        test: the model that was kept, on the test images; None if they were not opened.
        test_before: the same before its prototypes were replaced: what replacement cost.
        mean_field: mean share of the image that a cell sees.
        largest_field: largest share of the image that a cell sees.
        prototypes: how many.
    """

    chosen_epoch: int
    epochs: int
    validation: Judgement
    validation_before: Judgement
    test: Judgement | None
    test_before: Judgement | None
    mean_field: float
    largest_field: float
    prototypes: int


def train(
    config: RunConfig,
    out: Path,
    watcher: Watcher | None = None,
    progress: Progress | None = None,
    own_code: bool = False,
) -> Metrics | None:
    """Trains a network and judges it, with everything on record in a run folder.

    Args:
        config: what to do.
        out: a new folder for the run.
        watcher: told what happens.
        progress: told how many images have been looked at while the data set is opened.
        own_code: a backbone that is a person's own code (``module.path:callable``) is imported and called even though
            a file names it (`RunConfig.read_from`). A configuration that the caller made names what the caller wants,
            and needs no permission.

    Returns:
        the figures of the model that was kept (`settings.KEPT_EPOCH`); None in processes that work for
        the leading one.

    Raises:
        RunError: if the folder is in use, or the configuration needs code that was not allowed.
        DataError, UnknownModel, WeightsError, CutError, EditError: if the configuration cannot be carried out.
        FieldMismatch: if the fields of a backbone that is not among the tested ones (`pixpnet.fields.tested`) are not
            what the NaN probe sees. Nothing has been written then.
        TrainingDiverged: if the loss is no number any more.
    """
    _refuse_code(config, own_code)
    if _leads():
        Run.refuse_if_used(out)  # before any work is done
    return train_on(open_run_data(config, progress), config, out, watcher)


def train_on(data: DataSet, config: RunConfig, out: Path, watcher: Watcher | None = None) -> Metrics | None:
    """Like `train`, on a data set that is open already: one that was put together otherwise, or split into folds."""
    fitting = _prepare(config, data, out, watcher or Nobody())
    if _leads():
        _verify_fields(fitting, config)
    trainer = _trainer(config.trainer, out, fitting)
    if _leads():
        Run.create(out, config, data.listed)
    return _carry_out(fitting, trainer, config, data)


def resume(
    out: Path, watcher: Watcher | None = None, progress: Progress | None = None, own_code: bool = False
) -> Metrics | None:
    """Goes on with a run that was interrupted, from the end of its last whole epoch.

    On the CPU it ends with bit for bit the model that the uninterrupted run would have made.

    Args:
        out: the folder of the run.
        watcher: told what happens.
        progress: told how many images have been looked at while the data set is opened.
        own_code: the backbone may be a person's own (``module.path:callable``), which is imported and called. Only
            say so for runs that you trust.

    Raises:
        RunError: if the run is finished or damaged, or needs code that was not allowed.
        ManifestError: if a file in the folder is not the run's.
    """
    run = Run(out)
    config = run.config
    _refuse_code(config, own_code)
    run.check_for_resuming()
    if run.finished:
        raise RunError(f"{out} is finished: pixpnet evaluate {out}, or train anew with another --out")
    data = open_data_to_resume(run, progress)
    fitting = _prepare(config, data, out, watcher or Nobody())
    trainer = _trainer(config.trainer, out, fitting)
    if _leads() and not run.checkpoint.exists():
        run.write_images(data.listed)  # nothing was learnt yet
    return _carry_out(fitting, trainer, config, data)


def _refuse_code(config: RunConfig, own_code: bool) -> None:
    """Code is called where the caller named it, or allowed what a file names; before anything is imported."""
    if is_own_code(config.backbone) and config.read_from is not None and not own_code:
        raise RunError(
            f"{config.read_from} names code as its backbone, {config.backbone!r}, which would be imported and called: "
            "if you trust it, allow it (--trust-code, own_code=True)"
        )


def _prepare(config: RunConfig, data: DataSet, out: Path, watcher: Watcher) -> Fitting:
    preprocessing = preprocessing_of(config, data)
    how = config.optimisation
    augmentation = data.augmentation if how.views is None else replace(data.augmentation, factor=how.views)
    if preprocessing.frame != data.preprocessing.frame and preprocessing.frame != "crop":
        augmentation = replace(augmentation, max_zoom=_ZOOM)
    if not data.val:
        raise RunError(
            f"{data.name} has too few images for a validation split, and the model is chosen on it: add images, or "
            "raise --validation-fraction"
        )
    _refuse_more_than_memory(config, data, preprocessing.size)
    backbone = build_backbone(
        config.backbone,
        config.at,
        config.weights,
        preprocessing.size,
        config.seed,
        config.edits,
        config.windows(preprocessing.size),
    )
    freeze(backbone, config, preprocessing.size)
    model = build_model(
        backbone,
        config.backbone,
        config.settings.architecture,
        data.class_names,
        preprocessing,
        config.seed,
        config.member,
    )
    model.check_grids()
    with evaluating(model):
        model(torch.zeros(1, 3, preprocessing.size, preprocessing.size))  # says now if prototypes do not fit
    # One cache for training, validation and replacement (one for each worker, where there are any), and none of the
    # masks, which nobody reads here.
    reader = CachedReader(WithoutMasks(data.reader), _CACHE_BYTES // max(1, config.workers))
    loading = Loading(how.batch_size, config.workers, cache_bytes=0)
    features = None
    if how.frozen:
        features = Features(backbone, preprocessing, augmentation, reader, repr(data.reader))
    material = Material(replace(data, reader=reader), preprocessing, augmentation, loading, features)
    return Fitting(model, member_named(config.member), config.settings, material, Run(out), config.seed, watcher)


def preprocessing_of(config: RunConfig, data: DataSet) -> Preprocessing:
    """From files to the network, as a run has it: the data set's own sizes and statistics, or what was asked for."""
    frame = config.settings.frame
    preprocessing = data.preprocessing if frame is None else data.preprocessing.framed(frame)
    return preprocessing if config.size is None else preprocessing.scaled_to(config.size)


def freeze(backbone: Backbone, config: RunConfig, size: int) -> None:
    """Keeps what a configuration wants frozen from learning."""
    frozen = config.optimisation.frozen
    if frozen == "all_but_last":
        frozen = zoo.stage_before(config.backbone, config.at)
    backbone.freeze(frozen, (size, size))
    for parameter in backbone.frozen_parameters():
        parameter.requires_grad_(False)


def _verify_fields(fitting: Fitting, config: RunConfig) -> None:
    """Compares the fields of a backbone that the tests do not know, as it is cut and edited, with the NaN probe."""
    if is_tested(config.backbone) and not config.edits:
        return
    model, watcher = fitting.model, fitting.watcher
    size = model.preprocessing.size
    with evaluating(model):
        verification = verify_fields(
            model.backbone,
            (3, size, size),
            _VERIFIED_PIXELS,
            progress=lambda done: watcher.busy("comparing the fields with the NaN probe", done, _VERIFIED_PIXELS),
        )
    refuse_unless_verified(verification, " ".join(filter(None, (config.backbone, model.backbone.cut))))
    watcher.fields_verified(config.backbone, verification)


def _refuse_more_than_memory(config: RunConfig, data: DataSet, size: int) -> None:
    """Refuses what cannot fit, so that the system does not end the process, or another one, without a word."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    member = member_named(config.member)
    with torch.device("meta"):
        # One grid with one channel: what decides are prototypes and the head.
        parts = member.parts(config.settings.architecture, (1,), len(data.class_names))
    numbers = sum(each.numel() for part in (*parts.comparisons, parts.decision) for each in part.parameters())
    views = len(data.train) * (config.optimisation.views or data.augmentation.factor)
    batch = min(config.optimisation.batch_size, views) * 3 * size * size
    needed = {
        # Their gradients, and the two means that Adam keeps.
        "the prototypes": (4 * numbers, _size_options(config)),
        "a batch of images": (batch, "--batch-size or --size"),
    }
    for tensors, (floats, options) in needed.items():
        if 4 * floats > memory:
            raise RunError(
                f"{tensors} would take {4 * floats / 2**30:.0f} GiB, and this machine has {memory / 2**30:.0f}: choose "
                f"a smaller {options}"
            )


def _size_options(config: RunConfig) -> str:
    """The member's own options that decide how much its prototypes take."""
    names = [field.name for field in fields(config.settings.architecture)]
    return " or ".join(
        option_of(f"architecture.{name}") for name in names if name == "dim" or name.startswith("prototypes")
    )


def _carry_out(fitting: Fitting, trainer: pl.Trainer, config: RunConfig, data: DataSet) -> Metrics | None:
    run = fitting.run
    if not _leads():
        _fit(trainer, fitting)
        return None
    with run.locked():
        run.sweep()
        _fit(trainer, fitting)
        metrics = _finish(fitting, config, data, trainer.strategy.root_device)
        run.write_metrics(metrics)
    return metrics


def _fit(trainer: pl.Trainer, fitting: Fitting) -> None:
    checkpoint = fitting.run.checkpoint
    if checkpoint.exists():
        _refuse_if_damaged(checkpoint, fitting)
    state = torch.random.get_rng_state()
    interrupts = signal.getsignal(signal.SIGINT)
    try:
        with _quiet():
            trainer.fit(fitting, ckpt_path=str(checkpoint) if checkpoint.exists() else None, weights_only=True)
    except SystemExit as end:
        if (raised := zoo.raised_by_own_code(end)) is not None:
            raise raised from end
        # Lightning's answer to Ctrl-C.
        raise KeyboardInterrupt from end
    finally:
        # Lightning leaves Ctrl-C switched off. Only the main thread may, and needs to, switch it on.
        if threading.current_thread() is threading.main_thread() and interrupts is not None:
            signal.signal(signal.SIGINT, interrupts)
        torch.random.set_rng_state(state)


def _refuse_if_damaged(checkpoint: Path, fitting: Fitting) -> None:
    """Reads a checkpoint as Lightning will, so that what is wrong with it is not taken for an error of training."""
    try:
        with warnings.catch_warnings(action="ignore"):
            state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        fitting.on_load_checkpoint(state)
        fitting.load_state_dict(state["state_dict"])
    except (OSError, RunError):
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise RunError(f"{checkpoint} is damaged ({first_line(error)}): delete it to begin the run anew") from error


def _finish(fitting: Fitting, config: RunConfig, data: DataSet, device: torch.device) -> Metrics:
    """Takes the kept model from its file, as anyone else will, and judges that."""
    run, material, watcher = fitting.run, fitting.material, fitting.watcher
    # Own code was allowed for the name in the configuration, and for no other.
    model = PixPNet.load(run.path, own_code=backbone_in(run.path) == config.backbone)
    chosen = [line for line in fitting.lines if line.best][-1]
    write_crops(model, data, run.crops, partial(watcher.busy, "pictures of prototypes"))

    before = copy.deepcopy(model)
    before.load_state_dict(read_state(run.learnt), strict=False)

    def judged(entries: tuple[Entry, ...], task: str) -> Evaluated:
        telling, features = partial(watcher.busy, task), material.features
        if features is None:
            batches = plain_loader(data, entries, model.preprocessing, material.loading)
            return evaluate_both(model.to(device), before.to(device), batches, device, telling)
        freeze(model.backbone, config, model.preprocessing.size)
        features.compute([ViewOf(entry) for entry in entries], device, telling)
        kept = plain_feature_loader(features, entries, material.loading.batch_size)
        return evaluate_both(model.to(device), before.to(device), kept, device, telling, model.behind_stem)

    answers: list[AnswerLine] = []
    test = None
    if config.judge_on_test and len(data.test):
        entries = data.test.open(run.recorder(), f"final evaluation of the model of epoch {chosen.epoch}")
        test = judged(entries, "final evaluation, test")
        answers += answer_lines("test", entries, test.logits, model.class_names)
    validation = judged(data.val, "final evaluation, validation")
    run.write_answers([*answers, *answer_lines("val", data.val, validation.logits, model.class_names)])
    return Metrics(
        chosen_epoch=chosen.epoch,
        epochs=len(fitting.lines),
        validation=validation.after,
        validation_before=validation.before,
        test=None if test is None else test.after,
        test_before=None if test is None else test.before,
        mean_field=model.mean_field,
        largest_field=max(field.max_fraction for field in model.fields),
        prototypes=model.num_prototypes,
    )


def _trainer(options: TrainerOptions, out: Path, fitting: Fitting) -> pl.Trainer:
    here = torch.cuda.device_count() > 1 if options.devices == "auto" else options.devices != "1"
    several = here or options.num_nodes > 1
    # In some stages some parts have no gradient, which DDP must be told.
    wanted = "ddp" if several and options.strategy == "auto" else options.strategy
    strategy = "ddp_find_unused_parameters_true" if wanted == "ddp" else wanted
    devices = int(options.devices) if options.devices.lstrip("-").isdigit() else options.devices
    cores = max(_FEW_CORES, os.cpu_count() or 1)
    if isinstance(devices, int) and devices > cores and (options.accelerator == "cpu" or not _has_accelerator()):
        raise RunError(
            f"--num-devices {devices}: so many processes on a machine with {cores} cores: choose at most {cores}"
        )
    if isinstance(devices, int) and devices > 0:
        refuse_other_count(devices * options.num_nodes)
    logger: list[Logger] = []
    if find_spec("tensorboard") is not None:
        logger.append(TensorBoardLogger(out, name="", version="tensorboard"))
    try:
        with _quiet():
            return pl.Trainer(
                accelerator=options.accelerator,
                devices=devices,
                num_nodes=options.num_nodes,
                strategy=strategy,
                precision=options.precision,
                max_epochs=len(fitting.plan),
                callbacks=[LastEpoch(fitting.run)],
                logger=logger,
                limit_val_batches=0,
                num_sanity_val_steps=0,
                use_distributed_sampler=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                default_root_dir=out,
            )
    except (MisconfigurationException, TypeError, ValueError, RuntimeError) as error:
        raise RunError(
            f"this machine cannot do --device {options.accelerator} --num-devices {options.devices} "
            f"--precision {options.precision}: {error}"
        ) from error


def _has_accelerator() -> bool:
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _leads() -> bool:
    """Whether this process writes; those that Lightning starts beside it for other devices do not."""
    machine = os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
    return getattr(rank_zero_only, "rank", 0) in (0, None) and machine == "0"


@contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _CHATTER]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            # Of the 1x1 convolutions behind the backbone, whose memory can be read in two ways that are the same.
            warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
            warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning_fabric|torch\.distributed)\b")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

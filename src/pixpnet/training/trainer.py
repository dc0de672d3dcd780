"""Lightning's part in a run: its trainer, quiet, with our checkpoints, and Ctrl-C as it was before."""

import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.rank_zero import rank_zero_only
from pytorch_lightning.callbacks import Callback, ProgressBar
from pytorch_lightning.loggers import Logger, TensorBoardLogger

from pixpnet import zoo
from pixpnet.config import TrainerOptions
from pixpnet.messages import first_line
from pixpnet.training.checkpoint import LastEpoch
from pixpnet.training.fitting import Fitting
from pixpnet.training.memory import reusing_memory
from pixpnet.training.preparing import has_accelerator
from pixpnet.training.processes import refuse_other_count
from pixpnet.training.run import RunError

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


Callbacks: TypeAlias = Sequence[Callback]
Loggers: TypeAlias = Sequence[Logger]


def make_trainer(
    options: TrainerOptions, out: Path, fitting: Fitting, callbacks: Callbacks = (), loggers: Loggers = ()
) -> pl.Trainer:
    """Lightning's trainer for a run.

    Args:
        options: of the hardware.
        out: the run's folder.
        fitting: what is trained.
        callbacks: of the caller's, called as Lightning does; they find the figures of an epoch, by the names of the
            columns of `log.csv`, in `trainer.callback_metrics`.
        loggers: of the caller's, beside the run's own.

    Raises:
        RunError: if this machine cannot do what the options ask for.
    """
    here = torch.cuda.device_count() > 1 if options.num_devices == "auto" else options.num_devices != "1"
    several = here or options.num_nodes > 1
    # In some stages some parts have no gradient, which DDP must be told.
    wanted = "ddp" if several and options.strategy == "auto" else options.strategy
    strategy = "ddp_find_unused_parameters_true" if wanted == "ddp" else wanted
    devices = int(options.num_devices) if options.num_devices.lstrip("-").isdigit() else options.num_devices
    cores = max(_FEW_CORES, os.cpu_count() or 1)
    if isinstance(devices, int) and devices > cores and (options.device == "cpu" or not has_accelerator()):
        raise RunError(
            f"--num-devices {devices}: so many processes on a machine with {cores} cores: choose at most {cores}"
        )
    if isinstance(devices, int) and devices > 0:
        refuse_other_count(devices * options.num_nodes)
    logger: list[Logger] = [*loggers]
    if find_spec("tensorboard") is not None:
        logger.append(TensorBoardLogger(out, name="", version="tensorboard"))
    try:
        with _quiet():
            return pl.Trainer(
                accelerator=options.device,
                devices=devices,
                num_nodes=options.num_nodes,
                strategy=strategy,
                precision=options.precision,
                max_epochs=len(fitting.plan),
                callbacks=[*callbacks, LastEpoch(fitting.run)],
                logger=logger,
                limit_val_batches=0,
                num_sanity_val_steps=0,
                use_distributed_sampler=False,
                enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in callbacks),
                enable_model_summary=False,
                default_root_dir=out,
            )
    except (MisconfigurationException, TypeError, ValueError, RuntimeError) as error:
        raise RunError(
            f"this machine cannot do --device {options.device} --num-devices {options.num_devices} "
            f"--precision {options.precision}: {error}"
        ) from error


def callbacks_in(given: object) -> Callbacks:
    """Callbacks that a caller gave, one or several.

    Raises:
        TypeError: if one of them is none of Lightning's.
    """
    callbacks = (given,) if isinstance(given, Callback) else given
    checked: Callbacks = _all_of(callbacks, Callback, "callbacks", "pytorch_lightning.Callback")
    return checked


def loggers_in(given: object) -> Loggers:
    """Like `callbacks_in`, for loggers."""
    loggers = (given,) if isinstance(given, Logger) else given
    checked: Loggers = _all_of(loggers, Logger, "loggers", "pytorch_lightning.loggers.Logger")
    return checked


def _all_of(given: object, kind: Any, name: str, called: str) -> Any:
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
        raise TypeError(f"{name} is a list of {called}, got {type(given).__name__}")
    items = tuple(given)
    for number, item in enumerate(items, start=1):
        if not isinstance(item, kind):
            raise TypeError(f"{name}: number {number} of {len(items)} is no {called}, but {type(item).__name__}")
    return items


def leads() -> bool:
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


def fit(trainer: pl.Trainer, fitting: Fitting) -> None:
    """Trains, from the last whole epoch where there is a checkpoint.

    Raises:
        RunError: if the checkpoint is damaged.
        KeyboardInterrupt: on Ctrl-C.
    """
    checkpoint = fitting.run.checkpoint
    if checkpoint.exists():
        _refuse_if_damaged(checkpoint, fitting)
    state = torch.random.get_rng_state()
    interrupts = signal.getsignal(signal.SIGINT)
    try:
        with _quiet(), reusing_memory():
            trainer.fit(fitting, ckpt_path=str(checkpoint) if checkpoint.exists() else None, weights_only=True)
    except SystemExit as end:
        if (raised := zoo.raised_by_user_code(end)) is not None:
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

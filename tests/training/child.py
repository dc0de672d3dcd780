"""What tests do in processes of their own: train and be killed, or compute together. See `material.start_child`.

It is run by path, in a process that has imported the package but none of the tests.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

import pixpnet.training.replacement as replacement_module
import pixpnet.training.run as run_module
from pixpnet.config import RunConfig
from pixpnet.settings import Replacement
from pixpnet.training import crops
from pixpnet.training.checkpoint import LastEpoch
from pixpnet.training.fitting import Fitting
from pixpnet.training.run import Run

train_module: Any = sys.modules["pixpnet.training.train"]  # the package's own `train` is the function


def die(signal_number: int = signal.SIGKILL) -> None:
    os.kill(os.getpid(), signal_number)


def before_call(owner: Any, name: str, number: int, action: Callable[[], None] = die) -> None:
    """Acts when a function is called for the so-manieth time, before it does anything."""
    original, calls = getattr(owner, name), count(1)

    def watched(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            action()
        return original(*args, **kwargs)

    setattr(owner, name, watched)


def after_call(owner: Any, name: str, number: int) -> None:
    """Dies when a function has been called for the so-manieth time."""
    original, calls = getattr(owner, name), count(1)

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if next(calls) == number:
            die()
        return result

    setattr(owner, name, watched)


def write_half(number: int) -> None:
    """Dies with half a checkpoint written."""
    trainer, calls = pl.Trainer, count(1)
    original = trainer.save_checkpoint

    def half(self: Any, path: Path, *args: Any, **kwargs: Any) -> None:
        original(self, path, *args, **kwargs)
        if next(calls) == number:
            whole = Path(path).read_bytes()
            Path(path).write_bytes(whole[: len(whole) // 2])
            die()

    trainer.save_checkpoint = half


def before_name(name: str, number: int) -> None:
    """Dies when everything of a file is written, but it does not have its name yet."""
    original, calls = Path.replace, count(1)

    def watched(self: Path, target: Path) -> Path:
        if Path(target).name == name and next(calls) == number:
            die()
        return original(self, target)

    Path.replace = watched  # type: ignore[method-assign]


# 3 epochs of 3 steps, each with a replacement; the tiny data set gives 9 steps in all.
KILLS: dict[str, Callable[[], None]] = {
    "in the first step": lambda: before_call(Fitting, "training_step", 1),
    "in the middle of an epoch": lambda: before_call(Fitting, "training_step", 5),
    "in the middle of the third epoch": lambda: before_call(Fitting, "training_step", 8),
    "during the first replacement": lambda: before_call(replacement_module, "choose", 1),
    "during the second replacement": lambda: before_call(replacement_module._Candidates, "add", 5),
    "between model and prototypes.json": lambda: before_call(run_module, "prototypes_listing", 1),
    "before the model has its name": lambda: before_name("model.safetensors", 1),
    "before the first manifest has its name": lambda: before_name("manifest.json", 3),
    "before the last manifest has its name": lambda: before_name("manifest.json", 15),
    "between manifest and log": lambda: before_name("log.csv", 2),
    "between manifest and figures": lambda: before_name("metrics.json", 1),
    "before the log is written": lambda: before_call(Run, "write_log", 2),
    "before a checkpoint": lambda: before_call(LastEpoch, "on_train_epoch_end", 2),
    "with half a checkpoint": lambda: write_half(2),
    "before a checkpoint has its name": lambda: before_name("last.ckpt", 3),
    "after a checkpoint": lambda: after_call(LastEpoch, "on_train_epoch_end", 1),
    "after the last checkpoint": lambda: after_call(LastEpoch, "on_train_epoch_end", 3),
    "among the pictures": lambda: before_call(crops, "crop", 3),
    "before the figures are written": lambda: before_call(Run, "write_metrics", 1),
}


def train(config: RunConfig, out: str, kill: str = "", path: str = "") -> None:
    sys.path.insert(0, path or sys.path[0])
    if kill:
        KILLS[kill]()
    train_module.train(config, Path(out))


def resume(out: str, kill: str = "", path: str = "") -> None:
    sys.path.insert(0, path or sys.path[0])
    if kill:
        KILLS[kill]()
    train_module.resume(Path(out), trust_code=bool(path))


def interrupted(words: list[str], step: int, answer: str) -> None:
    """The command line, stopped with Ctrl-C in a step."""
    from pixpnet.cli import main

    # Tests that a shell runs in the background inherit that Ctrl-C is ignored; a person at a terminal does not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before_call(Fitting, "training_step", step, lambda: die(signal.SIGINT))
    with Path(answer).open("w") as file, contextlib.redirect_stderr(file):
        code = main(words)
    sys.exit(code)


# Several processes together -----------------------------------------------------------------------------------


@contextlib.contextmanager
def together(store: str, rank: int, world_size: int) -> Iterator[None]:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def replace_and_judge(
    store: str,
    rank: int,
    world_size: int,
    run: str,
    data: str,
    batch_size: int,
    replacement: Replacement | None,
    out: str,
) -> None:
    """Replaces prototypes of a run's model, shifted by noise, and judges it, on this process's share."""
    from pixpnet.data import Loading, open_data, plain_loader
    from pixpnet.model import PixPNet
    from pixpnet.records import to_plain
    from pixpnet.training import evaluate, replace_prototypes
    from pixpnet.training.evaluation import shard

    opened, model = open_data(data), PixPNet.load(run)
    generator = torch.Generator().manual_seed(7)
    for grid in model.grids:
        prototypes = grid.comparison.prototypes
        prototypes.data = torch.rand(prototypes.shape, generator=generator)
    model.origins = None

    def mine(entries: Any) -> Any:
        share = shard(entries, batch_size, rank, world_size)
        return plain_loader(opened, share, model.preprocessing, Loading(batch_size))

    with together(store, rank, world_size) if world_size > 1 else contextlib.nullcontext():
        origins = (
            () if replacement is None else replace_prototypes(model, mine(opened.train), opened.train, replacement)
        )
        evaluation = evaluate(model, model.num_classes, mine(opened.val), together=True)
    result = {
        "origins": to_plain(origins),
        "evaluation": to_plain(evaluation),
        "prototypes": [grid.comparison.prototypes.tolist() for grid in model.grids],
    }
    Path(out).write_text(json.dumps(result))


def learn_leaves(store: str, rank: int, world_size: int, out: str) -> None:
    """Leaves of a tree learn from two epochs of batches by the member's own actions; each process has its share."""
    from types import SimpleNamespace

    from pixpnet.members import prototree
    from pixpnet.parts import BinaryTree, TreeDecision

    decision = TreeDecision(5, BinaryTree.complete(3))
    learner: Any = SimpleNamespace(model=SimpleNamespace(head=decision), steps_per_epoch=3)
    generator = torch.Generator().manual_seed(3)
    scores, labels = -3 * torch.rand(6, 8, 7, generator=generator), torch.randint(0, 5, (6, 8), generator=generator)
    share = slice(rank * 8 // world_size, (rank + 1) * 8 // world_size)
    with together(store, rank, world_size) if world_size > 1 else contextlib.nullcontext():
        for number in range(6):
            if number % 3 == 0:
                prototree.begin_leaves(learner)
            step: Any = SimpleNamespace(
                required_matches=SimpleNamespace(scores=scores[number, share]), labels=labels[number, share]
            )
            decision.observe(step)
            prototree.update_leaves(learner)
    torch.save(decision.knowledge, out)


if "JOB" in globals():
    given: dict[str, Any] = globals()
    torch.set_num_threads(given["THREADS"])
    os.environ["PIXPNET_CACHE"] = given["CACHE"]
    given[given["JOB"]](**given["VALUES"])

"""``pixpnet train``: from a data set to an evaluated model in a run folder."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from pixpnet.commands.calling import command
from pixpnet.commands.seeds import run_seeds
from pixpnet.config import RunConfig, config_from_plain
from pixpnet.family import member_named
from pixpnet.records import plain_fields
from pixpnet.settings import kept_epoch
from pixpnet.wording import percent

if TYPE_CHECKING:
    from pixpnet.training import Metrics
    from pixpnet.training.evaluation import Evaluation

USAGE = (
    "pixpnet train --out RUN [--member ... --preset ...] [--data ...] [--backbone ... --at ... --weights ...] "
    "[any option below]"
)

EXAMPLES = """examples:
  pixpnet train --out runs/birds                      drawn birds, the small backbone, on this machine
  pixpnet train --data folder:photos --weights imagenet --out runs/photos
                                                      own photographs: cells that see 7.7 % of them, minutes
  pixpnet train --data cub:CUB_200_2011 --backbone vgg16 --at maxpool4 --weights imagenet \\
                --preset paper --num-devices 4 --precision bf16-mixed --out runs/paper
  pixpnet train --member protopnet --help             another network of the family, and its options
  pixpnet train --member protopnet --preset laptop --print-config > mine.yaml
  pixpnet train --config mine.yaml --seed 1 --out runs/mine
  pixpnet train --config mine.yaml --seeds 0 1 2 --out runs/three    three runs, runs/three/seed-0 and so on
  pixpnet train --resume runs/mine                    after an interruption of any kind"""


def run(args: Namespace) -> int:
    """Trains, or goes on training, and says how it went."""
    if (args.out is None) == (args.resume is None):
        sys.stderr.write("error: say where the run goes, --out RUN, or which one to go on with, --resume RUN\n")
        return 2
    if args.seeds is not None:
        return run_seeds(args, config_of(args), summary)
    from pixpnet.training import resume, train
    from pixpnet.views.training_display import display

    folder: Path = args.out or args.resume
    try:
        with display() as watcher:
            if args.resume is not None:
                metrics = resume(folder, watcher, args.trust_code)
            else:
                metrics = train(config_of(args), folder, watcher, args.trust_code)
    except KeyboardInterrupt:
        # What the last whole epoch left is safe; nothing that was begun is needed.
        state = "the model kept so far is in it" if (folder / "model.safetensors").exists() else "no model yet"
        if (folder / "config.yaml").exists():
            again = command("train", "--resume", folder)
            sys.stderr.write(f"\nstopped; {folder} is kept ({state}). Go on with: {again}\n")
        return 130
    if metrics is not None:
        sys.stdout.write(summary(metrics, folder))
    return 0


def config_of(args: Namespace) -> RunConfig:
    """The record of the command line's values."""
    given: dict[str, Any] = args.as_dict()
    kinds = (RunConfig, member_named(given["member"]).config)
    values = {field.name: given[field.name] for kind in kinds for field in plain_fields(kind)}
    files = given["config"]
    # What is not in this command came from a file, or from the environment.
    return replace(config_from_plain(values), read_from=files[-1] if files else "the environment")


def summary(metrics: Metrics, folder: Path) -> str:
    """The outcome in a few lines."""
    lines = [
        f"kept: epoch {metrics.chosen_epoch} of {metrics.epochs}, {kept_epoch(metrics.validation_before is not None)}",
        f"validation accuracy  {percent(metrics.validation.accuracy):>7s} ({metrics.validation.images} images)"
        f"{_before(metrics.validation_before)}",
    ]
    if metrics.test is None:
        lines.append("test accuracy        not looked at: the test split stayed closed")
    else:
        low, high = metrics.test.interval.low, metrics.test.interval.high
        lines.append(
            f"test accuracy        {percent(metrics.test.accuracy):>7s} ({metrics.test.images} images, 95 % interval "
            f"{percent(low)} to {percent(high)}){_before(metrics.test_before)}"
        )
    lines += [
        f"a cell sees          {percent(metrics.mean_field):>7s} of the image on average, "
        f"{percent(metrics.largest_field)} at most",
        f"{metrics.prototypes} prototypes, each a patch of a training image: {folder / 'prototypes'}"
        if metrics.validation_before is not None
        else f"{metrics.prototypes} prototypes, which are learnt and no patches of training images",
        f"the run: {folder}",
    ]
    return "\n".join(lines) + "\n"


def _before(evaluation: Evaluation | None) -> str:
    """The accuracy before replacement, where there was one."""
    return "" if evaluation is None else f", {percent(evaluation.accuracy)} before replacement"

"""``pixpnet train --seeds``: several runs that differ in their seed alone."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from statistics import mean, stdev
from typing import TYPE_CHECKING

from pixpnet.commands.calling import command
from pixpnet.wording import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.config import RunConfig
    from pixpnet.training import Metrics, Watcher

HELP = (
    "train once with each of these seeds, into OUT/seed-0 and so on; the same command goes on after an interruption; "
    "`pixpnet compare OUT/seed-*` shows mean and deviation, and which prototypes recur"
)


def add_seeds(parser: ArgumentParser) -> None:
    """Declares the option."""
    parser.add_argument("--seeds", type=int, nargs="+", default=None, metavar="N", help=HELP)


def run_seeds(args: Namespace, config: RunConfig, summary: Callable[[Metrics, Path], str]) -> int:
    """Trains once with each seed, and says how it went."""
    from pixpnet.training import Run
    from pixpnet.training.seeds import seed_folder, train_seeds
    from pixpnet.views.training_display import display

    def ended(folder: Path, metrics: Metrics | None) -> None:
        sys.stdout.write(f"{folder} was finished before\n" if metrics is None else summary(metrics, folder) + "\n")

    @contextmanager
    def shown(folder: Path) -> Iterator[Watcher]:
        number = [seed_folder(args.out, seed) for seed in args.seeds].index(folder) + 1
        sys.stderr.write(f"{folder}: run {number} of {len(args.seeds)}\n")
        with display() as watcher:
            yield watcher

    try:
        folders = train_seeds(config, args.out, args.seeds, shown, args.trust_code, ended)
    except KeyboardInterrupt:
        sys.stderr.write(f"\nstopped; what was trained is kept in {args.out}. The same command goes on from there\n")
        return 130
    of_seeds = [Run(folder).read_metrics() for folder in folders]
    for split in ("validation", "test"):
        accuracies = [figures[split]["accuracy"] for figures in of_seeds if figures[split] is not None]
        if accuracies:
            spread = f" ± {percent(stdev(accuracies))}" if len(accuracies) > 1 else ""
            listed = ", ".join(map(percent, accuracies))
            sys.stdout.write(
                f"{split} accuracy over {len(accuracies)} seeds: {percent(mean(accuracies))}{spread} ({listed})\n"
            )
    sys.stdout.write(f"compare them: {command('compare', *map(str, folders))}\n")
    return 0

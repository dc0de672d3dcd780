"""Several runs that differ in their seed alone, in one folder: what is finished stays, what was interrupted goes on."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from pixpnet.config import RunConfig
from pixpnet.training.finishing import Metrics
from pixpnet.training.run import Run, RunError
from pixpnet.training.train import resume, train
from pixpnet.training.watching import Watcher


def seed_folder(out: Path, seed: int) -> Path:
    """Where the run with a seed is."""
    return out / f"seed-{seed}"


def _nobody(folder: Path) -> AbstractContextManager[Watcher | None]:
    return nullcontext()


def train_seeds(
    config: RunConfig,
    out: Path,
    seeds: Sequence[int],
    watching: Callable[[Path], AbstractContextManager[Watcher | None]] = _nobody,
    trust_code: bool = False,
    ended: Callable[[Path, Metrics | None], None] | None = None,
) -> tuple[Path, ...]:
    """Trains a network once with each seed, into `out/seed-0` and so on.

    The same call goes on after an interruption: runs that are finished are not touched.

    Args:
        config: of all of them; its seed does not matter.
        out: a folder for the runs.
        seeds: different ones.
        watching: opens who is told what happens in a run, a new one for each folder: how far a run is says nothing
            about the next.
        trust_code: see `train`.
        ended: told of each run, when it is finished, and of what came out, if it was not finished before.

    Returns:
        the folders of the runs.

    Raises:
        RunError: if the folder is a run itself, or a run with a seed is there that was made otherwise.
        ValueError: if a seed comes twice.
    """
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"a run for each seed, and one of {', '.join(map(str, seeds))} comes twice")
    if (out / "config.yaml").exists():
        raise RunError(f"{out} is a run itself: choose another --out for the runs with several seeds")
    configs = {seed_folder(out, seed): replace(config, seed=seed) for seed in seeds}
    for folder, wanted in configs.items():  # before hours of work
        if (folder / "config.yaml").exists() and Run(folder).config != replace(wanted, read_from=None):
            raise RunError(f"{folder} is a run with other settings: choose another --out")
    for folder, wanted in configs.items():
        metrics = None
        begun = (folder / "config.yaml").exists()
        if not begun or not Run(folder).finished:
            with watching(folder) as watcher:
                metrics = resume(folder, watcher, trust_code) if begun else train(wanted, folder, watcher, trust_code)
        if ended is not None:
            ended(folder, metrics)
    return tuple(configs)

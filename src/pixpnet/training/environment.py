"""What a run is computed with: beside seed and settings, it decides the last bits of a model.

A sum of floating-point numbers depends on the order of its terms, and that order on the number of threads, the versions
of torch and of this package, and the instructions that the processor has. Training makes large differences of small
ones. So a run writes down what it began with (`environment.json`), and whoever resumes it with another number of
threads is told. The file decides nothing, and is no part of the manifest.
"""

import json
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from pixpnet.records import from_plain, to_plain
from pixpnet.whole_file import read_text, written_whole

ENVIRONMENT_FILE = "environment.json"
_LARGEST = 2**16


class EnvironmentWarning(UserWarning):
    """A run goes on with another number of threads than it began with."""


@dataclass(frozen=True)
class Environment:
    """What decides the last bits of a model on a CPU.

    Attributes:
        threads: of torch's, for one operation (`OMP_NUM_THREADS`).
        pixpnet: its version.
        torch: its version.
        instructions: the best that torch uses on this processor, as it names them: AVX2, AVX512.
    """

    threads: int
    pixpnet: str
    torch: str
    instructions: str


def environment() -> Environment:
    """That of this process, now."""
    return Environment(
        torch.get_num_threads(), version("pixpnet"), str(torch.__version__), torch.backends.cpu.get_cpu_capability()
    )


def keep_environment(run: Path) -> None:
    """Writes down what a new run is computed with."""
    with written_whole(run / ENVIRONMENT_FILE) as temporary:
        temporary.write_text(json.dumps(to_plain(environment()), indent=1), encoding="utf-8")


def warn_of_other_threads(run: Path) -> None:
    """Says so where a run began with another number of threads than it goes on with.

    Warns:
        EnvironmentWarning: with both numbers. Runs of earlier versions do not say theirs.
    """
    try:
        before = from_plain(Environment, json.loads(read_text(run / ENVIRONMENT_FILE, _LARGEST)), ENVIRONMENT_FILE)
    except (OSError, ValueError, RecursionError):
        return
    now = environment()
    if before.threads != now.threads:
        warnings.warn(
            f"{run} began with {before.threads} threads and goes on with {now.threads}: its model will not be bit for "
            f"bit that of a run that was not interrupted (set OMP_NUM_THREADS={before.threads})",
            EnvironmentWarning,
            stacklevel=3,
        )

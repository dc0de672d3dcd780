"""Workers in processes of their own, which hang or are killed at a place that the test chooses."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from pixpnet.goldilocks import Candidate, Method, SearchOptions, find_cuts, methods
from pixpnet.goldilocks.bench import Bench, Outcome


def work(options: SearchOptions, out: str, hang_at: int, mark: str, go: str, journal: str) -> None:
    """Searches with a method that learns nothing. At its so-manieth candidate it leaves a mark and waits for `go`."""
    evaluated = 0

    def evaluate(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
        nonlocal evaluated
        for candidate in candidates:
            evaluated += 1
            if evaluated == hang_at:
                Path(mark).touch()
                while not Path(go).exists():
                    time.sleep(0.02)
            with Path(journal).open("a") as file:
                file.write(f"{candidate.name}\n")
            yield Outcome(candidate, 0.5 + candidate.mean_field / 4, 8)

    methods.METHODS[options.chosen_method] = Method(evaluate, together=False)  # type: ignore[index]
    find_cuts(options, Path(out))


if "JOB" in globals():
    given: dict[str, Any] = globals()
    torch.set_num_threads(1)
    os.environ["PIXPNET_CACHE"] = given["CACHE"]
    given[given["JOB"]](**given["VALUES"])

"""What the tests of searches share: small networks, quick options, and processes that may be killed."""

import multiprocessing
import os
import runpy
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pixpnet.goldilocks import Candidate, SearchOptions
from pixpnet.goldilocks.settings import SearchSettings
from pixpnet.goldilocks.study import Study

PATIENCE = 120.0  # seconds, on a busy machine
WORKER = Path(__file__).with_name("worker.py")
SETTINGS = SearchSettings("birds", "images", 60, "finetune", 32, 1, 8, 1, 0)


def one_convolution() -> nn.Module:
    """Cells that see 3 x 3 pixels, at the border 2."""
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1))


class SharedReLU(nn.Module):
    """Calls one module twice, in place, and keeps the channels last in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.third = nn.Conv2d(4, 4, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.norm = nn.LayerNorm(4)
        self.last = nn.Linear(4, 5)

    def forward(self, images: Tensor) -> Tensor:
        cells = self.relu(self.second(self.relu(self.first(images))))
        return self.last(self.norm(self.third(cells).permute(0, 2, 3, 1)))


def shared_relu() -> nn.Module:
    torch.manual_seed(0)
    return SharedReLU()


def options(data: Path, **changes: Any) -> SearchOptions:
    """A search over three cuts of one network and two of another."""
    given: dict[str, Any] = {
        "data": f"folder:{data}",
        "backbones": ("small-21", "small-29"),
        "layers": ("stage1", "stage2", "stage3"),
        "zone": (0.01, 0.6),
        "size": 32,
        "batch": 8,
        "views": 1,
        "epochs": 1,
        "heartbeat": 1,
    }
    return SearchOptions(**{**given, **changes})


def candidate(index: int, backbone: str = "small-21") -> Candidate:
    return Candidate(backbone, f"layer{index}", index, index / 100, index / 100, (4, 8, 8))


def history(study: Study) -> dict[str, list[str]]:
    """For each candidate the states of its trials, in their order, by optuna's names."""
    states: dict[str, list[str]] = {}
    for trial in study._trials.get_trials(deepcopy=False):
        states.setdefault(trial.user_attrs["candidate"], []).append(trial.state.name)
    return states


def start_worker(job: str, **values: Any) -> multiprocessing.process.BaseProcess:
    """Starts a function of `worker.py` in a process of its own, forked from one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pixpnet.goldilocks"])
    given = {"JOB": job, "VALUES": values, "CACHE": os.environ.get("PIXPNET_CACHE", "")}
    process = context.Process(target=runpy.run_path, args=(str(WORKER), given), daemon=True)
    process.start()
    return process


def wait_for(path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} never came"
        time.sleep(0.05)

"""What the training tests share: pictures to learn from, small networks, and processes that may be killed."""

import json
import multiprocessing
import os
import runpy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from pixpnet.config import RunConfig
from pixpnet.data import Batch, Entry, Preprocessing
from pixpnet.members.pixpnet import Architecture, PixPNetConfig
from pixpnet.model import Backbone, PixPNet
from pixpnet.settings import Optimization, Replacement

COLORS = {"blue": (40, 40, 200), "green": (40, 200, 40), "red": (200, 40, 40)}
COUNTS = {"train": 8, "val": 3, "test": 4}
CHILD = Path(__file__).with_name("child.py")


def draw_pictures(root: Path, names: Sequence[str] = tuple(COLORS)) -> Path:
    """Coloured squares on grey noise, no two alike: train, val and test of three classes."""
    rng = np.random.default_rng(0)
    for split, count in COUNTS.items():
        for name, color in zip(names, COLORS.values(), strict=True):
            for number in range(count):
                pixels = rng.integers(90, 130, (32, 32, 3), dtype=np.uint8)
                y, x = rng.integers(2, 18, 2)
                square = np.array(color) + rng.integers(-30, 30, (12, 12, 3))
                pixels[y : y + 12, x : x + 12] = square.clip(0, 255)
                path = root / split / name / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(path)
    return root


def small_config(data: Path, **changes: Any) -> RunConfig:
    """A run of three epochs, each with a replacement, that takes a second."""
    config = RunConfig(
        data=f"folder:{data}",
        backbone="small-21",
        size=32,
        settings=PixPNetConfig(
            Architecture(dim=8, prototypes_per_class=2),
            optimization=Optimization(epochs=3, warm_up_epochs=1, batch_size=8, views=1),
            replacement=Replacement(start=1, every=1),
        ),
    )
    own = {
        name: changes.pop(name) for name in ("architecture", "losses", "optimization", "replacement") if name in changes
    }
    return replace(config, **changes).with_settings(**own)


def small_model(classes: int = 2, size: int = 13, seed: int = 0, **architecture: Any) -> PixPNet:
    """Random weights, batch statistics that matter, 6 x 6 cells that each see 3 x 3 pixels of 13 x 13."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU())
    network[1].running_mean.uniform_(-0.5, 0.5)
    network[1].running_var.uniform_(0.5, 2)
    settings = Architecture(**{"dim": 5, "prototypes_per_class": 3, **architecture})
    model = PixPNet(
        Backbone(network, "", (size, size)),
        settings,
        [f"class {label}" for label in range(classes)],
        Preprocessing().scaled_to(size),
    )
    for layer in model.add_on:
        if isinstance(layer, nn.Conv2d):
            layer.weight.data *= 4  # patches that differ
    return model


def identity_model(classes: int, rows: int, cols: int, **architecture: Any) -> PixPNet:
    """Its embeddings are the pixels themselves, so that whole numbers give exact squared distances, and ties."""
    size = max(rows, cols)
    settings = Architecture(**{"dim": 3, "distance": "squared_l2", **architecture})
    names = [f"class {label}" for label in range(classes)]
    model = PixPNet(Backbone(nn.Conv2d(3, 4, 1), "", (size, size)), settings, names, Preprocessing().scaled_to(size))
    model.embed = lambda images: (images,)  # type: ignore[method-assign]
    return model


def batch_of(images: Tensor, labels: Sequence[int], ids: Sequence[str]) -> Batch:
    """Images without annotations; the way back to the source tells them apart."""
    count = len(ids)
    to_source = torch.eye(3, dtype=torch.float64).repeat(count, 1, 1)
    to_source[:, 0, 2] = torch.tensor([float(sum(map(ord, id_))) for id_ in ids])
    return Batch(
        images=images,
        labels=torch.tensor(list(labels)),
        ids=tuple(ids),
        keypoints=torch.zeros(count, 0, 2),
        visible=torch.zeros(count, 0, dtype=torch.bool),
        to_source=to_source,
        source_sizes=torch.full((count, 2), images.shape[-1]),
        masks=None,
        boxes=None,
    )


def batches_of(images: Tensor, labels: Sequence[int], ids: Sequence[str], size: int) -> list[Batch]:
    """The same in batches."""
    starts = range(0, len(ids), size)
    return [batch_of(images[k : k + size], labels[k : k + size], ids[k : k + size]) for k in starts]


def entries_of(labels: Sequence[int], ids: Sequence[str]) -> list[Entry]:
    """What a data set lists of them."""
    return [Entry(id_, label, "train") for id_, label in zip(ids, labels, strict=True)]


def start_child(job: str, **values: Any) -> multiprocessing.process.BaseProcess:
    """Starts a function of `child.py` in a process of its own, forked from one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pixpnet.training.train"])
    given = {
        "JOB": job,
        "VALUES": values,
        "THREADS": torch.get_num_threads(),
        "CACHE": os.environ.get("PIXPNET_CACHE", ""),
    }
    process = context.Process(target=runpy.run_path, args=(str(CHILD), given), daemon=True)
    process.start()
    return process


def end_of(process: multiprocessing.process.BaseProcess) -> int:
    """The exit code: 0 done, minus the signal that ended it."""
    process.join(120)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError("the process hangs")
    return process.exitcode


def in_child(job: str, **values: Any) -> int:
    """Runs a function of `child.py` in a process of its own and gives its exit code."""
    return end_of(start_child(job, **values))


def replaced_and_judged(
    folder: Path, world_size: int, run: Path, data: str, replacement: Replacement | None
) -> list[Any]:
    """What each of some processes finds that together replace a run's prototypes and judge its model."""
    outs = [folder / f"{rank} of {world_size}" for rank in range(world_size)]
    processes = [
        start_child(
            "replace_and_judge",
            store=str(folder / "store"),
            rank=rank,
            world_size=world_size,
            run=str(run),
            data=data,
            batch_size=4,
            replacement=replacement,
            out=str(out),
        )
        for rank, out in enumerate(outs)
    ]
    assert [end_of(process) for process in processes] == [0] * world_size
    return [json.loads(out.read_text()) for out in outs]

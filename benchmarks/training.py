"""What prototypes cost: a training step against a linear classifier, replacement against a plain evaluation pass.

    python benchmarks/training.py

The same backbone (resnet18 @ layer3, random weights: the speed does not depend on them), images and optimiser, one
thread, processor time, the contestants in turns, so that a busy machine slows all of them alike. Medians of ratios
within a round are shown. Freed memory is used again, as it is in a run (`training/memory.py`).
"""

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import cycle

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch
from torch import nn

from pixpnet import zoo
from pixpnet.data import Batch, Entry, Preprocessing
from pixpnet.goldilocks.pooled import PooledLinear
from pixpnet.members.pixpnet import PRESETS, Architecture
from pixpnet.model import Backbone, PixPNet
from pixpnet.parts.losses import LossTerm, Step, cluster, loss_of, separation
from pixpnet.settings import Replacement
from pixpnet.training import evaluate, replace_prototypes
from pixpnet.training.memory import reusing_memory
from pixpnet.training.usual import CROSS_ENTROPY
from results import arguments_of
from side_by_side import ratios

STEP_LIMIT, REPLACEMENT_LIMIT = 1.03, 1.05
LAPTOP, PLAIN = PRESETS["laptop"].architecture, PRESETS["paper"].architecture
LOSSES = (
    CROSS_ENTROPY,
    LossTerm("cluster", PRESETS["laptop"].losses.cluster_weight, cluster),
    LossTerm("separation", PRESETS["laptop"].losses.separation_weight, separation),
)


def backbone(size: int) -> Backbone:
    """Each contestant has its own, with the same weights."""
    torch.manual_seed(0)
    return Backbone(zoo.build("resnet18"), "layer3", (size, size))


def prototypes(classes: int, size: int, architecture: Architecture) -> PixPNet:
    """Ten prototypes for each class."""
    names = [str(label) for label in range(classes)]
    return PixPNet(backbone(size), architecture, names, Preprocessing().scaled_to(size))


def stepper(model: nn.Module, batch: int, size: int, classes: int) -> Callable[[], None]:
    """A function that does one whole training step."""
    images, labels = torch.randn(batch, 3, size, size), torch.arange(batch) % classes
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-3)
    model.train()

    def step() -> None:
        if isinstance(model, PixPNet):
            embeddings = model.embed(images)
            output = model.compare(embeddings)
            loss = loss_of(Step(output.logits, labels, model.parts, output.matches, embeddings), LOSSES).total
        else:
            loss = nn.functional.cross_entropy(model(images).logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def batches(count: int, batch: int, size: int, classes: int) -> list[Batch]:
    """Images for evaluation, in memory: what is measured is the network, not the disk."""
    labels = cycle(range(classes))
    return [_batch(number, batch, size, labels) for number in range(count)]


def _batch(number: int, batch: int, size: int, labels: Iterator[int]) -> Batch:
    return Batch(
        images=torch.randn(batch, 3, size, size),
        labels=torch.tensor([next(labels) for _ in range(batch)]),
        ids=tuple(f"{number}-{index}" for index in range(batch)),
        keypoints=torch.zeros(batch, 0, 2),
        visible=torch.zeros(batch, 0, dtype=torch.bool),
        to_source=torch.eye(3, dtype=torch.float64).expand(batch, 3, 3),
        source_sizes=torch.full((batch, 2), size),
        masks=None,
        boxes=None,
    )


def steps_table(size: int, batch: int, rounds: int) -> float:
    """Prints the cost of a step for 120 and for 2000 prototypes; returns that for 120 as `laptop` has them."""
    result = ratios(
        {
            "linear classifier": stepper(PooledLinear(backbone(size), 12), batch, size, 12),
            "120, plain cells": stepper(prototypes(12, size, PLAIN), batch, size, 12),
            "120 prototypes": stepper(prototypes(12, size, LAPTOP), batch, size, 12),
            "2000 prototypes": stepper(prototypes(200, size, LAPTOP), batch, size, 200),
        },
        rounds,
        f"training: step, {size} px, batch {batch}, ",
    )
    for name, ratio in result.items():
        print(f"  {size:3d} x {size:3d}, batch {batch:2d}: {name:20s} {ratio:6.3f}", flush=True)
    return result["120 prototypes"]


def replacement_table(size: int, batch: int, rounds: int, classes: int) -> float:
    """Prints the cost of a replacement pass against a plain evaluation pass."""
    model = prototypes(classes, size, LAPTOP).eval()
    images = batches(6, batch, size, classes)
    entries = [
        Entry(id_, int(label), "train") for item in images for id_, label in zip(item.ids, item.labels, strict=True)
    ]
    replacement = Replacement()
    result = ratios(
        {
            "evaluation": lambda: evaluate(model, classes, images),
            "replacement": lambda: replace_prototypes(model, images, entries, replacement),
        },
        rounds,
        f"training: {10 * classes} prototypes, ",
    )
    print(f"  {len(entries)} images, {10 * classes:4d} prototypes: {result['replacement']:6.3f}", flush=True)
    return result["replacement"]


def main() -> int:
    """Measures and prints; the exit code says whether both limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--quick", action="store_true", help="without the scaling tables")
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    print("training step / the same backbone with a linear classifier")
    step = steps_table(224, 16, arguments.rounds)
    if not arguments.quick:
        for size, batch in ((224, 4), (224, 32), (112, 16), (320, 8)):
            steps_table(size, batch, max(3, arguments.rounds // 3))
    print("replacement / evaluation pass over the same images")
    replacement = max(replacement_table(224, 16, arguments.rounds, classes) for classes in (12, 48))
    print(f"wanted: step at most {STEP_LIMIT}, replacement at most {REPLACEMENT_LIMIT}")
    print(f"reached: {step:.3f} and {replacement:.3f}")
    return 0 if step <= STEP_LIMIT and replacement <= REPLACEMENT_LIMIT else 1


if __name__ == "__main__":
    with reusing_memory():
        raise SystemExit(main())

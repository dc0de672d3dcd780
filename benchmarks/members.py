"""What each member of the family costs: a training step and an explanation, with its paper's own numbers.

    python benchmarks/members.py

The same backbone (resnet18 @ layer3, random weights: the speed does not depend on them), images and optimizer, one
thread, processor time, the contestants in turns. A step is the one of the member's joint stage with all its loss terms
and actions, as a multiple of the step of the same backbone with a linear classifier; an explanation as a multiple of
the forward pass that it contains. Freed memory is used again, as it is in a run (`training/memory.py`).
"""

import argparse
import os
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch
from torch import Tensor, nn

from explaining import images as pictures
from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.explanation import explain
from pixpnet.family import MEMBERS, Member, member_named
from pixpnet.goldilocks.pooled import PooledLinear
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.backbone import WatchedMaps
from pixpnet.parts.losses import loss_of
from pixpnet.settings import Replacement
from pixpnet.training.distances import TrainingDistances
from pixpnet.training.memory import reusing_memory
from pixpnet.training.stages import Epoch, Stage
from pixpnet.training.teaching import Taught, teach
from results import arguments_of
from side_by_side import ratios

# A step with a teacher is more by definition, and is not held to the limit.
STEP_LIMIT, EXPLAIN_LIMIT = 1.15, 1.10
# What some do by definition, in multiply-adds over those of the backbone up to the cut (1.40 billion an image): the
# offset network on 28 x 28 cells of 258 numbers (0.39 billion), and four vectors at each cell against 72 prototypes
# (0.06 billion). On top comes the memory traffic of the interpolation, which is no multiply-add.
FLOORS = {"deformable": 0.32}


def network(member: Member, classes: int, size: int) -> PixPNet:
    """A member with its paper's architecture."""
    torch.manual_seed(0)
    backbone = Backbone(zoo.build("resnet18"), "layer3", (size, size))
    names = [f"class {label}" for label in range(classes)]
    architecture = member.preset("paper").architecture
    return PixPNet(backbone, architecture, names, Preprocessing().scaled_to(size), "resnet18", member.name)


class Learning:
    """As much of a training loop as steps and actions of a stage ask for."""

    taken_from: tuple[str, ...] = ()
    current_epoch = 0
    step_number = 0
    device = torch.device("cpu")
    steps_per_epoch = 100
    helpers: Mapping[str, nn.Module] = {}

    def __init__(self, model: PixPNet, stage: Stage, teacher: PixPNet) -> None:
        self.model, self.epoch, self.teacher = model, Epoch(stage, 0), teacher

    def learns(self, *modules: nn.Module) -> bool:
        """Everything does."""
        return True

    def backbone_maps(self, images: Tensor) -> tuple[Tensor, ...]:
        """What the backbone makes of a batch."""
        return self.model.backbone.maps(images)

    def maps_and_watched(self, images: Tensor) -> WatchedMaps:
        """The same, and the map of the layer that loss terms read."""
        return self.model.backbone.maps_and_watched(images)

    def taught(self, images: Tensor) -> Taught:
        """What a teacher of the same make gives."""
        return teach(self.teacher, images, behind_stem=False)

    def training_distances(self) -> TrainingDistances:
        """Is no part of a step."""
        raise NotImplementedError

    def replace_prototypes(self, replacement: Replacement) -> Mapping[str, float]:
        """Is no part of a step."""
        raise NotImplementedError


def member_step(member: Member, batch: Any, classes: int, size: int) -> Callable[[], None]:
    """A function that does one whole training step of a member's joint stage."""
    model = network(member, classes, size)
    member.ready(model, member.preset("paper"))
    model.train()
    stage = next(stage for stage in member.stages(member.preset("paper")) if stage.name == "joint")
    teacher = network(member, classes, size).eval() if member.taught_by else model
    learner: Any = Learning(model, stage, teacher)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-3)
    for action in stage.before_epoch:
        action(learner)

    def step() -> None:
        loss = loss_of(stage.step(learner, batch), stage.losses).total
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        for action in stage.each_step:
            action(learner)

    return step


def linear_step(batch: Any, classes: int, size: int) -> Callable[[], None]:
    """The same for a linear classifier on pooled features."""
    torch.manual_seed(0)
    model = PooledLinear(Backbone(zoo.build("resnet18"), "layer3", (size, size)), classes).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-3)

    def step() -> None:
        loss = nn.functional.cross_entropy(model(batch.images).logits, batch.labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def explanations(member: Member, classes: int, size: int, rounds: int) -> float:
    """How many forward passes an explanation takes."""
    model = network(member, classes, size).eval()
    samples = pictures(model, 4)
    explain(model, samples[0])
    tensors = [sample.image.as_subclass(Tensor)[None] for sample in samples]

    def forward() -> None:
        with torch.no_grad():
            for image in tensors:
                model(image)

    def explaining() -> None:
        for sample in samples:
            explain(model, sample)

    return ratios({"forward": forward, "explain": explaining}, rounds, f"members: {member.name}, ")["explain"]


def main() -> int:
    """Measures and prints; the exit code says whether both limits hold for all members."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", nargs="+", default=list(MEMBERS), choices=list(MEMBERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--classes", type=int, default=12)
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    size, classes = 224, arguments.classes
    batch = SimpleNamespace(
        images=torch.randn(arguments.batch, 3, size, size), labels=torch.arange(arguments.batch) % classes, ids=()
    )
    steps: dict[str, Callable[[], object]] = {"linear": linear_step(batch, classes, size)}
    members = [member_named(name) for name in arguments.members]
    steps |= {member.name: member_step(member, batch, classes, size) for member in members}
    result = ratios(steps, arguments.rounds, "members: step, ")
    print(f"resnet18 @ layer3, {size} px, batch {arguments.batch}, {classes} classes        step   floor   explain")
    worst = [0.0, 0.0]
    for member in members:
        whole = explanations(member, classes, size, arguments.rounds)
        counted = 0.0 if member.taught_by else result[member.name] - FLOORS.get(member.name, 0.0)
        worst = [max(worst[0], counted), max(worst[1], whole)]
        floor = f"{1 + FLOORS[member.name]:.2f}" if member.name in FLOORS else ""
        print(f"  {member.title:40s} {result[member.name]:18.3f} {floor:>7s} {whole:9.3f}", flush=True)
    if any(member.name in FLOORS for member in members):
        print(
            "floor: with the multiply-adds that a member does by definition, and nothing else; the limit counts from it"
        )
    print(f"wanted: at most {STEP_LIMIT} and {EXPLAIN_LIMIT}, reached: {worst[0]:.3f} and {worst[1]:.3f}")
    return 0 if worst[0] <= STEP_LIMIT and worst[1] <= EXPLAIN_LIMIT else 1


if __name__ == "__main__":
    with reusing_memory():
        raise SystemExit(main())

"""Settings of a small tree, and what its leaves knew in each step of its run."""

from typing import Any

from pixpnet.members.prototree import (
    ProtoTreeArchitecture,
    ProtoTreeConfig,
    Pruning,
    TreeReplacement,
)
from pixpnet.model import PixPNet
from pixpnet.parts import TreeDecision
from pixpnet.settings import Optimization

SETTINGS = ProtoTreeConfig(
    ProtoTreeArchitecture(dim=8, depth=4, cells="normalized"),
    optimization=Optimization(
        epochs=5, warm_up_epochs=1, batch_size=8, views=2, lr_backbone=3e-3, lr_add_on=1e-2, lr_prototypes=1e-2
    ),
    pruning=Pruning(None),
    replacement=TreeReplacement(start=3, every=1, unique="patch"),
)
# What leaves knew when the epoch began and after every step of the run below, with the images of the step.
STEPS: list[dict[str, Any]] = []


def tree_of(model: PixPNet) -> TreeDecision:
    assert isinstance(model.head, TreeDecision)
    return model.head

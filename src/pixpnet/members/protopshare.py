"""ProtoPShare: a trained ProtoPNet whose prototypes are merged in rounds, so that classes share them.

It starts from a run of ProtoPNet (`--start RUN`): backbone, add-on and prototypes are taken over. After each
replacement prototypes that answer alike are merged, and the head learns for 25 epochs. Two are alike by the squared
distance between what they answer to all training images (the smallest distance of each image). A threshold is set so
that a tenth of the prototypes have another one within it; then, in the order of numbers, each takes in all others
within the threshold. The weights of the head are added up, and "own class" means any class of the set from then on: in
the losses, in the L1 and in replacement, which searches the images of all of them (published: of the one with the
lowest number).

Where the published settings leave something open, or ours depart from them:

- Published, the optimizer keeps stale copies of merged parameters, and the epochs of the head after a merge change
  nothing. Here the head learns.
- The head begins at +1 for the own class and **0** for others, as in the published file; the head of the ProtoPNet,
  with its negative weights, would cancel itself in every merge. `--head start` takes it over all the same.
- The share is of the prototypes that are left in each round (published: 200 of 2000 in a round).
- Answers are distances, as in the published code (the paper writes similarities); `--merging.alike vectors` compares
  the prototypes themselves, the published alternative.
- Only prototypes that look at the same grid are merged.
- 50 epochs with rounds after epochs 10, 15, ... as published, of which none is a warm-up, since everything has learnt
  before; rates fall after five whole epochs, the model is chosen on a validation split, and batch statistics stay where
  the backbone does not learn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Member
from pixpnet.members import budgets
from pixpnet.members.classwise import groups_without_head_decay, pretraining_extras
from pixpnet.members.shrinking import merged_groups, shrink
from pixpnet.members.squared import (
    LearningHeadConfig,
    OwnedArchitecture,
    learning_head_stages,
    owned_parts,
    refuse_given_owners,
)
from pixpnet.members.starting import for_photographs
from pixpnet.settings import Frame, Optimization, Replacement

if TYPE_CHECKING:
    from pixpnet.model import PixPNet
    from pixpnet.training.learner import Learner
    from pixpnet.training.other_runs import OtherModels
    from pixpnet.training.stages import Stage


_ROUNDS = Replacement(start=10, every=5, unique="none", assignment="nearest_first", head_epochs=25)


@dataclass(frozen=True)
class ProtoPShareArchitecture(OwnedArchitecture):
    """What stands behind the backbone.

    Attributes:
        other_weight: first weight of a prototype for other classes
    """

    other_weight: float = 0.0


@dataclass(frozen=True)
class Merging:
    """Which prototypes are merged after each replacement.

    Attributes:
        share: of the prototypes that are left, so many have another one within the threshold
        alike: by what two are compared: answers (their distances to all training images) or vectors (themselves)
    """

    share: float = 0.1
    alike: Literal["answers", "vectors"] = "answers"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"the share of prototypes is above 0 and at most 1, got {self.share}: set --merging.share")


@dataclass(frozen=True)
class ProtoPShareConfig(LearningHeadConfig):
    """What a ProtoPShare is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        optimization: optimizer, learning rates and epochs
        replacement: of prototypes by training patches; after each one some are merged
        merging: which prototypes are merged
        head: what the head begins with: weights (own_weight and other_weight), or start (those that were learnt)
    """

    architecture: ProtoPShareArchitecture = field(default_factory=ProtoPShareArchitecture)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(epochs=50, warm_up_epochs=0, batch_size=60, lr_schedule="steps")
    )
    replacement: Replacement = _ROUNDS
    merging: Merging = field(default_factory=Merging)
    head: Literal["weights", "start"] = "weights"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_given_owners(self.architecture)
        if self.optimization.pretraining_epochs:
            raise ValueError("ProtoPShare starts from a trained network: set --pretraining-epochs 0")


def _small(optim: Optimization, frame: Frame | None = None) -> ProtoPShareConfig:
    """Two rounds of two epochs, since everything has learnt before."""
    return ProtoPShareConfig(
        ProtoPShareArchitecture(cells="normalized"),
        optimization=replace(optim, epochs=4, warm_up_epochs=0, pretraining_epochs=0),
        replacement=replace(_ROUNDS, start=2, every=2, head_epochs=4),
        frame=frame,
    )


PRESETS: Mapping[str, ProtoPShareConfig] = for_photographs(
    {
        "paper": ProtoPShareConfig(frame="crop"),
        "laptop": _small(budgets.LAPTOP),
        "scratch": _small(budgets.SCRATCH),
        "frozen": _small(budgets.FROZEN, "stretch"),
        "tail": _small(budgets.TAIL, "stretch"),
    }
)


def begin(model: "PixPNet", config: ProtoPShareConfig, others: "OtherModels") -> None:
    """Takes over add-ons and prototypes of the run that it starts from; its backbone is this network's already."""
    from pixpnet.training.other_runs import refuse_other_architecture

    start = others.start
    assert start is not None
    names = ("dim", "prototypes_per_class", "prototype_rows", "prototype_cols", "epsilon", "cells", "owners")
    refuse_other_architecture("start", start.architecture, model.architecture, names)
    taken = ("add_on", "prototype_layer", *(("head",) if config.head == "start" else ()))
    state = {name: tensor for name, tensor in start.state_dict().items() if name.startswith(taken)}
    model.load_state_dict(state, strict=False)


@dataclass(frozen=True)
class Merge:
    """Prototypes that are alike become one."""

    merging: Merging

    def __call__(self, learner: "Learner") -> Mapping[str, float]:
        """See `Action`."""
        import torch

        model = learner.model
        if self.merging.alike == "answers":
            answers = learner.training_distances().distances.T
        else:
            answers = torch.cat([grid.comparison.prototypes.detach().flatten(1) for grid in model.grids]).cpu()
        grid_of = [grid.number for grid in model.grids for _ in grid.prototypes]
        groups = merged_groups(answers, self.merging.share, grid_of)
        shrink(learner, groups)
        return {"prototypes": float(len(groups))}


def stages(config: ProtoPShareConfig) -> "tuple[Stage, ...]":
    """Joint epochs, replacement and merging, and the head alone, in rounds."""
    return tuple(
        replace(stage, at_end=(*stage.at_end, Merge(config.merging))) if stage.at_end else stage
        for stage in learning_head_stages(config)
    )


MEMBER = Member(
    name="protopshare",
    title="ProtoPShare",
    summary="a trained ProtoPNet (--start RUN) whose prototypes are merged in rounds, so that classes share them",
    config=ProtoPShareConfig,
    architecture=ProtoPShareArchitecture,
    presets=PRESETS,
    parts=owned_parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
    starts_from=("protopnet",),
    begin=begin,
)

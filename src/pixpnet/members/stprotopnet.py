"""ST-ProtoPNet: trivial prototypes far from where classes meet, support prototypes near it, in two branches.

Both branches read one cut; each has an add-on, five prototypes of length 1 a class, and a linear head, and the logits
of the heads are added. Batches take turns: even ones train the trivial branch, odd ones the support branch. The
defaults are those of the published implementation for full images; the preset `crops` has those for cropped ones, and
`support` the support branch alone (`--architecture.branches support`).

| | full images | crops |
|---|---|---|
| add-on | twice as many cells (bilinear), two convolutions | two convolutions, each with a tanh |
| score | max(0, largest cosine) | largest projection; losses read max(0, largest cosine) |
| a patch is chosen | by the cosine | by the projection; either becomes a prototype at length 1 |

Where the published settings leave something open, or ours depart from them:

- Cells are not doubled for VGG: say `--architecture.upsampling 1`. Neither are they in the presets for small budgets,
  whose cuts have 14 x 14 cells already: a cell that is interpolated sees what four cells see.
- What belongs to the branch that has no turn gets no gradient, and Adam leaves it as it is.
- The batch size (80) is ProtoPNet's: not said. The accuracy of a training step is that of the branch in turn.
- Prototypes are scaled to length 1 after every step in which they learn.
- With several cuts, each branch has its prototypes on all of them, and the losses between prototypes are added.
- An epoch of a single batch would never train the second branch: it is refused.
- As for ProtoPNet: the model is chosen on a validation split, prototypes are replaced at the end as well, the backbone
  keeps its batch statistics where it does not learn, and rates fall after whole epochs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Member
from pixpnet.members import budgets
from pixpnet.members.classwise import (
    groups_without_head_decay,
    pretraining_extras,
    refuse_without_head_epochs,
    share_out,
)
from pixpnet.records import refuse_above
from pixpnet.settings import Frame, Optimization, Replacement, below_one, not_negative, positive

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.parts import Comparison, Parts
    from pixpnet.training.learner import Learner
    from pixpnet.training.stages import Rate, Stage

TRIVIAL, SUPPORT = "trivial", "support"
PUBLISHED_REPLACEMENT = Replacement(start=100, every=10, unique="none", assignment="nearest_first", head_epochs=10)


@dataclass(frozen=True)
class STProtoPNetArchitecture:
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding
        prototypes_per_class: how many prototypes each class has in each branch
        branches: both, or one of them alone
        images: what it is made for, full images or crops of the object: decides add-on and score (see above)
        upsampling: how many times as many rows and columns of cells the add-on makes (full images only)
        own_weight: initial weight of a prototype for its own class
        other_weight: initial weight of a prototype for other classes
        cells: what the add-on gets: plain is what the backbone gives (published); normalized shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone
        channel_dropout: share of the backbone's channels that are left out of each cell while learning
    """

    dim: int = 64
    prototypes_per_class: int = 5
    branches: Literal["both", "support", "trivial"] = "both"
    images: Literal["full", "crops"] = "full"
    upsampling: int = 2
    own_weight: float = 1.0
    other_weight: float = -0.5
    cells: Literal["plain", "normalized"] = "plain"
    channel_dropout: float = 0.0

    def __post_init__(self) -> None:
        below_one(self, "channel_dropout")
        positive(self, "dim", "prototypes_per_class", "upsampling")
        refuse_above(self, {"dim": 16384, "prototypes_per_class": 10_000, "upsampling": 16}, "architecture.")

    @property
    def branch_names(self) -> tuple[str, ...]:
        """The branches in the order of their turns."""
        return (TRIVIAL, SUPPORT) if self.branches == "both" else (self.branches,)


@dataclass(frozen=True)
class STProtoPNetLosses:
    """What is added to the cross-entropy.

    Attributes:
        cluster_weight: of minus the largest activation of a prototype of the own class
        separation_trivial: of the largest activation of a trivial prototype of another class
        separation_support: of the largest activation of a support prototype of another class
        off_class_l1: of the absolute weights between prototypes and other classes
        orthonormality: of how far the prototypes of a class are from right angles, in all
        discrimination: of how near the closest trivial prototypes of two classes are, on average
        closeness: of how far apart the farthest support prototypes of two classes are, on average
    """

    cluster_weight: float = 0.8
    separation_trivial: float = 0.08
    separation_support: float = 0.48
    off_class_l1: float = 1e-4
    orthonormality: float = 1e-3
    discrimination: float = 1.0
    closeness: float = 1.0

    def __post_init__(self) -> None:
        not_negative(self, *STProtoPNetLosses.__annotations__)


@dataclass(frozen=True)
class STProtoPNetConfig:
    """What an ST-ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
        optimization: optimizer, learning rates and epochs
        replacement: of prototypes by training patches
        most_steps: after how many steps of the schedule rates stay as they are; 0 for never
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: STProtoPNetArchitecture = field(default_factory=STProtoPNetArchitecture)
    losses: STProtoPNetLosses = field(default_factory=STProtoPNetLosses)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(
            epochs=120,
            warm_up_epochs=10,
            batch_size=80,
            weight_decay=1e-4,
            lr_schedule="steps",
            lr_step_epochs=20,
            lr_step_factor=0.2,
        )
    )
    replacement: Replacement = PUBLISHED_REPLACEMENT
    most_steps: int = 0
    frame: Frame | None = None

    def __post_init__(self) -> None:
        not_negative(self, "most_steps")
        refuse_without_head_epochs(self.replacement, "10 in ST-ProtoPNet")


def _crops() -> STProtoPNetConfig:
    published = STProtoPNetConfig()
    optim = replace(published.optimization, epochs=30, warm_up_epochs=5, weight_decay=5e-4, lr_step_epochs=2)
    return STProtoPNetConfig(
        STProtoPNetArchitecture(images="crops"),
        optimization=optim,
        replacement=replace(published.replacement, start=20),
        most_steps=4,
        frame="crop",
    )


def _small(optim: Optimization, first: int, frame: Frame | None = None) -> STProtoPNetConfig:
    replacement = replace(STProtoPNetConfig().replacement, start=first, every=optim.epochs - first, head_epochs=4)
    architecture = STProtoPNetArchitecture(upsampling=1, cells="normalized")
    return STProtoPNetConfig(architecture, optimization=optim, replacement=replacement, frame=frame)


def _on_kept_features(optim: Optimization, first: int) -> STProtoPNetConfig:
    """Larger weights, smaller batches, prototypes that pull less on each other, and half of the channels at a time.

    A score is at most 1, so with the published weights probabilities hardly differ, and losses between prototypes
    outweigh the cross-entropy; each branch learns from every second batch only; and the same views come again and
    again, which would be learnt by heart (docs/decisions/small-budgets.md).
    """
    small = _small(replace(optim, batch_size=16), first, "stretch")
    architecture = replace(small.architecture, own_weight=5.0, other_weight=-2.5, channel_dropout=0.5)
    return replace(small, architecture=architecture, losses=STProtoPNetLosses(discrimination=0.125, closeness=0.125))


PRESETS: Mapping[str, STProtoPNetConfig] = {
    "paper": STProtoPNetConfig(frame="crop"),
    "crops": _crops(),
    "support": STProtoPNetConfig(STProtoPNetArchitecture(branches="support"), frame="crop"),
    "laptop": _small(budgets.LAPTOP, 8),
    "scratch": _small(budgets.SCRATCH, 8),
    "frozen": _on_kept_features(budgets.FROZEN, 12),
    "tail": _on_kept_features(budgets.TAIL, 8),
}


def parts(architecture: STProtoPNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """For each branch a grid on every cut; heads whose logits are added."""
    import torch

    from pixpnet import parts as made

    shares = share_out(architecture.prototypes_per_class, len(channels))
    grids = [(branch, cut) for branch in architecture.branch_names for cut in range(len(channels))]
    labels = [torch.arange(num_classes).repeat_interleave(shares[cut]) for _, cut in grids]
    ownership = made.OneClassEach(torch.cat(labels), num_classes)
    per_branch = [num_classes * sum(shares)] * len(architecture.branch_names)
    return made.Parts(
        tuple(_add_on(architecture, channels[cut]) for _, cut in grids),
        tuple(_comparison(architecture, shares[cut] * num_classes) for _, cut in grids),
        ownership,
        made.AddedHeads(ownership, per_branch, architecture.own_weight, architecture.other_weight),
        tuple(cut for _, cut in grids),
        tuple(branch for branch, _ in grids),
    )


def _add_on(architecture: STProtoPNetArchitecture, channels: int) -> "nn.Module":
    from torch import nn

    from pixpnet.parts import stacked_add_on

    after = nn.Identity if architecture.images == "full" else nn.Tanh
    layers = stacked_add_on(
        channels, architecture.dim, [after, after], architecture.cells, architecture.channel_dropout
    )
    if architecture.images == "full" and architecture.upsampling > 1:
        layers.insert(0, nn.Upsample(scale_factor=architecture.upsampling, mode="bilinear"))
    return layers


def _comparison(architecture: STProtoPNetArchitecture, prototypes: int) -> "Comparison":
    import torch

    from pixpnet import parts as made

    vectors = torch.rand(prototypes, architecture.dim, 1, 1)
    if architecture.images == "full":
        return made.UnitPatches(vectors, made.Cosine(), made.RectifiedCosine(1.0), made.Nearest())
    return made.ProjectedUnitPatches(vectors, made.Projection(), made.Negated(), made.Nearest())


def refuse_single_batches(learner: "Learner") -> Mapping[str, float]:
    """An action before each epoch: every branch must have its turn.

    Raises:
        ValueError: if an epoch has fewer batches than there are branches.
    """
    branches = len(dict.fromkeys(learner.model.parts.branches))
    if learner.steps_per_epoch < branches:
        raise ValueError(
            f"an epoch has {learner.steps_per_epoch} batch, and {branches} branches take turns from batch to batch: "
            "take smaller batches (--batch-size) or more views (--views)"
        )
    return {}


def stages(config: STProtoPNetConfig) -> "tuple[Stage, ...]":
    """Warm-up, joint, and the heads alone after each replacement; the branches take turns in all of them."""
    from pixpnet.parts.losses import LossTerm, cluster, off_class_l1, separation
    from pixpnet.parts.subspaces import orthonormality
    from pixpnet.parts.support import closeness, discrimination
    from pixpnet.training.actions import keep_in_shape
    from pixpnet.training.stages import schedule_of
    from pixpnet.training.steps import alternating_step
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    losses, optim = config.losses, config.optimization
    terms = [
        CROSS_ENTROPY,
        LossTerm("cluster", losses.cluster_weight, cluster),
        LossTerm("separation_trivial", losses.separation_trivial, separation, TRIVIAL),
        LossTerm("separation_support", losses.separation_support, separation, SUPPORT),
        LossTerm("off_class_l1", losses.off_class_l1, off_class_l1),
        LossTerm("orthonormality", losses.orthonormality, orthonormality),
        LossTerm("discrimination", losses.discrimination, discrimination, TRIVIAL),
        LossTerm("closeness", losses.closeness, closeness, SUPPORT),
    ]
    there = [term for term in terms if not term.branch or term.branch in config.architecture.branch_names]
    rate = schedule_of(optim)

    def complete(stage: "Stage") -> "Stage":
        if "prototypes" in stage.learns:
            stage = replace(stage, each_step=(keep_in_shape,), rate=_bounded(rate, optim, config.most_steps))
        return stage if "pooled" in stage.learns else replace(stage, before_epoch=(refuse_single_batches,))

    usual = usual_stages(optim, config.replacement, there, head_learns=True, step=alternating_step)
    return tuple(map(complete, usual))


def _bounded(rate: "Rate", optim: Optimization, most_steps: int) -> "Rate":
    """A schedule of steps that stops after so many."""
    if not most_steps or optim.lr_schedule != "steps":
        return rate
    last = optim.warm_up_epochs + most_steps * optim.lr_step_epochs
    return lambda time: rate(min(time, last))


MEMBER = Member(
    name="stprotopnet",
    title="ST-ProtoPNet",
    summary="trivial and support prototypes in two branches that take turns; a linear head each, logits are added",
    config=STProtoPNetConfig,
    architecture=STProtoPNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
)

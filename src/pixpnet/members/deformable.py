"""Deformable ProtoPNet: a prototype is four parts, which each image moves to where it has them.

There is no add-on convolution: the backbone's cells, doubled by interpolation, are compared as they are, with six
prototypes a class of four parts each (`parts.deformable`). The head is fixed. The defaults are those of the published
implementation.

Where it is plainly wrong, the right thing is built:

- The penalty of offsets has a gradient (published: computed without one, so it did nothing).
- Parts of all prototypes of a *class* are held at right angles, as the paper says; the published grouping of
  consecutive prototypes of different classes is `--losses.orthogonality-groups as_published`.
- A prototype becomes exactly what was compared: norm-preserving vectors (published: plain bilinear ones).

Where the published settings leave something open, or ours depart from them:

- Which weights of the offset network begin at N(0, 2e-5) is not said: those of its last convolution, standard
  deviation 2e-5; the first has PyTorch's own. Before the joint stage offsets are exactly 0.
- The penalty is the root of the mean squared offset: the published norm over the root of how many numbers there are.
- The gradient of the root in the interpolation is bounded where squares are near 0 (not said); the value is exact.
- Negative numbers have no place in norm-preserving interpolation, so cells are behind a ReLU: where they are normalized
  for small budgets, what is below their mean is cut off.
- The L1 of the fixed head is constant and left out. The batch size (80) is ProtoPNet's: not said.
- With several grids each has an offset network of its own, and a class's prototypes are shared out among them.
- As for ProtoPNet: the model is chosen on a validation split, prototypes are replaced at the end as well, and the
  backbone keeps its batch statistics where it does not learn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Member
from pixpnet.members import budgets
from pixpnet.members.classwise import classwise_parts, pretraining_extras
from pixpnet.records import ADDED_LATER, refuse_above
from pixpnet.settings import Frame, Optimization, Replacement, below_one, not_negative, positive

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.model import PixPNet
    from pixpnet.parts import Parts
    from pixpnet.parts.losses import Step
    from pixpnet.training.features import AnyBatch
    from pixpnet.training.groups import Group
    from pixpnet.training.learner import Learner
    from pixpnet.training.stages import Stage, StepOf

_PUBLISHED_REPLACEMENT = Replacement(start=20, every=10, unique="none", assignment="nearest_first")


@dataclass(frozen=True)
class DeformableArchitecture:
    """What stands behind the backbone.

    Attributes:
        prototypes_per_class: how many prototypes of four parts each class has
        upsampling: how many times as many rows and columns of cells are made by interpolation
        hidden: channels between the two convolutions of the offset network
        deviation: of the first weights of its last convolution
        own_weight: weight of a prototype for its own class
        other_weight: weight of a prototype for other classes
        cells: what is compared: plain is what the backbone gives (published); normalized shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone, and cuts off what is negative
        dim: channels of a convolution of single cells in front of the comparison, with a ReLU; None for no convolution
            (published). A backbone that does not learn needs one, or nothing learns what cells are compared by
        channel_dropout: share of the backbone's channels that are left out of each cell while learning
    """

    prototypes_per_class: int = 6
    upsampling: int = 2
    hidden: int = 128
    deviation: float = 2e-5
    own_weight: float = 1.0
    other_weight: float = -0.5
    cells: Literal["plain", "normalized"] = "plain"
    dim: int | None = field(default=None, metadata=ADDED_LATER)
    channel_dropout: float = field(default=0.0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        positive(self, "prototypes_per_class", "upsampling", "hidden")
        not_negative(self, "deviation")
        below_one(self, "channel_dropout")
        largest = {"prototypes_per_class": 10_000, "upsampling": 16, "hidden": 16384, "dim": 16384}
        refuse_above(self, largest, "architecture.")
        if self.dim is not None and self.dim < 1:
            raise ValueError(f"dim is at least 1, got {self.dim}")


@dataclass(frozen=True)
class DeformableLosses:
    """What is added to the cross-entropy, and how it is made harder.

    Attributes:
        cluster_weight: of minus the largest activation of a prototype of the own class
        separation_weight: of the largest activation of a prototype of another class
        orthogonality: of how far the parts of a class are from right angles, in joint epochs
        orthogonality_groups: which parts: of a class (the paper), or as_published
        offset_penalty: of how far parts are moved, in joint epochs
        margin: the angle by which prototypes of other classes are nearer while learning
    """

    cluster_weight: float = 0.8
    separation_weight: float = 0.08
    orthogonality: float = 0.1
    orthogonality_groups: Literal["class", "as_published"] = "class"
    offset_penalty: float = 0.8
    margin: float = 0.1

    def __post_init__(self) -> None:
        not_negative(self, "cluster_weight", "separation_weight", "orthogonality", "offset_penalty", "margin")


@dataclass(frozen=True)
class DeformableConfig:
    """What a Deformable ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
        optimization: optimizer, learning rates and epochs
        replacement: of prototypes by training patches
        prototype_epochs: of the warm-up, in which prototypes learn alone; the backbone learns in the rest of it
        lr_offsets: learning rate of the offset network, in joint epochs
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: DeformableArchitecture = field(default_factory=DeformableArchitecture)
    losses: DeformableLosses = field(default_factory=DeformableLosses)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(
            epochs=31, warm_up_epochs=10, batch_size=80, lr_schedule="steps", lr_step_epochs=5, lr_step_factor=0.2
        )
    )
    replacement: Replacement = _PUBLISHED_REPLACEMENT
    prototype_epochs: int = 5
    lr_offsets: float = 1e-4
    frame: Frame | None = None

    def __post_init__(self) -> None:
        not_negative(self, "prototype_epochs", "lr_offsets")
        refuse_above(self, {"lr_offsets": 1_000_000}, "")


def _small(optim: Optimization, first: int, frame: Frame | None = None) -> DeformableConfig:
    return DeformableConfig(
        DeformableArchitecture(upsampling=1, cells="normalized"),
        optimization=optim,
        replacement=replace(_PUBLISHED_REPLACEMENT, start=first, every=optim.epochs - first),
        prototype_epochs=optim.warm_up_epochs,
        frame=frame,
    )


def _on_kept_features(optim: Optimization, first: int) -> DeformableConfig:
    """A convolution that learns what cells are compared by, larger weights, no margin and no right angles.

    With the margin, embeddings collapse: it adds most to cosines in the middle and next to nothing near 1, so making
    all cells alike is the cheapest way out. Then answers hang on tiny differences, which replacement does not keep
    (docs/decisions/small-budgets.md).
    """
    small = _small(replace(optim, batch_size=16), first, "stretch")
    return replace(
        small,
        architecture=replace(small.architecture, dim=64, hidden=32, own_weight=5.0, other_weight=-2.5),
        losses=DeformableLosses(orthogonality=0.0, margin=0.0),
        replacement=Replacement(start=first, every=1, unique="image", assignment="nearest_first"),
    )


PRESETS: Mapping[str, DeformableConfig] = {
    "paper": DeformableConfig(frame="crop"),
    "laptop": _small(budgets.LAPTOP, 8),
    "scratch": _small(budgets.SCRATCH, 8),
    "frozen": _on_kept_features(budgets.FROZEN, 12),
    "tail": _on_kept_features(budgets.TAIL, 8),
}


def parts(architecture: DeformableArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """Cells without an add-on of their own, prototypes of four parts that move, and a fixed linear head."""
    import torch
    from torch import nn

    from pixpnet import parts as made

    waiting = [architecture.dim or count for count in channels]

    def add_on(count: int) -> "nn.Module":
        if architecture.dim is None:
            # The published order, and names that model files have.
            normalized = [made.NormalizedCells()] if architecture.cells == "normalized" else []
            layers = nn.Sequential(*normalized, nn.ReLU())
            if architecture.channel_dropout:
                layers.insert(0, nn.Dropout2d(architecture.channel_dropout))
        else:
            layers = made.stacked_add_on(
                count, architecture.dim, [nn.ReLU], architecture.cells, architecture.channel_dropout
            )
        if architecture.upsampling > 1:
            layers.append(nn.Upsample(scale_factor=architecture.upsampling, mode="bilinear"))
        return layers

    def comparison(own: int) -> made.Comparison:
        # Grid by grid: prototypes are as long as the grid has channels.
        prototypes = torch.rand(own * num_classes, waiting.pop(0), 2, 2)
        return made.Deformable(prototypes, architecture.hidden, architecture.deviation)

    return classwise_parts(
        channels,
        architecture.prototypes_per_class,
        num_classes,
        add_on,
        comparison,
        lambda ownership: made.Linear(ownership, architecture.own_weight, architecture.other_weight, learns=False),
    )


def groups(model: "PixPNet", config: DeformableConfig, extras: "Mapping[str, nn.Module]") -> "Mapping[str, Group]":
    """The usual ones, and the offset networks."""
    from pixpnet.training.groups import group, usual_groups

    networks = [
        parameter
        for grid in model.grids
        for name, parameter in grid.comparison.named_parameters()
        if name != "prototypes"
    ]
    return {**usual_groups(model, config.optimization, extras), "offsets": group(networks, config.lr_offsets, 0.0)}


def margin_step(margin: float) -> "StepOf":
    """A step in which prototypes of other classes are nearer by an angle; accuracy is counted without it."""

    def step(learner: "Learner", batch: "AnyBatch") -> "Step":
        from pixpnet.parts.deformable import with_margin
        from pixpnet.parts.matches import matches_of
        from pixpnet.training.steps import plain_step

        plain = plain_step(learner, batch)
        first, grids = 0, []
        for grid in plain.required_matches.grids:
            own = plain.own[:, first : first + grid.scores.shape[1]]
            grids.append(replace(grid, scores=with_margin(grid.scores, grid.distances, own, margin)))
            first += grid.scores.shape[1]
        harder = matches_of(tuple(grids))
        logits = learner.model.head(harder)
        return replace(plain, matches=harder, logits=logits, answers=plain.logits.detach())

    return step


def let_parts_move(learner: "Learner") -> Mapping[str, float]:
    """An action before joint epochs: offsets count from now on."""
    from pixpnet.parts import Deformable

    for grid in learner.model.grids:
        assert isinstance(grid.comparison, Deformable)
        grid.comparison.moving.fill_(1.0)
    return {}


def stages(config: DeformableConfig) -> "tuple[Stage, ...]":
    """Prototypes alone, with the backbone, and jointly with offsets; blocks that end with a replacement."""
    from pixpnet.parts.deformable import offset_penalty, part_orthogonality
    from pixpnet.parts.losses import LossTerm, cluster, separation
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    losses = config.losses
    terms = [
        CROSS_ENTROPY,
        LossTerm("cluster", losses.cluster_weight, cluster),
        LossTerm("separation", losses.separation_weight, separation),
    ]
    orthogonality = partial(part_orthogonality, as_published=losses.orthogonality_groups == "as_published")
    joint = (
        LossTerm("orthogonality", losses.orthogonality, orthogonality),
        LossTerm("offset_penalty", losses.offset_penalty, offset_penalty),
    )
    complete: list[Stage] = []
    for stage in usual_stages(config.optimization, config.replacement, terms, step=margin_step(losses.margin)):
        if stage.name == "joint":
            complete.append(
                replace(
                    stage,
                    learns=stage.learns | {"offsets"},
                    losses=(*stage.losses, *joint),
                    before_epoch=(let_parts_move,),
                )
            )
        elif stage.name == "warm_up":
            complete += _split(stage, config.prototype_epochs)
        else:
            complete.append(stage)
    return tuple(complete)


def _split(stage: "Stage", alone: int) -> "list[Stage]":
    """The warm-up up to an epoch, in which prototypes learn alone, and from there on, with the backbone."""
    epochs = min(stage.epochs, max(0, alone - stage.begins))
    parts = []
    if epochs:
        whole = epochs == stage.epochs
        ends = {} if whole else {"at_end": (), "selectable": "never"}
        parts.append(replace(stage, epochs=epochs, **ends))  # type: ignore[arg-type]
    if epochs < stage.epochs:
        learns = stage.learns | {"backbone"}
        parts.append(
            replace(
                stage, name="with_backbone", epochs=stage.epochs - epochs, begins=stage.begins + epochs, learns=learns
            )
        )
    return parts


MEMBER = Member(
    name="deformable",
    title="Deformable ProtoPNet",
    summary="six prototypes a class, each of four parts that an image moves to where it has them; a fixed head",
    config=DeformableConfig,
    architecture=DeformableArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups,
    stages=stages,
    extras=pretraining_extras,
)

"""TesNet: prototypes are directions, those of a class span a subspace, and patches are projected onto them.

The defaults are those of the published implementation: embeddings of 64 dimensions, ten prototypes of length 1 for each
class; a score is the largest projection of a patch (patches keep their length, so it is not bounded by 1); a linear
head learns after replacement. Cluster and separation losses pull on cosines. Two more losses keep the prototypes of a
class at right angles and the subspaces of classes apart.

Where the published settings leave something open, or ours depart from them:

- Prototypes are scaled to length 1 after every step in which they learn. Published: after steps of the head alone too,
  where that changes no answer; here they stay the very patches that they became.
- One replacement after epoch 10, and another at the end, because the model that a run keeps has patches as prototypes;
  20 epochs of the head behind each. A patch is chosen by its projection, not by the angle.
- With several grids, the prototypes of each grid have subspaces of their own, and the losses of the grids are added.
- As for ProtoPNet: the model is chosen on a validation split, the backbone keeps its batch statistics where it does not
  learn, rates fall after five whole epochs, and cluster and separation do not saturate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Member
from pixpnet.members.classwise import (
    ReplacedConfig,
    classwise_parts,
    groups_without_head_decay,
    presets_with_head,
    pretraining_extras,
    refuse_without_head_epochs,
    unit_projections,
)
from pixpnet.records import refuse_above
from pixpnet.settings import Optimization, below_one, not_negative, positive

if TYPE_CHECKING:
    from pixpnet.parts import Parts
    from pixpnet.training.stages import Stage


@dataclass(frozen=True)
class TesNetArchitecture:
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding
        prototypes_per_class: how many prototypes each class has
        own_weight: initial weight of a prototype for its own class
        other_weight: initial weight of a prototype for other classes
        cells: what the add-on gets: plain is what the backbone gives (published); normalized shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone
        channel_dropout: share of the backbone's channels that are left out of each cell while learning
    """

    dim: int = 64
    prototypes_per_class: int = 10
    own_weight: float = 1.0
    other_weight: float = -0.5
    cells: Literal["plain", "normalized"] = "plain"
    channel_dropout: float = 0.0

    def __post_init__(self) -> None:
        below_one(self, "channel_dropout")
        positive(self, "dim", "prototypes_per_class")
        # The subspaces of classes are compared as matrices of dim x dim.
        refuse_above(self, {"dim": 1024, "prototypes_per_class": 10_000}, "architecture.")


@dataclass(frozen=True)
class TesNetLosses:
    """What is added to the cross-entropy.

    Attributes:
        cluster_weight: of minus the largest cosine of a patch to a prototype of the own class
        separation_weight: of the largest cosine of a patch to a prototype of another class
        off_class_l1: of the absolute weights between prototypes and other classes
        orthonormality: of how far the prototypes of a class are from right angles, in all
        subspace_separation: of minus the distances between the subspaces of classes, in all
    """

    cluster_weight: float = 0.8
    separation_weight: float = 0.08
    off_class_l1: float = 1e-4
    orthonormality: float = 1e-4
    subspace_separation: float = 1e-7

    def __post_init__(self) -> None:
        not_negative(
            self, "cluster_weight", "separation_weight", "off_class_l1", "orthonormality", "subspace_separation"
        )


@dataclass(frozen=True)
class TesNetConfig(ReplacedConfig):
    """What a TesNet is made of and how it is trained."""

    architecture: TesNetArchitecture = field(default_factory=TesNetArchitecture)
    losses: TesNetLosses = field(default_factory=TesNetLosses)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(epochs=20, batch_size=80, lr_schedule="steps")
    )

    def __post_init__(self) -> None:
        refuse_without_head_epochs(self.replacement, "20 in TesNet")


PRESETS: Mapping[str, TesNetConfig] = presets_with_head(TesNetConfig(), TesNetArchitecture(cells="normalized"))


def parts(architecture: TesNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """The regular add-on, projections onto prototypes of length 1, and a linear head."""
    from pixpnet import parts as made

    return classwise_parts(
        channels,
        architecture.prototypes_per_class,
        num_classes,
        lambda count: made.build_add_on(
            count, architecture.dim, "kaiming", architecture.cells, architecture.channel_dropout
        ),
        unit_projections(architecture.dim, num_classes),
        lambda ownership: made.Linear(ownership, architecture.own_weight, architecture.other_weight, learns=True),
    )


def stages(config: TesNetConfig) -> "tuple[Stage, ...]":
    """Warm-up, joint, and the head alone after each replacement; learnt prototypes have length 1."""
    from pixpnet.parts.losses import LossTerm, cluster, off_class_l1, separation
    from pixpnet.parts.subspaces import orthonormality, subspace_separation
    from pixpnet.training.actions import keep_in_shape
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    losses = config.losses
    terms = [
        CROSS_ENTROPY,
        LossTerm("cluster", losses.cluster_weight, cluster),
        LossTerm("separation", losses.separation_weight, separation),
        LossTerm("off_class_l1", losses.off_class_l1, off_class_l1),
        LossTerm("orthonormality", losses.orthonormality, orthonormality),
        LossTerm("subspace_separation", losses.subspace_separation, subspace_separation),
    ]
    usual = usual_stages(config.optimization, config.replacement, terms, head_learns=True)
    in_shape = (keep_in_shape,)
    return tuple(
        # Patches of any length that an earlier stage left are scaled before anything is learnt from them.
        replace(stage, each_step=in_shape, before_epoch=in_shape if number else ())
        if "prototypes" in stage.learns
        else stage
        for number, stage in enumerate(usual)
    )


MEMBER = Member(
    name="tesnet",
    title="TesNet",
    summary="patches are projected onto ten directions a class, which span a subspace of its own; a linear head",
    config=TesNetConfig,
    architecture=TesNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
)

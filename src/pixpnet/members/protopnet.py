"""ProtoPNet: squared distances to ten prototypes a class, and a linear head that learns after each replacement.

The defaults are those of the published implementation (FAMILY: add-on with Kaiming weights before the sigmoid too,
`log((d + 1) / (d + eps))`, cluster and separation losses, L1 on off-class weights). Departures, all deliberate: the
model is chosen on a validation split, the backbone keeps its batch statistics where it does not learn, rates fall after
five whole epochs, prototypes are replaced at the end as well, cluster and separation do not saturate at the largest
possible distance, and there are 50 epochs (published: until stopped by hand).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Member
from pixpnet.members.classwise import (
    PUBLISHED_REPLACEMENT,
    classwise_parts,
    groups_without_head_decay,
    presets_with_head,
    pretraining_extras,
    refuse_without_head_epochs,
)
from pixpnet.records import refuse_above
from pixpnet.settings import Frame, Optimization, Replacement, not_negative, positive

if TYPE_CHECKING:
    from pixpnet.parts import Parts
    from pixpnet.training.stages import Stage


@dataclass(frozen=True)
class ProtoPNetArchitecture:
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding
        prototypes_per_class: how many prototypes each class has
        prototype_rows: height of a prototype in cells
        prototype_cols: width of a prototype in cells
        epsilon: keeps the similarity finite at distance 0
        own_weight: first weight of a prototype for its own class
        other_weight: first weight of a prototype for other classes
        cells: what the add-on gets: plain is what the backbone gives (published); normalised shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone
        channel_dropout: share of the backbone's channels that are left out of each cell while learning
    """

    dim: int = 128
    prototypes_per_class: int = 10
    prototype_rows: int = 1
    prototype_cols: int = 1
    epsilon: float = 1e-4
    own_weight: float = 1.0
    other_weight: float = -0.5
    cells: Literal["plain", "normalized"] = "plain"
    channel_dropout: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.channel_dropout < 1:
            raise ValueError(f"channel_dropout is at least 0 and below 1, got {self.channel_dropout}")
        positive(self, "dim", "prototypes_per_class", "prototype_rows", "prototype_cols", "epsilon")
        largest = {"dim": 16384, "prototypes_per_class": 10_000, "prototype_rows": 1024, "prototype_cols": 1024}
        refuse_above(self, largest, "architecture.")


@dataclass(frozen=True)
class ProtoPNetLosses:
    """What is added to the cross-entropy.

    Attributes:
        cluster_weight: of the smallest distance to a prototype of the own class
        separation_weight: of minus the smallest distance to a prototype of another class
        off_class_l1: of the absolute weights between prototypes and other classes
    """

    cluster_weight: float = 0.8
    separation_weight: float = 0.08
    off_class_l1: float = 1e-4

    def __post_init__(self) -> None:
        not_negative(self, "cluster_weight", "separation_weight", "off_class_l1")


@dataclass(frozen=True)
class ProtoPNetConfig:
    """What a ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: what stands behind the backbone
        losses: what is added to the cross-entropy
        optimization: how it learns
        replacement: when and how prototypes become training patches
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: ProtoPNetArchitecture = field(default_factory=ProtoPNetArchitecture)
    losses: ProtoPNetLosses = field(default_factory=ProtoPNetLosses)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(epochs=50, batch_size=80, lr_schedule="steps")
    )
    replacement: Replacement = PUBLISHED_REPLACEMENT
    frame: Frame | None = None

    def __post_init__(self) -> None:
        refuse_without_head_epochs(self.replacement, "20 in ProtoPNet")


PRESETS: Mapping[str, ProtoPNetConfig] = presets_with_head(ProtoPNetConfig(), ProtoPNetArchitecture(cells="normalized"))


def parts(how: ProtoPNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """The regular add-on, squared distances, the original similarity and a linear head."""
    import torch

    from pixpnet import parts as made

    def comparison(own: int) -> made.Comparison:
        prototypes = torch.rand(own * num_classes, how.dim, how.prototype_rows, how.prototype_cols)
        return made.Comparison(prototypes, made.SquaredL2(), made.Original(how.epsilon), made.Nearest())

    return classwise_parts(
        channels,
        how.prototypes_per_class,
        num_classes,
        lambda count: made.build_add_on(count, how.dim, "kaiming", how.cells, how.channel_dropout),
        comparison,
        lambda ownership: made.Linear(ownership, how.own_weight, how.other_weight, learns=True),
    )


def stages(how: ProtoPNetConfig) -> "tuple[Stage, ...]":
    """Warm-up, joint, and the head alone after each replacement."""
    from pixpnet.parts.losses import LossTerm, cluster, off_class_l1, separation
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    terms = [
        CROSS_ENTROPY,
        LossTerm("cluster", how.losses.cluster_weight, cluster),
        LossTerm("separation", how.losses.separation_weight, separation),
        LossTerm("off_class_l1", how.losses.off_class_l1, off_class_l1),
    ]
    return usual_stages(how.optimization, how.replacement, terms, head_learns=True)


MEMBER = Member(
    name="protopnet",
    title="ProtoPNet",
    summary="squared distances to ten prototypes a class, weighed by a linear head that learns after each replacement",
    config=ProtoPNetConfig,
    architecture=ProtoPNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
)

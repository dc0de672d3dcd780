"""What ProtoPNet and its nearest relatives share: the regular add-on, squared distances, `log((d + 1) / (d + eps))`.

They differ in the size of a prototype, in the head, and in whether prototypes become patches. Like member files, it
imports torch inside functions only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pixpnet.members import budgets
from pixpnet.members.classwise import (
    FIRST_REPLACEMENT,
    PUBLISHED_REPLACEMENT,
    ReplacedConfig,
    Settings,
    classwise_parts,
    refuse_without_head_epochs,
)
from pixpnet.members.starting import centered_deviation
from pixpnet.records import ADDED_LATER, refuse_above
from pixpnet.settings import Frame, Optimization, Replacement, below_one, not_negative, positive

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.parts import Decision, Measure, Ownership, Parts, Similarity
    from pixpnet.parts.losses import LossTerm
    from pixpnet.training.stages import Stage

# For each grid, for each of its prototypes, the classes that it speaks for.
Owners = tuple[tuple[tuple[int, ...], ...], ...]
# Of ProtoPNet; of its relatives no other numbers are known.
PUBLISHED_OPTIMIZATION = Optimization(epochs=50, batch_size=80, lr_schedule="steps")
# Where no head learns, nothing follows a replacement.
WITHOUT_HEAD = replace(PUBLISHED_REPLACEMENT, head_epochs=0)


@dataclass(frozen=True)
class RegularArchitecture:
    """What stands behind the backbone: the regular add-on, and prototypes of one cell.

    Attributes:
        dim: length of an embedding
        prototypes_per_class: how many prototypes each class has
        cells: what the add-on gets: plain is what the backbone gives (published); normalized shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone
        channel_dropout: share of the backbone's channels that are left out of each cell while learning
    """

    dim: int = 128
    prototypes_per_class: int = 10
    cells: Literal["plain", "normalized"] = "plain"
    channel_dropout: float = 0.0

    def __post_init__(self) -> None:
        below_one(self, "channel_dropout")
        positive(self, "dim", "prototypes_per_class")
        refuse_above(self, {"dim": 16384, "prototypes_per_class": 10_000}, "architecture.")

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of a prototype in cells."""
        return 1, 1


@dataclass(frozen=True)
class CellArchitecture(RegularArchitecture):
    """What stands behind the backbone, where the squared distance to one cell counts.

    Attributes:
        epsilon: keeps the similarity finite at distance 0
        start: where learning begins. spread is published: weights of the add-on by Kaiming, prototypes uniform in
            [0, 1), and squared distances of dozens. centered has small weights, so that embeddings of normalized cells
            lie about 0.5, and prototypes drawn likewise: squared distances are about 1, of windows too
    """

    epsilon: float = 1e-4
    start: Literal["spread", "centered"] = field(default="spread", metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "epsilon")


@dataclass(frozen=True)
class WindowArchitecture(CellArchitecture):
    """What stands behind the backbone, where the squared distance is summed over a window of cells.

    Attributes:
        prototype_rows: height of a prototype in cells
        prototype_cols: width of a prototype in cells
    """

    prototype_rows: int = 1
    prototype_cols: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "prototype_rows", "prototype_cols")
        refuse_above(self, {"prototype_rows": 1024, "prototype_cols": 1024}, "architecture.")

    @property
    def kernel(self) -> tuple[int, int]:
        """See `RegularArchitecture`."""
        return self.prototype_rows, self.prototype_cols


@dataclass(frozen=True)
class LearningHeadArchitecture(WindowArchitecture):
    """What stands behind the backbone, where a linear head learns.

    Attributes:
        own_weight: initial weight of a prototype for its own class
        other_weight: initial weight of a prototype for other classes
    """

    own_weight: float = 1.0
    other_weight: float = -0.5


@dataclass(frozen=True)
class OwnedArchitecture(LearningHeadArchitecture):
    """What stands behind the backbone, where some prototypes may be pruned or merged after training.

    Attributes:
        owners: where prototypes were pruned or merged, the classes that each one left speaks for, grid by grid; not
            to be set
    """

    owners: Owners | None = field(default=None, metadata=ADDED_LATER)


@dataclass(frozen=True)
class ClusterLosses:
    """What is added to the cross-entropy.

    Attributes:
        cluster_weight: of the smallest distance to a prototype of the own class
        separation_weight: of minus the smallest distance to a prototype of another class
    """

    cluster_weight: float = 0.8
    separation_weight: float = 0.08

    def __post_init__(self) -> None:
        not_negative(self, "cluster_weight", "separation_weight")


@dataclass(frozen=True)
class HeadLosses(ClusterLosses):
    """What is added to the cross-entropy where a head learns.

    Attributes:
        off_class_l1: of the absolute weights between prototypes and other classes
    """

    off_class_l1: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "off_class_l1")


@dataclass(frozen=True)
class FixedHeadConfig(ReplacedConfig):
    """What a network whose head never learns is made of and how it is trained."""

    architecture: Any = field(default_factory=CellArchitecture)
    losses: ClusterLosses = field(default_factory=ClusterLosses)
    optimization: Optimization = PUBLISHED_OPTIMIZATION
    replacement: Replacement = WITHOUT_HEAD

    def __post_init__(self) -> None:
        if self.replacement.head_epochs:
            raise ValueError(
                "the head never learns, so it has no epochs of its own: leave --replacement.head-epochs at 0"
            )


@dataclass(frozen=True)
class LearningHeadConfig(ReplacedConfig):
    """What a network whose head learns after each replacement is made of and how it is trained."""

    architecture: Any = field(default_factory=LearningHeadArchitecture)
    losses: HeadLosses = field(default_factory=HeadLosses)
    optimization: Optimization = PUBLISHED_OPTIMIZATION

    def __post_init__(self) -> None:
        refuse_without_head_epochs(self.replacement, "20 in ProtoPNet")


def squared_parts(
    architecture: CellArchitecture,
    channels: tuple[int, ...],
    num_classes: int,
    decision: "Callable[[Ownership], Decision]",
    owners: Owners | None = None,
) -> "Parts":
    """The regular add-on, squared distances, the original similarity, and a decision.

    Args:
        architecture: of the layers behind the backbone.
        channels: of the backbone, for each grid.
        num_classes: how many classes there are.
        decision: makes it, from the ownership.
        owners: the classes that each prototype speaks for, where they are not shared out equally.
    """
    from pixpnet import parts as made

    measure, similarity = made.SquaredL2(), made.Original(architecture.epsilon)
    rows, cols = architecture.kernel
    numbers = architecture.dim * rows * cols
    deviation = centered_deviation(numbers) if architecture.start == "centered" else None
    return regular_parts(architecture, channels, num_classes, measure, similarity, decision, owners, deviation)


def regular_parts(
    architecture: RegularArchitecture,
    channels: tuple[int, ...],
    num_classes: int,
    measure: "Measure",
    similarity: "Similarity",
    decision: "Callable[[Ownership], Decision]",
    owners: Owners | None = None,
    deviation: float | None = None,
) -> "Parts":
    """The regular add-on, and prototypes between 0 and 1, of which the nearest patch counts.

    Args:
        architecture: of the layers behind the backbone.
        channels: of the backbone, for each grid.
        num_classes: how many classes there are.
        measure: of patches and prototypes.
        similarity: from the measure.
        decision: makes it, from the ownership.
        owners: the classes that each prototype speaks for, where they are not shared out equally.
        deviation: of embeddings and prototypes from 0.5 at first; None for the published start, Kaiming weights and
            prototypes uniform in [0, 1).

    Raises:
        ValueError: if there are owners of prototypes of other grids.
    """
    import torch

    from pixpnet import parts as made

    def comparison(count: int) -> made.Comparison:
        shape = (count, architecture.dim, *architecture.kernel)
        prototypes = torch.rand(shape) if deviation is None else torch.normal(0.5, deviation, shape)
        return made.Comparison(prototypes, measure, similarity, made.Nearest())

    def add_on(count: int) -> "nn.Module":
        return made.build_add_on(
            count, architecture.dim, "kaiming", architecture.cells, architecture.channel_dropout, deviation
        )

    if owners is None:
        own = architecture.prototypes_per_class
        return classwise_parts(channels, own, num_classes, add_on, lambda own: comparison(own * num_classes), decision)
    if len(owners) != len(channels):
        raise ValueError(f"owners of the prototypes of {len(owners)} grids, and there are {len(channels)}")
    ownership = made.ClassSets([classes for grid in owners for classes in grid], num_classes)
    comparisons = tuple(comparison(len(grid)) for grid in owners)
    return made.Parts(tuple(map(add_on, channels)), comparisons, ownership, decision(ownership))


def learning_head(own_weight: float, other_weight: float) -> "Callable[[Ownership], Decision]":
    """Makes a linear head that learns in epochs of its own."""
    from pixpnet import parts as made

    return lambda ownership: made.Linear(ownership, own_weight, other_weight, learns=True)


def fixed_head(own_weight: float, other_weight: float) -> "Callable[[Ownership], Decision]":
    """Makes a linear head whose weights never change."""
    from pixpnet import parts as made

    return lambda ownership: made.Linear(ownership, own_weight, other_weight, learns=False)


def cluster_terms(losses: ClusterLosses) -> "list[LossTerm]":
    """Cross-entropy, cluster and separation."""
    from pixpnet.parts.losses import LossTerm, cluster, separation
    from pixpnet.training.usual import CROSS_ENTROPY

    return [
        CROSS_ENTROPY,
        LossTerm("cluster", losses.cluster_weight, cluster),
        LossTerm("separation", losses.separation_weight, separation),
    ]


def head_terms(losses: HeadLosses) -> "list[LossTerm]":
    """Those, and the absolute weights between prototypes and other classes, which act where the head learns."""
    from pixpnet.parts.losses import LossTerm, off_class_l1

    return [*cluster_terms(losses), LossTerm("off_class_l1", losses.off_class_l1, off_class_l1)]


def learning_head_parts(architecture: LearningHeadArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """Those of `squared_parts` with a linear head that learns."""
    head = learning_head(architecture.own_weight, architecture.other_weight)
    return squared_parts(architecture, channels, num_classes, head)


def owned_parts(architecture: OwnedArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """Those of `learning_head_parts`, also where prototypes were pruned or merged."""
    head = learning_head(architecture.own_weight, architecture.other_weight)
    return squared_parts(architecture, channels, num_classes, head, architecture.owners)


def refuse_given_owners(architecture: OwnedArchitecture) -> None:
    """Refuses settings that say what only pruning and merging can.

    Raises:
        ValueError: if there are owners.
    """
    if architecture.owners is not None:
        raise ValueError("owners are what pruning or merging leaves: leave --architecture.owners as it is")


def learning_head_stages(config: LearningHeadConfig) -> "tuple[Stage, ...]":
    """Warm-up, joint, and the head alone after each replacement."""
    from pixpnet.training.usual import usual_stages

    return usual_stages(config.optimization, config.replacement, head_terms(config.losses), head_learns=True)


def fixed_head_stages(config: FixedHeadConfig) -> "tuple[Stage, ...]":
    """Warm-up and joint, with replacements."""
    from pixpnet.training.usual import usual_stages

    return usual_stages(config.optimization, config.replacement, cluster_terms(config.losses))


def presets_without_head(published: Settings, small: object) -> Mapping[str, Settings]:
    """The published settings and the small budgets of a member whose head does not learn.

    On small budgets prototypes are first replaced as late as where a head learns, and from then on after every epoch.

    Args:
        published: the member's defaults.
        small: the architecture on small budgets.
    """
    plain: Mapping[str, Any] = presets_without_replacement(published, small)

    def preset(settings: Any, first: int) -> Any:
        return replace(settings, replacement=replace(WITHOUT_HEAD, start=first, every=1))

    return {
        name: settings if name == "paper" else preset(settings, FIRST_REPLACEMENT[name])
        for name, settings in plain.items()
    }


def presets_without_replacement(published: Settings, small: object) -> Mapping[str, Settings]:
    """The published settings and the small budgets of a member whose prototypes never become patches.

    Args:
        published: the member's defaults.
        small: the architecture on small budgets.
    """
    defaults: Any = published
    small_budgets: Mapping[str, tuple[Optimization, Frame | None]] = {
        "laptop": (budgets.LAPTOP, None),
        "scratch": (budgets.SCRATCH, None),
        "frozen": (budgets.FROZEN, "stretch"),
        "tail": (budgets.TAIL, "stretch"),
    }
    return {
        "paper": replace(defaults, frame="crop"),
        **{
            name: replace(defaults, architecture=small, optimization=optim, frame=frame)
            for name, (optim, frame) in small_budgets.items()
        },
    }

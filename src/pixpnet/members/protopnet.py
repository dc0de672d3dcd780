"""ProtoPNet: squared distances to ten prototypes a class, and a linear head that learns after each replacement.

The defaults are those of the published implementation (FAMILY: add-on with Kaiming weights before the sigmoid too,
`log((d + 1) / (d + eps))`, cluster and separation losses, L1 on off-class weights). Departures, all deliberate: the
model is chosen on a validation split, the backbone keeps its batch statistics where it does not learn, rates fall after
five whole epochs, prototypes are replaced at the end as well, cluster and separation do not saturate at the largest
possible distance, and there are 50 epochs (published: until stopped by hand).

Pruning is an option (`--pruning.enabled true`), since the published network is one without: after the last replacement
a prototype goes if fewer than 3 of the 6 training images that come nearest to it are of its class, and the head learns
for 100 epochs. Published: after the last epochs of the head, of which the choice does not depend. A class that would
lose all its prototypes keeps one. With pruning on, only pruned models may be kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, presets_with_head, pretraining_extras
from pixpnet.members.shrinking import pruned_groups, shrink
from pixpnet.members.squared import (
    LearningHeadConfig,
    OwnedArchitecture,
    learning_head_stages,
    owned_parts,
    refuse_given_owners,
)
from pixpnet.members.starting import for_photographs
from pixpnet.records import ADDED_LATER, refuse_above
from pixpnet.settings import positive

if TYPE_CHECKING:
    from pixpnet.training.learner import Learner
    from pixpnet.training.stages import Stage


@dataclass(frozen=True)
class ProtoPNetArchitecture(OwnedArchitecture):
    """What stands behind the backbone."""


@dataclass(frozen=True)
class PrototypePruning:
    """Which prototypes are dropped after the last replacement.

    Attributes:
        enabled: drop any
        nearest: how many of the training images that come nearest to a prototype are looked at
        least_own: how many of them must be of its class
        head_epochs: epochs of the head alone behind it, instead of those after a replacement
    """

    enabled: bool = False
    nearest: int = 6
    least_own: int = 3
    head_epochs: int = 100

    def __post_init__(self) -> None:
        positive(self, "nearest", "least_own", "head_epochs")
        refuse_above(self, {"nearest": 1_000_000, "head_epochs": 100_000}, "pruning.")
        if self.least_own > self.nearest:
            raise ValueError(
                f"of the {self.nearest} nearest images at least {self.least_own} cannot be of one class: lower "
                "--pruning.least-own, or raise --pruning.nearest"
            )


@dataclass(frozen=True)
class ProtoPNetConfig(LearningHeadConfig):
    """What a ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        pruning: which prototypes are dropped after the last replacement
    """

    architecture: ProtoPNetArchitecture = field(default_factory=ProtoPNetArchitecture)
    pruning: PrototypePruning = field(default_factory=PrototypePruning, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_given_owners(self.architecture)


PRESETS: Mapping[str, ProtoPNetConfig] = for_photographs(
    presets_with_head(ProtoPNetConfig(), ProtoPNetArchitecture(cells="normalized"))
)


@dataclass(frozen=True)
class Prune:
    """Prototypes that come nearest to images of other classes go."""

    pruning: PrototypePruning

    def __call__(self, learner: "Learner") -> Mapping[str, float]:
        """See `Action`."""
        model, training = learner.model, learner.training_distances()
        owners = [model.ownership.owners(prototype) for prototype in range(model.num_prototypes)]
        grids = [grid.prototypes for grid in model.grids]
        nearest, least = self.pruning.nearest, self.pruning.least_own
        groups = pruned_groups(training.distances, training.labels, owners, nearest, least, grids)
        shrink(learner, groups)
        return {"prototypes": float(len(groups))}


def stages(config: ProtoPNetConfig) -> "tuple[Stage, ...]":
    """Warm-up, joint, and the head alone after each replacement; after the last one, pruning, where there is any."""
    usual = learning_head_stages(config)
    if not config.pruning.enabled:
        return usual
    *before, joint, head = (replace(stage, selectable="never") for stage in usual)
    joint = replace(joint, at_end=(*joint.at_end, Prune(config.pruning)))
    return (*before, joint, replace(head, epochs=config.pruning.head_epochs, selectable="every epoch"))


MEMBER = Member(
    name="protopnet",
    title="ProtoPNet",
    summary="squared distances to ten prototypes a class, weighed by a linear head that learns after each replacement",
    config=ProtoPNetConfig,
    architecture=ProtoPNetArchitecture,
    presets=PRESETS,
    parts=owned_parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
)

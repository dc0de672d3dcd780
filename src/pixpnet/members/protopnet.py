"""ProtoPNet: squared distances to ten prototypes a class, and a linear head that learns after each replacement.

The defaults are those of the published implementation (FAMILY: add-on with Kaiming weights before the sigmoid too,
`log((d + 1) / (d + eps))`, cluster and separation losses, L1 on off-class weights). Departures, all deliberate: the
model is chosen on a validation split, the backbone keeps its batch statistics where it does not learn, rates fall after
five whole epochs, prototypes are replaced at the end as well, cluster and separation do not saturate at the largest
possible distance, and there are 50 epochs (published: until stopped by hand).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, presets_with_head, pretraining_extras
from pixpnet.members.squared import (
    HeadLosses,
    LearningHeadArchitecture,
    LearningHeadConfig,
    learning_head_parts,
    learning_head_stages,
)


@dataclass(frozen=True)
class ProtoPNetArchitecture(LearningHeadArchitecture):
    """What stands behind the backbone."""


@dataclass(frozen=True)
class ProtoPNetConfig(LearningHeadConfig):
    """What a ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: what stands behind the backbone
        losses: what is added to the cross-entropy
    """

    architecture: ProtoPNetArchitecture = field(default_factory=ProtoPNetArchitecture)
    losses: HeadLosses = field(default_factory=HeadLosses)


PRESETS: Mapping[str, ProtoPNetConfig] = presets_with_head(ProtoPNetConfig(), ProtoPNetArchitecture(cells="normalized"))

MEMBER = Member(
    name="protopnet",
    title="ProtoPNet",
    summary="squared distances to ten prototypes a class, weighed by a linear head that learns after each replacement",
    config=ProtoPNetConfig,
    architecture=ProtoPNetArchitecture,
    presets=PRESETS,
    parts=learning_head_parts,
    groups=groups_without_head_decay,
    stages=learning_head_stages,
    extras=pretraining_extras,
)

"""Gen-ProtoPNet (IEEE Access 2021): ProtoPNet with prototypes of any height and width.

A prototype is a window of cells, square or not; the squared distance is summed over the window, and replacement puts
the nearest window of a training image in its place. Everything else is ProtoPNet's: the head, which learns after each
replacement, and all numbers. No code was published. The paper tries many sizes of windows; 2 x 3 cells is the default
here.
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
from pixpnet.members.starting import for_photographs


@dataclass(frozen=True)
class GenProtoPNetArchitecture(LearningHeadArchitecture):
    """What stands behind the backbone.

    Attributes:
        prototype_rows: height of a prototype in cells
        prototype_cols: width of a prototype in cells
    """

    prototype_rows: int = 2
    prototype_cols: int = 3


@dataclass(frozen=True)
class GenProtoPNetConfig(LearningHeadConfig):
    """What a Gen-ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
    """

    architecture: GenProtoPNetArchitecture = field(default_factory=GenProtoPNetArchitecture)
    losses: HeadLosses = field(default_factory=HeadLosses)


PRESETS: Mapping[str, GenProtoPNetConfig] = for_photographs(
    presets_with_head(GenProtoPNetConfig(), GenProtoPNetArchitecture(cells="normalized"))
)

MEMBER = Member(
    name="genprotopnet",
    title="Gen-ProtoPNet",
    summary="ProtoPNet with prototypes of any height and width: squared distances are summed over windows of cells",
    config=GenProtoPNetConfig,
    architecture=GenProtoPNetArchitecture,
    presets=PRESETS,
    parts=learning_head_parts,
    groups=groups_without_head_decay,
    stages=learning_head_stages,
    extras=pretraining_extras,
)

"""Quasi-ProtoPNet ("Think positive", Neural Networks 2022): positive reasoning only.

Weights between prototypes and other classes are 0 and never learn, those of the own class are 1: the logit of a class
is the sum of the scores of its prototypes, the head that PixPNet has too. A prototype is a window of cells, as in
Gen-ProtoPNet, of any height and width; squared distances are summed over it. No code was published; where the paper
says nothing, ProtoPNet's numbers are taken. It uses many sizes of windows; 2 x 3 cells is the default here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, pretraining_extras
from pixpnet.members.squared import (
    FixedHeadConfig,
    WindowArchitecture,
    fixed_head_stages,
    presets_without_head,
    squared_parts,
)
from pixpnet.members.starting import for_photographs

if TYPE_CHECKING:
    from pixpnet.parts import Parts


@dataclass(frozen=True)
class QuasiProtoPNetArchitecture(WindowArchitecture):
    """What stands behind the backbone.

    Attributes:
        prototype_rows: height of a prototype in cells
        prototype_cols: width of a prototype in cells
    """

    prototype_rows: int = 2
    prototype_cols: int = 3


@dataclass(frozen=True)
class QuasiProtoPNetConfig(FixedHeadConfig):
    """What a Quasi-ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
    """

    architecture: QuasiProtoPNetArchitecture = field(default_factory=QuasiProtoPNetArchitecture)


PRESETS: Mapping[str, QuasiProtoPNetConfig] = for_photographs(
    presets_without_head(QuasiProtoPNetConfig(), QuasiProtoPNetArchitecture(cells="normalized"))
)


def parts(architecture: QuasiProtoPNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """Squared distances to windows of cells, and sums of the scores of each class."""
    from pixpnet.parts import ClassSum

    return squared_parts(architecture, channels, num_classes, ClassSum)


MEMBER = Member(
    name="quasiprotopnet",
    title="Quasi-ProtoPNet",
    summary="squared distances to windows of cells; a class's logit is the sum of its own scores, others do not count",
    config=QuasiProtoPNetConfig,
    architecture=QuasiProtoPNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=fixed_head_stages,
    extras=pretraining_extras,
)

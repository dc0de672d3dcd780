"""NP-ProtoPNet ("These do not look like those", IEEE Access 2021): negative reasoning keeps its full weight.

ProtoPNet with a head that is fixed for good: +1 for the own class, -1 for every other one. So there is no stage of the
head, and a prototype that is found speaks against all other classes as loudly as for its own. No code was published;
where the paper says nothing, ProtoPNet's numbers are taken: embeddings of 128 dimensions, ten prototypes of one cell
for each class, its losses (without the L1, which would be a constant), rates and replacement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, pretraining_extras
from pixpnet.members.squared import (
    CellArchitecture,
    FixedHeadConfig,
    fixed_head,
    fixed_head_stages,
    presets_without_head,
    squared_parts,
)
from pixpnet.members.starting import for_photographs

if TYPE_CHECKING:
    from pixpnet.parts import Parts


@dataclass(frozen=True)
class NPProtoPNetArchitecture(CellArchitecture):
    """What stands behind the backbone."""


@dataclass(frozen=True)
class NPProtoPNetConfig(FixedHeadConfig):
    """What an NP-ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
    """

    architecture: NPProtoPNetArchitecture = field(default_factory=NPProtoPNetArchitecture)


PRESETS: Mapping[str, NPProtoPNetConfig] = for_photographs(
    presets_without_head(NPProtoPNetConfig(), NPProtoPNetArchitecture(cells="normalized"))
)


def parts(architecture: NPProtoPNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """ProtoPNet's, with a head of +1 and -1."""
    return squared_parts(architecture, channels, num_classes, fixed_head(1.0, -1.0))


MEMBER = Member(
    name="npprotopnet",
    title="NP-ProtoPNet",
    summary="squared distances as in ProtoPNet, and a fixed head: +1 for the own class, -1 for every other one",
    config=NPProtoPNetConfig,
    architecture=NPProtoPNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=fixed_head_stages,
    extras=pretraining_extras,
)

"""Ps-ProtoPNet ("Object or background", Diagnostics 2021): windows of cells and a head that never learns.

Gen-ProtoPNet's windows, with more than one cell on both sides, and NP-ProtoPNet's head: +1 for the own class, -1 for
every other one, fixed for good. No code was published; where the paper says nothing, ProtoPNet's numbers are taken. It
tries many sizes of windows; 2 x 2 cells is the default here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, pretraining_extras
from pixpnet.members.squared import (
    FixedHeadConfig,
    WindowArchitecture,
    fixed_head,
    fixed_head_stages,
    presets_without_head,
    squared_parts,
)
from pixpnet.members.starting import for_photographs

if TYPE_CHECKING:
    from pixpnet.parts import Parts


@dataclass(frozen=True)
class PsProtoPNetArchitecture(WindowArchitecture):
    """What stands behind the backbone.

    Attributes:
        prototype_rows: height of a prototype in cells, at least 2
        prototype_cols: width of a prototype in cells, at least 2
    """

    prototype_rows: int = 2
    prototype_cols: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.kernel) < 2:
            rows, cols = self.kernel
            raise ValueError(
                f"a prototype of Ps-ProtoPNet has at least two rows and two columns of cells, got {rows} x {cols}: "
                "raise --architecture.prototype-rows and --architecture.prototype-cols, or train npprotopnet, which "
                "has prototypes of one cell"
            )


@dataclass(frozen=True)
class PsProtoPNetConfig(FixedHeadConfig):
    """What a Ps-ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
    """

    architecture: PsProtoPNetArchitecture = field(default_factory=PsProtoPNetArchitecture)


PRESETS: Mapping[str, PsProtoPNetConfig] = for_photographs(
    presets_without_head(PsProtoPNetConfig(), PsProtoPNetArchitecture(cells="normalized"))
)


def parts(architecture: PsProtoPNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """Squared distances to windows of cells, and a head of +1 and -1."""
    return squared_parts(architecture, channels, num_classes, fixed_head(1.0, -1.0))


MEMBER = Member(
    name="psprotopnet",
    title="Ps-ProtoPNet",
    summary="squared distances to windows of several rows and columns of cells, and a fixed head: +1 own, -1 others",
    config=PsProtoPNetConfig,
    architecture=PsProtoPNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=fixed_head_stages,
    extras=pretraining_extras,
)

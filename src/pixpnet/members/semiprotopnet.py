"""Semi-ProtoPNet (Sensors 2022): windows of cells, a head that keeps its first weights, and no replacement.

The head is not trained, so that its weights stay those that ProtoPNet begins with: +1 for the own class, -0.5 for every
other one. Prototypes are windows of cells, as in Gen-ProtoPNet. That it skips replacement is how the PixPNet paper
reads it: prototypes stay what was learnt, vectors that are no patch of any image. So the audit reports that desideratum
1 fails, explanations call them prototypes that are no training patch, and there are no pictures of them.

No code was published; where the paper says nothing, ProtoPNet's numbers are taken: -0.5 too. It tries many sizes of
windows; 2 x 3 cells is the default here. A model may be kept after every joint epoch, since none is followed by a
replacement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, pretraining_extras
from pixpnet.members.squared import (
    PUBLISHED_OPTIMIZATION,
    ClusterLosses,
    WindowArchitecture,
    cluster_terms,
    fixed_head,
    presets_without_replacement,
    squared_parts,
)
from pixpnet.members.starting import for_photographs
from pixpnet.settings import Frame, Optimization

if TYPE_CHECKING:
    from pixpnet.parts import Parts
    from pixpnet.training.stages import Stage


@dataclass(frozen=True)
class SemiProtoPNetArchitecture(WindowArchitecture):
    """What stands behind the backbone.

    Attributes:
        prototype_rows: height of a prototype in cells
        prototype_cols: width of a prototype in cells
    """

    prototype_rows: int = 2
    prototype_cols: int = 3


@dataclass(frozen=True)
class SemiProtoPNetConfig:
    """What a Semi-ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
        optimization: optimizer, learning rates and epochs
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: SemiProtoPNetArchitecture = field(default_factory=SemiProtoPNetArchitecture)
    losses: ClusterLosses = field(default_factory=ClusterLosses)
    optimization: Optimization = PUBLISHED_OPTIMIZATION
    frame: Frame | None = None


PRESETS: Mapping[str, SemiProtoPNetConfig] = for_photographs(
    presets_without_replacement(SemiProtoPNetConfig(), SemiProtoPNetArchitecture(cells="normalized"))
)


def parts(architecture: SemiProtoPNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """Squared distances to windows of cells, and a head of +1 and -0.5."""
    return squared_parts(architecture, channels, num_classes, fixed_head(1.0, -0.5))


def stages(config: SemiProtoPNetConfig) -> "tuple[Stage, ...]":
    """Warm-up and joint; prototypes never become patches."""
    from pixpnet.training.usual import usual_stages

    return usual_stages(config.optimization, None, cluster_terms(config.losses))


MEMBER = Member(
    name="semiprotopnet",
    title="Semi-ProtoPNet",
    summary="squared distances to windows of cells and a fixed head; prototypes are never replaced by training patches",
    config=SemiProtoPNetConfig,
    architecture=SemiProtoPNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
)

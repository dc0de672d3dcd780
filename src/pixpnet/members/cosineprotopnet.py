"""Cosine ProtoPNet (WACV 2026): ProtoPNet on angles instead of distances.

A score is max(0, cos) / 1.01 of the patch at the smallest angle, and the losses pull on scores: - 0.8 of the largest
score with an own prototype, + 0.08 of the largest with a wrong one. Everything else is ProtoPNet's, with the published
rhythm of ten joint epochs, replacement and twenty epochs of the head.

Departure: published training goes round until two replacements brought nothing before or after them; here there are 50
joint epochs, and which model is kept is decided on the validation split as for every member. The published selection,
among models after replacement and head epochs on a validation split, is the same idea.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, presets_with_head, pretraining_extras
from pixpnet.members.squared import LearningHeadConfig, RegularArchitecture, learning_head, regular_parts
from pixpnet.settings import not_negative, positive

if TYPE_CHECKING:
    from pixpnet.parts import Parts
    from pixpnet.training.stages import Stage


@dataclass(frozen=True)
class CosineProtoPNetArchitecture(RegularArchitecture):
    """What stands behind the backbone.

    Attributes:
        divisor: of the cosine, so that scores stay below 1
        own_weight: first weight of a prototype for its own class
        other_weight: first weight of a prototype for other classes
    """

    divisor: float = 1.01
    own_weight: float = 1.0
    other_weight: float = -0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "divisor")


@dataclass(frozen=True)
class ActivationLosses:
    """What is added to the cross-entropy.

    Attributes:
        own_weight: of minus the largest score with a prototype of the own class
        wrong_weight: of the largest score with a prototype of another class
        off_class_l1: of the absolute weights between prototypes and other classes
    """

    own_weight: float = 0.8
    wrong_weight: float = 0.08
    off_class_l1: float = 1e-4

    def __post_init__(self) -> None:
        not_negative(self, "own_weight", "wrong_weight", "off_class_l1")


@dataclass(frozen=True)
class CosineProtoPNetConfig(LearningHeadConfig):
    """What a Cosine ProtoPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
    """

    architecture: CosineProtoPNetArchitecture = field(default_factory=CosineProtoPNetArchitecture)
    losses: ActivationLosses = field(default_factory=ActivationLosses)  # type: ignore[assignment]


PRESETS: Mapping[str, CosineProtoPNetConfig] = presets_with_head(
    CosineProtoPNetConfig(), CosineProtoPNetArchitecture(cells="normalized")
)


def parts(architecture: CosineProtoPNetArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """The regular add-on, cosines that are not negative, and a linear head that learns."""
    from pixpnet.parts import Cosine, RectifiedCosine

    head = learning_head(architecture.own_weight, architecture.other_weight)
    similarity = RectifiedCosine(architecture.divisor)
    return regular_parts(architecture, channels, num_classes, Cosine(), similarity, head)


def stages(config: CosineProtoPNetConfig) -> "tuple[Stage, ...]":
    """Warm-up, joint, and the head alone after each replacement."""
    from pixpnet.parts.losses import LossTerm, off_class_l1, own_activation, wrong_activation
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    losses = config.losses
    terms = [
        CROSS_ENTROPY,
        LossTerm("own_activation", losses.own_weight, own_activation),
        LossTerm("wrong_activation", losses.wrong_weight, wrong_activation),
        LossTerm("off_class_l1", losses.off_class_l1, off_class_l1),
    ]
    return usual_stages(config.optimization, config.replacement, terms, head_learns=True)


MEMBER = Member(
    name="cosineprotopnet",
    title="Cosine ProtoPNet",
    summary="ProtoPNet on angles: a score is the largest cosine, and losses pull on scores; a linear head learns",
    config=CosineProtoPNetConfig,
    architecture=CosineProtoPNetArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
)

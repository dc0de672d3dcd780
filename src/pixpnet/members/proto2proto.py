"""Proto2Proto: a ProtoPNet that learns from another one, so that its prototypes and matches are the teacher's.

The teacher is a finished run (`--teacher RUN`) of a ProtoPNet with as many prototypes of the same length; its backbone
may be another one. The student's head begins as a copy of the teacher's. In the warm-up only the two transfer losses
count: the distance of each prototype to the teacher's, and squared differences of embeddings at the cells that matter.
Then cross-entropy, cluster (weight 1), separation and L1 come beside them, and the head learns with everything else.

Where the published settings leave something open, or ours depart from them:

- Cells matter where some prototype of the *student* has its nearest match, at a distance below 100: the published
  code. The paper says the teacher's: `--losses.cells-of teacher`.
- 32 epochs with replacements after epochs 12, 22 and 32 (published: an open end). The first epoch with lower rates is
  the 20th, then every fourth.
- Weight decay on backbone and add-on only, as in ProtoPNet.
- With several grids, feature losses are added, and prototypes count together.
- On kept features (`--frozen`), the teacher must have the same frozen layers with the same weights, since it sees
  nothing but those features.
- The model is chosen on a validation split, batch statistics stay where the backbone does not learn, and cluster and
  separation do not saturate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pixpnet.family import Member
from pixpnet.members.classwise import groups_without_head_decay, presets_with_head, pretraining_extras
from pixpnet.members.squared import (
    CellArchitecture,
    HeadLosses,
    LearningHeadConfig,
    head_terms,
    learning_head,
    squared_parts,
)
from pixpnet.members.starting import for_photographs
from pixpnet.records import refuse_above
from pixpnet.settings import Optimization, Replacement, not_negative, positive

if TYPE_CHECKING:
    from pixpnet.model import PixPNet
    from pixpnet.parts import Parts
    from pixpnet.parts.losses import Step
    from pixpnet.training.features import AnyBatch
    from pixpnet.training.learner import Learner
    from pixpnet.training.other_runs import OtherModels
    from pixpnet.training.stages import Stage

_REPLACEMENT = Replacement(start=12, every=10, unique="none", assignment="nearest_first", head_epochs=10)


@dataclass(frozen=True)
class Proto2ProtoArchitecture(CellArchitecture):
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding, the teacher's
    """

    dim: int = 256


@dataclass(frozen=True)
class Proto2ProtoLosses(HeadLosses):
    """What is added to the cross-entropy.

    Attributes:
        cluster_weight: of the smallest distance to a prototype of the own class
        feature_weight: of the squared differences to the teacher's embeddings
        prototype_weight: of the distances to the teacher's prototypes
        threshold: embeddings count at cells that some prototype matches at a smaller distance
        cells_of: whose matches decide which cells these are: student (published) or teacher (the paper)
    """

    cluster_weight: float = 1.0
    feature_weight: float = 10.0
    prototype_weight: float = 10.0
    threshold: float = 100.0
    cells_of: Literal["student", "teacher"] = "student"

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "feature_weight", "prototype_weight")
        positive(self, "threshold")
        if not self.feature_weight + self.prototype_weight:
            raise ValueError(
                "without any transfer loss there is nothing to learn from a teacher: raise --losses.feature-weight or "
                "--losses.prototype-weight, or train protopnet"
            )


@dataclass(frozen=True)
class Proto2ProtoConfig(LearningHeadConfig):
    """What a Proto2Proto student is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
        optimization: optimizer, learning rates and epochs
        replacement: of prototypes by training patches
        first_step: with the schedule steps, after how many epochs the rates are first multiplied by lr_step_factor;
            then every lr_step_epochs
    """

    architecture: Proto2ProtoArchitecture = field(default_factory=Proto2ProtoArchitecture)
    losses: Proto2ProtoLosses = field(default_factory=Proto2ProtoLosses)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(
            epochs=32, warm_up_epochs=6, lr_backbone=2e-4, lr_schedule="steps", lr_step_epochs=4
        )
    )
    replacement: Replacement = _REPLACEMENT
    first_step: int = 19

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "first_step")
        refuse_above(self, {"first_step": 100_000}, "")


# As long as the embeddings of a ProtoPNet on small budgets.
PRESETS: Mapping[str, Proto2ProtoConfig] = for_photographs(
    presets_with_head(Proto2ProtoConfig(), Proto2ProtoArchitecture(dim=128, cells="normalized"))
)


def parts(architecture: Proto2ProtoArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """ProtoPNet's, with prototypes of one cell."""
    return squared_parts(architecture, channels, num_classes, learning_head(1.0, -0.5))


def begin(model: "PixPNet", config: Proto2ProtoConfig, others: "OtherModels") -> None:
    """Looks whether a teacher fits, and copies its head."""
    from pixpnet.training.other_runs import refuse_other_architecture
    from pixpnet.training.run import RunError

    teacher = others.teacher
    assert teacher is not None
    refuse_other_architecture("teacher", teacher.architecture, model.architecture, ("dim", "prototypes_per_class"))
    theirs, ours = ([tuple(grid.comparison.prototypes.shape) for grid in network.grids] for network in (teacher, model))
    if theirs != ours:
        raise RunError(
            f"the teacher's prototypes have the shapes {theirs} (prototypes, dim, rows, columns, for each grid), and "
            f"the student's {ours}: take a teacher with prototypes of one cell that was not pruned, cut at as many "
            "layers (--at)"
        )
    model.head.load_state_dict(teacher.head.state_dict())


def taught_step(learner: "Learner", batch: "AnyBatch") -> "Step":
    """The network's own forward pass, and the teacher's, which learns nothing."""
    from pixpnet.parts.transfer import TaughtStep
    from pixpnet.training.steps import plain_step

    step, taught = plain_step(learner, batch), learner.taught(batch.images)
    return TaughtStep(
        step.logits,
        step.labels,
        step.parts,
        step.matches,
        step.embeddings,
        teacher_embeddings=taught.embeddings,
        teacher_matches=taught.matches,
        teacher_prototypes=tuple(grid.comparison.prototypes for grid in taught.teacher.grids),
    )


def stages(config: Proto2ProtoConfig) -> "tuple[Stage, ...]":
    """A warm-up by transfer alone; then everything learns, the head too; and the head alone after each replacement."""
    from pixpnet.parts.losses import LossTerm
    from pixpnet.parts.transfer import FeatureTransfer, prototype_transfer
    from pixpnet.training.stages import late_steps, schedule_of
    from pixpnet.training.usual import usual_stages

    losses, optim = config.losses, config.optimization
    transfer = (
        LossTerm("feature_transfer", losses.feature_weight, FeatureTransfer(losses.threshold, losses.cells_of)),
        LossTerm("prototype_transfer", losses.prototype_weight, prototype_transfer),
    )
    terms = [*head_terms(losses), *transfer]
    rate = late_steps(optim, config.first_step) if optim.lr_schedule == "steps" else schedule_of(optim)
    usual = usual_stages(optim, config.replacement, terms, head_learns=True, step=taught_step)

    def taught(stage: "Stage") -> "Stage":
        changes: dict[str, Any] = {}
        if stage.name == "warm_up":
            changes = {"losses": transfer, "rate": rate}
        elif stage.name == "joint":
            changes = {"learns": stage.learns | {"head"}, "rate": rate}
        return replace(stage, **changes)

    return tuple(map(taught, usual))


MEMBER = Member(
    name="proto2proto",
    title="Proto2Proto",
    summary="a ProtoPNet that learns its prototypes and matches from another one (--teacher RUN), often a larger one",
    config=Proto2ProtoConfig,
    architecture=Proto2ProtoArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
    taught_by=("protopnet", "proto2proto"),
    begin=begin,
)

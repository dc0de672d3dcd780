"""SDFA-SA: TesNet's projections; deep similarities of cells stay near shallow ones; weights of a class sum to K.

The defaults are those of the published implementation: embeddings of 64 dimensions behind one convolution and a
sigmoid, ten prototypes of length 1 a class, a score is the largest projection of a patch. A class's logit weighs the
scores of its own prototypes by K softmax(w) (`SimplexSum`): at first all weights are 1, and they always sum to K. The
alignment loss (`parts.alignment`) compares the rows of two matrices of cosines between cells.

**Prototypes are never replaced by patches.** So they are directions that nobody can look up in a training image, and an
audit says that desideratum 1 fails.

Where the published settings leave something open, or ours depart from them:

- The weights of the decision learn in the joint epochs only (which is not said), without weight decay.
- The alignment acts in all joint epochs (published: from epoch 5 on, which are the same epochs).
- The shallow layer is ResNet's `layer1`, the last layer before VGG's third pooling (module 17 of VGG-19) or DenseNet's
  first block; of other networks it must be named. Its map is in the loss only: the answer does not depend on it.
- With several grids each is aligned with the same shallow map, and the mean over grids is the loss.
- A backbone that is frozen as a whole cannot be aligned, because nothing of it learns; the preset `frozen` therefore
  has no such term. Where its last stage learns (`tail`), the shallow map is kept with the features.
- As for TesNet: the model is chosen on a validation split (after any joint epoch), the backbone keeps its batch
  statistics where it does not learn, and rates fall after three whole epochs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from pixpnet.family import Member
from pixpnet.members import budgets
from pixpnet.members.classwise import classwise_parts, groups_without_head_decay, pretraining_extras, unit_projections
from pixpnet.members.squared import RegularArchitecture
from pixpnet.settings import Frame, Optimization, not_negative

if TYPE_CHECKING:
    from pixpnet.model import PixPNet
    from pixpnet.parts import Parts
    from pixpnet.training.stages import Stage


@dataclass(frozen=True)
class SDFASAArchitecture(RegularArchitecture):
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding
    """

    dim: int = 64


@dataclass(frozen=True)
class SDFASALosses:
    """What is added to the cross-entropy.

    Attributes:
        cluster_weight: of minus the largest cosine of a patch to a prototype of the own class
        separation_weight: of the largest cosine of a patch to a prototype of another class
        orthonormality: of how far the prototypes of a class are from right angles, in all
        alignment: of how far similarities of cells differ from those of a shallow layer, in joint epochs (0 for none)
        alignment_margin: differences up to this cost nothing
        shallow_layer: a layer in front of the cut; by default the one that suits the backbone
    """

    cluster_weight: float = 0.8
    separation_weight: float = 0.08
    orthonormality: float = 1e-4
    alignment: float = 0.5
    alignment_margin: float = 0.1
    shallow_layer: str = ""

    def __post_init__(self) -> None:
        not_negative(self, "cluster_weight", "separation_weight", "orthonormality", "alignment", "alignment_margin")


@dataclass(frozen=True)
class SDFASAConfig:
    """What an SDFA-SA is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
        optimization: optimizer, learning rates and epochs
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: SDFASAArchitecture = field(default_factory=SDFASAArchitecture)
    losses: SDFASALosses = field(default_factory=SDFASALosses)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(
            epochs=12, batch_size=80, lr_head=1e-6, lr_schedule="steps", lr_step_epochs=3, lr_step_factor=0.2
        )
    )
    frame: Frame | None = None

    def __post_init__(self) -> None:
        if self.optimization.frozen == "all" and self.losses.alignment:
            raise ValueError(
                "nothing of a frozen backbone can be aligned: set --losses.alignment 0, or freeze less (--frozen)"
            )


def _small(optim: Optimization, frame: Frame | None = None) -> SDFASAConfig:
    alignment = 0.0 if optim.frozen == "all" else SDFASALosses.alignment
    # The same views come again and again from kept features, and would be learnt by heart.
    channel_dropout = 0.5 if optim.frozen else 0.0
    return SDFASAConfig(
        SDFASAArchitecture(cells="normalized", channel_dropout=channel_dropout),
        SDFASALosses(alignment=alignment),
        replace(optim, lr_head=SDFASAConfig().optimization.lr_head),
        frame,
    )


PRESETS: Mapping[str, SDFASAConfig] = {
    "paper": SDFASAConfig(frame="crop"),
    "laptop": _small(budgets.LAPTOP),
    "scratch": _small(budgets.SCRATCH),
    "frozen": _small(budgets.FROZEN, "stretch"),
    "tail": _small(budgets.TAIL, "stretch"),
}


def parts(architecture: SDFASAArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """One convolution and a sigmoid, projections onto prototypes of length 1, weights that sum to K."""
    from torch import nn

    from pixpnet import parts as made

    return classwise_parts(
        channels,
        architecture.prototypes_per_class,
        num_classes,
        lambda count: made.stacked_add_on(
            count, architecture.dim, [nn.Sigmoid], architecture.cells, architecture.channel_dropout
        ),
        unit_projections(architecture.dim, num_classes),
        lambda ownership: made.SimplexSum(ownership, start=1.0),
    )


def ready(model: "PixPNet", config: SDFASAConfig) -> None:
    """Watches the shallow layer, and says before any training if its cells cannot be folded to those of the cut."""
    if not config.losses.alignment:
        return
    import torch

    from pixpnet import zoo
    from pixpnet.model.modes import evaluating
    from pixpnet.parts.alignment import fold_ratio

    backbone, side = model.backbone, model.preprocessing.size
    backbone.watch(config.losses.shallow_layer or zoo.shallow_layer(backbone.network), (side, side))
    with evaluating(model):
        maps, watched = backbone.maps_and_watched(torch.zeros(1, 3, side, side, dtype=model.dtype, device=model.device))
    for cells in maps:
        rows, cols = watched.shape[-2:]
        fold_ratio((rows, cols), (cells.shape[-2], cells.shape[-1]))


def stages(config: SDFASAConfig) -> "tuple[Stage, ...]":
    """Warm-up and joint epochs; prototypes keep length 1 and never become patches."""
    from pixpnet.parts.alignment import alignment
    from pixpnet.parts.losses import LossTerm, cluster, separation
    from pixpnet.parts.subspaces import orthonormality
    from pixpnet.training.actions import keep_in_shape
    from pixpnet.training.steps import watching_step
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    losses = config.losses
    terms = [
        CROSS_ENTROPY,
        LossTerm("cluster", losses.cluster_weight, cluster),
        LossTerm("separation", losses.separation_weight, separation),
        LossTerm("orthonormality", losses.orthonormality, orthonormality),
    ]
    aligned = LossTerm("alignment", losses.alignment, partial(alignment, margin=losses.alignment_margin))

    def complete(stage: "Stage") -> "Stage":
        if "prototypes" not in stage.learns:
            return stage
        stage = replace(stage, each_step=(keep_in_shape,))
        if "backbone" not in stage.learns:
            return stage
        stage = replace(stage, learns=stage.learns | {"head"})
        return replace(stage, losses=(*stage.losses, aligned), step=watching_step) if losses.alignment else stage

    return tuple(map(complete, usual_stages(config.optimization, None, terms)))


MEMBER = Member(
    name="sdfasa",
    title="SDFA-SA",
    summary="projections as in TesNet, deep cells aligned with shallow ones, weights of a class sum to K; no patches",
    config=SDFASAConfig,
    architecture=SDFASAArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups_without_head_decay,
    stages=stages,
    extras=pretraining_extras,
    ready=ready,
)

"""PixPNet (the paper): cells that see parts, cosine distances, a class sum, prototypes that are training patches.

The defaults are the paper's (Sec. 4, App. E); where the paper leaves something open or another choice is offered, the
option says so. Presets:

| preset | for |
|---|---|
| `paper` | the paper's budget: 20 epochs of 16 views |
| `laptop` | a few hundred images and a backbone with weights, minutes to an hour |
| `birds` | drawn birds and the small backbone, from random weights: what the demo trains |
| `scratch` | the small backbone and thousands of small pictures, from random weights |
| `photos` | photographs: `frozen`, with a ResNet-18 on windows of 7.7 % of the image; what the README recommends |
| `frozen` | a backbone with good weights that stays as it is, best on windows: minutes, then seconds for another seed |
| `tail` | the same, and the last stage before the cut learns too |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Member
from pixpnet.members import budgets
from pixpnet.members.classwise import classwise_parts
from pixpnet.records import ADDED_LATER, refuse_above
from pixpnet.settings import Frame, Optimization, Replacement, below_one, not_negative, positive

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.model import PixPNet
    from pixpnet.parts import Decision, Ownership, Parts
    from pixpnet.training.groups import Group
    from pixpnet.training.other_runs import OtherModels
    from pixpnet.training.stages import Stage


@dataclass(frozen=True)
class Architecture:
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding, D
        prototypes_per_class: P / C
        prototype_rows: height of a prototype in cells
        prototype_cols: width of a prototype in cells
        distance: how far a patch is from a prototype
        similarity: log(1 / (d + eps) + 1), or the original log((d + 1) / (d + eps))
        epsilon: keeps the similarity finite at distance 0
        head: how scores become logits. class_sum adds the scores of a class; linear learns a weight for each
            score and class; frozen keeps its first weights; own_class learns one weight for each prototype
        own_weight: initial weight of a prototype for its own class, where the head has weights
        other_weight: initial weight of a prototype for other classes, where the head has weights
        add_on: initial weights of the convolution before the sigmoid: xavier (App. K), or kaiming as in ProtoPNet
        cells: what the add-on gets: plain is what the backbone gives (the paper); normalized shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone (not in the paper)
        pooling: which cell speaks for a prototype. max is its nearest one (the paper); distinct gives each prototype
            of a class a cell of its own, the nearest pair first, so that ten reasons are ten places (not in the paper)
        separation: with distinct pooling, how many steps the cells of a class are apart where the image has room
        channel_dropout: share of the backbone's channels that are left out of each cell while learning (not in the
            paper)
        terms_per_class: with the head class_sum, how many prototypes of a class speak in an image: those that score
            best, less their price; by default all of them (the paper)
        field_price: what seeing the whole image would cost a prototype when those that speak are chosen, in similarity.
            At 10, one whose cells see 30 % of the image speaks instead of one of 4 % only where it scores 2.6 more:
            small regions are preferred where they suffice. Needs several grids, and fewer terms than prototypes
    """

    dim: int = 192
    prototypes_per_class: int = 10
    prototype_rows: int = 1
    prototype_cols: int = 1
    distance: Literal["cosine", "squared_l2"] = "cosine"
    similarity: Literal["reformulated", "original"] = "reformulated"
    epsilon: float = 1e-6
    head: Literal["class_sum", "linear", "frozen", "own_class"] = "class_sum"
    own_weight: float = 1.0
    other_weight: float = -0.5
    add_on: Literal["xavier", "kaiming"] = "xavier"
    cells: Literal["plain", "normalized"] = field(default="plain", metadata=ADDED_LATER)
    pooling: Literal["max", "distinct"] = field(default="max", metadata=ADDED_LATER)
    separation: int = field(default=1, metadata=ADDED_LATER)
    channel_dropout: float = field(default=0.0, metadata=ADDED_LATER)
    terms_per_class: int | None = field(default=None, metadata=ADDED_LATER)
    field_price: float = field(default=0.0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        below_one(self, "channel_dropout")
        positive(self, "dim", "prototypes_per_class", "prototype_rows", "prototype_cols", "epsilon", "separation")
        largest = {"dim": 16384, "prototypes_per_class": 10_000, "prototype_rows": 1024, "prototype_cols": 1024}
        refuse_above(self, largest, "architecture.")
        not_negative(self, "field_price")
        if self.terms_per_class is not None:
            if not 1 <= self.terms_per_class <= self.prototypes_per_class:
                raise ValueError(
                    f"of {self.prototypes_per_class} prototypes of a class {self.terms_per_class} cannot speak: choose "
                    "1 to that many (--architecture.terms-per-class)"
                )
            if self.head != "class_sum":
                raise ValueError(
                    f"the head {self.head} weighs all prototypes: --architecture.terms-per-class is for class_sum"
                )
        if self.field_price and self.terms_per_class in (None, self.prototypes_per_class):
            raise ValueError(
                "a price on the size of regions decides which prototypes of a class speak, and here all of them do: "
                "choose fewer (--architecture.terms-per-class) than there are (--architecture.prototypes-per-class)"
            )


@dataclass(frozen=True)
class Losses:
    """What is added to the cross-entropy (Eqs. 2-4).

    Attributes:
        cluster_weight: of the smallest distance to a prototype of the own class
        separation_weight: of minus the smallest distance to a prototype of another class
        off_class_l1: of the absolute weights between prototypes and other classes, where the head learns them
        leave_one_out: compare a training image only with prototypes that were not taken from that very image. It
            would match those by itself, whatever is learnt (not in the paper)
    """

    cluster_weight: float = 0.0
    separation_weight: float = 0.0
    off_class_l1: float = 0.0
    leave_one_out: bool = False

    def __post_init__(self) -> None:
        not_negative(self, "cluster_weight", "separation_weight", "off_class_l1")


@dataclass(frozen=True)
class PixPNetConfig:
    """What a PixPNet is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
        optimization: optimizer, learning rates and epochs
        replacement: of prototypes by training patches
        frame: how a picture becomes a square: crop (the paper: resized and cut out of the middle), stretch (the whole
            picture, its aspect changed) or pad (the whole picture on black); by default what suits the data set

    >>> PixPNetConfig().architecture.dim, PixPNetConfig().losses.cluster_weight
    (192, 0.0)
    """

    architecture: Architecture = field(default_factory=Architecture)
    losses: Losses = field(default_factory=Losses)
    optimization: Optimization = field(default_factory=Optimization)
    replacement: Replacement = field(default_factory=lambda: Replacement(assignment="nearest_first"))
    frame: Frame | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if self.architecture.head in _LEARNING_HEADS and not self.replacement.head_epochs:
            raise ValueError(
                f"the head {self.architecture.head} learns in epochs of its own after each replacement, and there are "
                "none: set --replacement.head-epochs (20 in ProtoPNet), or take the head class_sum or frozen"
            )


# Heads with weights that are learnt, in a stage of their own.
_LEARNING_HEADS = frozenset({"linear", "own_class"})

# What of an architecture decides no answer, and how tensors begin; a run that starts from another may differ in these.
_ONLY_WHILE_LEARNING = frozenset({"channel_dropout", "add_on", "own_weight", "other_weight"})

# A cell sees 7.7 % of the image, 8.4 % at most: as accurate on cub12 as cells that see half of it
# (docs/decisions/windows.md).
_WINDOWS = {
    "backbone": "resnet18",
    "at": "layer4",
    "size": 384,
    "window": 72.0,
    "window_stride": 40.0,
    "window_from": "layer1",
}
# A cell sees 12.1 % of the image.
_SMALL = {"backbone": "small-37", "birds": 3600}
_SMALL_BUDGET_LOSSES = Losses(cluster_weight=0.8, separation_weight=0.08)
# Each prototype of a class has a place of its own in an image. Few images, seen again and again in the same views,
# would be learnt by heart: half of the channels are left out at a time (docs/decisions/windows.md).
_ON_KEPT_FEATURES = Architecture(cells="normalized", pooling="distinct", channel_dropout=0.5)
_FROZEN = PixPNetConfig(
    _ON_KEPT_FEATURES, _SMALL_BUDGET_LOSSES, budgets.FROZEN, Replacement(start=8, every=1), "stretch"
)
# Four views are not told apart from two (docs/decisions/windows.md), and features are nearly all of the time.
_PHOTOS = replace(_FROZEN, optimization=replace(budgets.FROZEN, views=2))
PRESETS: Mapping[str, PixPNetConfig] = {
    "paper": PixPNetConfig(frame="crop"),
    # Prototypes are replaced after every epoch of the second half: the network learns with patches in place, and the
    # last replacement, at rates near 0, moves next to nothing (docs/decisions/small-budgets.md).
    "laptop": PixPNetConfig(
        Architecture(cells="normalized"), _SMALL_BUDGET_LOSSES, budgets.LAPTOP, Replacement(start=6, every=1)
    ),
    "birds": PixPNetConfig(
        Architecture(dim=128, cells="normalized"), _SMALL_BUDGET_LOSSES, budgets.BIRDS, Replacement(start=4, every=2)
    ),
    "scratch": PixPNetConfig(
        Architecture(dim=128, cells="normalized"), _SMALL_BUDGET_LOSSES, budgets.SCRATCH, Replacement(start=5, every=3)
    ),
    "photos": _PHOTOS,
    "frozen": _FROZEN,
    "tail": PixPNetConfig(
        _ON_KEPT_FEATURES, _SMALL_BUDGET_LOSSES, budgets.TAIL, Replacement(start=6, every=1), "stretch"
    ),
}


def parts(architecture: Architecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """Add-on, comparison and head."""
    import torch

    from pixpnet import parts as made

    similarity = {"reformulated": made.Reformulated, "original": made.Original}[architecture.similarity](
        architecture.epsilon
    )
    measure = {"cosine": made.Cosine, "squared_l2": made.SquaredL2}[architecture.distance]()

    def comparison(own: int) -> made.Comparison:
        pooling = made.Distinct(own, architecture.separation) if architecture.pooling == "distinct" else made.Nearest()
        # The embeddings come out of a sigmoid, so this is where prototypes live.
        prototypes = torch.rand(
            own * num_classes, architecture.dim, architecture.prototype_rows, architecture.prototype_cols
        )
        return made.Comparison(prototypes, measure, similarity, pooling)

    heads: dict[str, Callable[[Ownership], Decision]] = {
        "class_sum": (
            made.ClassSum
            if architecture.terms_per_class is None
            else partial(made.SelectedSum, terms=architecture.terms_per_class, field_price=architecture.field_price)
        ),
        "linear": lambda ownership: made.Linear(
            ownership, architecture.own_weight, architecture.other_weight, learns=True
        ),
        "frozen": lambda ownership: made.Linear(
            ownership, architecture.own_weight, architecture.other_weight, learns=False
        ),
        "own_class": lambda ownership: made.OwnClass(ownership, architecture.own_weight),
    }
    return classwise_parts(
        channels,
        architecture.prototypes_per_class,
        num_classes,
        lambda count: made.build_add_on(
            count, architecture.dim, architecture.add_on, architecture.cells, architecture.channel_dropout
        ),
        comparison,
        heads[architecture.head],
    )


def stages(config: PixPNetConfig) -> "tuple[Stage, ...]":
    """The usual ones, with the paper's loss."""
    from pixpnet.parts.losses import LossTerm, cluster, off_class_l1, separation
    from pixpnet.training.steps import leave_one_out_step, plain_step
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    terms = [
        CROSS_ENTROPY,
        LossTerm("cluster", config.losses.cluster_weight, cluster),
        LossTerm("separation", config.losses.separation_weight, separation),
    ]
    if config.losses.off_class_l1 and config.architecture.head in ("linear", "frozen"):
        terms.append(LossTerm("off_class_l1", config.losses.off_class_l1, off_class_l1))
    step = leave_one_out_step if config.losses.leave_one_out else plain_step
    return usual_stages(
        config.optimization, config.replacement, terms, config.architecture.head in _LEARNING_HEADS, step
    )


def groups(model: "PixPNet", config: PixPNetConfig, extras: "Mapping[str, nn.Module]") -> "Mapping[str, Group]":
    """The usual ones."""
    from pixpnet.training.groups import usual_groups

    return usual_groups(model, config.optimization, extras)


def extras(model: "PixPNet", config: PixPNetConfig) -> "Mapping[str, nn.Module]":
    """The classifier of the pretraining; always, because checkpoints of earlier versions hold it in every run."""
    from pixpnet.training.steps import POOLED, pooled_classifier

    return {POOLED: pooled_classifier(model)}


def begin(model: "PixPNet", config: PixPNetConfig, others: "OtherModels") -> None:
    """Goes on with add-ons, prototypes and head of the run that it starts from, where there is one (`--start`).

    Its backbone is this network's already. So a tail can be fine-tuned after a frozen fit, in few epochs.
    """
    from pixpnet.training.other_runs import refuse_other_architecture

    start = others.start
    if start is None:
        return
    names = tuple(field.name for field in fields(Architecture) if field.name not in _ONLY_WHILE_LEARNING)
    refuse_other_architecture("start", start.architecture, model.architecture, names)
    taken = ("add_on", "prototype_layer", "head")
    state = {name: tensor for name, tensor in start.state_dict().items() if name.startswith(taken)}
    model.load_state_dict(state, strict=False)


MEMBER = Member(
    name="pixpnet",
    title="PixPNet",
    summary="cells that see parts, cosine distances, a class sum of ten scores; prototypes are training patches",
    config=PixPNetConfig,
    architecture=Architecture,
    presets=PRESETS,
    parts=parts,
    groups=groups,
    stages=stages,
    extras=extras,
    backbones={"birds": _SMALL, "photos": _WINDOWS},
    may_start_from=("pixpnet",),
    begin=begin,
)

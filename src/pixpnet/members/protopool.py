"""ProtoPool: classes share a pool of prototypes, and each class learns which of them its ten slots hold.

The defaults are those of the published implementation for CUB: a pool of 202, embeddings of 256 dimensions, an add-on
of one convolution, focal scores (the nearest cell against the mean of all), a linear head on the slots of all classes,
mixup, one replacement at the end and 25 epochs of the head behind it.

Where published settings leave something open, or ours depart from them:

- A trained network answers without noise: a slot holds the prototype of its largest logit (`parts.slots`). Validation
  asks that network from the first epoch on, so it lags behind while slots are still soft.
- A prototype that no class holds becomes the nearest patch of any class. (Published: zeros.) Its weights are 0.
- The prototypes that count as an image's own, and the others, are complements, whatever is equal.
- 30 epochs, where the annealing ends. The first epoch that trains is number 1 of the annealing.
- The first weights of the add-on are those of the family's usual one (Kaiming). Batches of 80, as ProtoPNet.
- Small presets have a pool that suits the classes: four prototypes for every ten slots of all classes, and at least
  twice as many as a class has slots. `_small` and `_photographs` say in
  what else they differ.
- Where features of a frozen backbone are kept, mixup mixes those.
- With several grids, the pool is shared out among them, and a slot may hold prototypes of any.
- Absent: rates that fall by 5 % while validation does not improve (rates are functions of time here).
- As for ProtoPNet: the model is chosen on a validation split, the backbone keeps its batch statistics where it does not
  learn, and cluster and separation do not saturate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Member
from pixpnet.members import budgets
from pixpnet.members.classwise import pretraining_extras, share_out
from pixpnet.records import ADDED_LATER, refuse_above
from pixpnet.settings import Frame, Optimization, Replacement, below_one, not_negative, positive

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.model import PixPNet
    from pixpnet.parts import Parts, SlotDecision
    from pixpnet.parts.losses import Step
    from pixpnet.training.features import AnyBatch
    from pixpnet.training.groups import Group
    from pixpnet.training.learner import Learner
    from pixpnet.training.stages import Rate, Stage, StepOf

# Prototypes for each slot, where the pool is as large as suits the classes.
_SHARED = 0.4
# Of embeddings and prototypes where learning begins near the centre of the cube that a sigmoid fills.
_DEVIATION = 0.1
# The head's rate is multiplied by this every so many epochs.
_HEAD_FACTOR, _HEAD_EPOCHS = 0.95, 5


@dataclass(frozen=True)
class ProtoPoolArchitecture:
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding
        prototypes: how many there are in the pool; none for what suits the classes: four for every ten slots of all
            classes, and at least twice as many as a class has slots
        slots: how many prototypes a class holds
        temperature: of the Gumbel softmax by which slots choose while learning
        epsilon: keeps the similarity finite at distance 0
        own_weight: first weight of a slot for its own class
        other_weight: first weight of a slot for other classes
        cells: what the add-on gets: plain is what the backbone gives (published); normalized shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone
        channel_dropout: share of the backbone's channels that are left out of each cell while learning
        start: where learning begins. spread is published: weights of the add-on by Kaiming, prototypes uniform in
            [0, 1), and squared distances of dozens, at which the focal score is flat. centred has small weights, so
            that embeddings lie about 0.5 with a standard deviation of 0.1, and prototypes drawn likewise
    """

    dim: int = 256
    prototypes: int | None = 202
    slots: int = 10
    temperature: float = 0.5
    epsilon: float = 1e-4
    own_weight: float = 1.0
    other_weight: float = 0.0
    cells: Literal["plain", "normalized"] = "plain"
    channel_dropout: float = 0.0
    start: Literal["spread", "centered"] = field(default="spread", metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        below_one(self, "channel_dropout")
        positive(self, "dim", "slots", "temperature", "epsilon")
        refuse_above(self, {"dim": 16384, "slots": 10_000, "prototypes": 1_000_000}, "architecture.")
        if self.prototypes is not None and self.prototypes <= self.slots:
            raise ValueError(
                f"a pool of {self.prototypes} prototypes leaves none beside the {self.slots} that a class holds: "
                "take a larger --architecture.prototypes, or fewer --architecture.slots"
            )

    def pool_size(self, num_classes: int) -> int:
        """How many prototypes there are for so many classes.

        >>> ProtoPoolArchitecture().pool_size(10), ProtoPoolArchitecture(prototypes=None).pool_size(10)
        (202, 40)
        """
        if self.prototypes is not None:
            return self.prototypes
        return max(2 * self.slots, ceil(_SHARED * self.slots * num_classes))


@dataclass(frozen=True)
class ProtoPoolLosses:
    """What the loss is made of.

    Attributes:
        cluster_weight: of the smallest distance to a prototype that the own class holds
        separation_weight: of minus the smallest distance to any other prototype
        off_class_l1: of the absolute weights between classes and slots of others
        orthogonality: of how alike the slots of a class are
        mixup: alpha of the Beta distribution of mixtures of two images; 0 mixes none
    """

    cluster_weight: float = 0.8
    separation_weight: float = 0.08
    off_class_l1: float = 1e-4
    orthogonality: float = 1.0
    mixup: float = 0.5

    def __post_init__(self) -> None:
        not_negative(self, "cluster_weight", "separation_weight", "off_class_l1", "orthogonality", "mixup")


@dataclass(frozen=True)
class Annealing:
    """How slots become sharp: their logits are multiplied by a scale that rises as the root of the epochs.

    Attributes:
        epochs: until the scale is full
        scale: when it is
        head_scale: in the epochs of the head alone, in which slots do not learn
    """

    epochs: int = 30
    scale: float = 1000.0
    head_scale: float = 10_000.0

    def __post_init__(self) -> None:
        positive(self, "epochs", "scale", "head_scale")


@dataclass(frozen=True)
class FinalReplacement:
    """How prototypes become training patches at the end.

    Attributes:
        unique: no two prototypes of the pool from the same image, the same patch, or no such rule (published). With too
            few images they get different patches, with too few patches the nearest ones
        assignment: where there is such a rule: smallest_total chooses the patches with the smallest sum of distances;
            nearest_first lets the nearest pair choose first
        head_epochs: epochs of the head alone after it
        rehearsals: epochs before the last after each of which prototypes become patches too, and learn on as such
            (published: none)
    """

    unique: Literal["image", "patch", "none"] = "none"
    assignment: Literal["smallest_total", "nearest_first"] = "nearest_first"
    head_epochs: int = 25
    rehearsals: int = field(default=0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        positive(self, "head_epochs")
        not_negative(self, "rehearsals")
        refuse_above(self, {"head_epochs": 100_000, "rehearsals": 100_000}, "replacement.")


@dataclass(frozen=True)
class ProtoPoolConfig:
    """What a ProtoPool is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: what the loss is made of
        annealing: how slots become sharp
        optimization: optimizer, learning rates and epochs; slots have the rate of the prototypes
        replacement: how prototypes become training patches
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: ProtoPoolArchitecture = field(default_factory=ProtoPoolArchitecture)
    losses: ProtoPoolLosses = field(default_factory=ProtoPoolLosses)
    annealing: Annealing = field(default_factory=Annealing)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(epochs=30, warm_up_epochs=10, batch_size=80, lr_schedule="steps")
    )
    replacement: FinalReplacement = field(default_factory=FinalReplacement)
    frame: Frame | None = None


def _small(optimization: Optimization) -> ProtoPoolConfig:
    """A pool that suits the classes; slots that are sharp after two thirds of the epochs.

    Prototypes become patches only once, when nothing but the head can still adapt: in a few small epochs it must learn
    faster than published.
    """
    return ProtoPoolConfig(
        ProtoPoolArchitecture(prototypes=None, cells="normalized"),
        annealing=Annealing(epochs=max(1, 2 * optimization.epochs // 3)),
        optimization=replace(optimization, lr_head=3e-3),
        replacement=FinalReplacement(head_epochs=10),
    )


def _photographs(optimization: Optimization, frame: Frame | None = None) -> ProtoPoolConfig:
    """The same, for hundreds of steps on a few hundred photographs (docs/decisions/small-budgets.md).

    Embeddings of 64 dimensions and prototypes begin near the centre, where squared distances are about 1 and the focal
    score tells them apart. Cluster and separation weigh an eighth of what is published, and images are not mixed.
    Prototypes become patches after every epoch of the second half.
    """
    small = _small(optimization)
    return replace(
        small,
        architecture=replace(small.architecture, dim=64, start="centered"),
        losses=ProtoPoolLosses(cluster_weight=0.1, separation_weight=0.01, mixup=0.0),
        replacement=replace(small.replacement, rehearsals=optimization.epochs // 2),
        frame=frame,
    )


PRESETS: Mapping[str, ProtoPoolConfig] = {
    "paper": ProtoPoolConfig(frame="crop"),
    "laptop": _photographs(budgets.LAPTOP),
    "scratch": _small(budgets.SCRATCH),
    "frozen": _photographs(budgets.FROZEN, "stretch"),
    "tail": _photographs(budgets.TAIL, "stretch"),
}


def parts(architecture: ProtoPoolArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """An add-on of one convolution, squared distances to a pool of prototypes, focal scores, and slots."""
    import torch
    from torch import nn

    from pixpnet import parts as made

    similarity = made.Original(architecture.epsilon)
    pool = architecture.pool_size(num_classes)
    centered = architecture.start == "centered"
    add_ons, comparisons = [], []
    for count, share in zip(channels, share_out(pool, len(channels), "--architecture.prototypes"), strict=True):
        layer = nn.Conv2d(count, architecture.dim, kernel_size=1)
        if centered:
            # The slope of the sigmoid at 0 is 1/4, and the channels of a normalised cell have variance 1.
            nn.init.normal_(layer.weight, std=4 * _DEVIATION * count**-0.5)
        else:
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
        add_ons.append(
            made.with_prepared_cells(
                nn.Sequential(layer, nn.Sigmoid()), architecture.cells, architecture.channel_dropout
            )
        )
        shape = (share, architecture.dim, 1, 1)
        prototypes = torch.normal(0.5, _DEVIATION, shape) if centered else torch.rand(shape)
        comparisons.append(made.Comparison(prototypes, made.SquaredL2(), similarity, made.Focal()))
    decision = made.SlotDecision(
        num_classes,
        pool,
        architecture.slots,
        similarity,
        architecture.temperature,
        architecture.own_weight,
        architecture.other_weight,
    )
    return made.Parts(tuple(add_ons), tuple(comparisons), made.SlotOwnership(decision), decision)


@dataclass(frozen=True)
class Anneal:
    """An action before each epoch: slots become sharper."""

    annealing: Annealing

    def __call__(self, learner: "Learner") -> Mapping[str, float]:
        """See `Action`."""
        from pixpnet.parts.slots import annealed

        epoch = learner.epoch.begins + 1
        _slots_of(learner.model).scale = annealed(self.annealing.scale, epoch, self.annealing.epochs)
        return {}


@dataclass(frozen=True)
class Sharpen:
    """An action before each epoch of the head: slots are as good as decided."""

    scale: float

    def __call__(self, learner: "Learner") -> Mapping[str, float]:
        """See `Action`."""
        _slots_of(learner.model).scale = self.scale
        return {}


def mixing_step(alpha: float) -> "StepOf":
    """A step on mixed images; the slots that are drawn for it decide, and say which prototypes are whose own."""

    def step(learner: "Learner", batch: "AnyBatch") -> "Step":
        from pixpnet.parts.losses import Step
        from pixpnet.parts.mixup import mixup
        from pixpnet.parts.slots import own_sets
        from pixpnet.training.steps import compare_images

        model, labels = learner.model, batch.labels
        images, targets = mixup(batch.images, labels, model.num_classes, alpha) if alpha else (batch.images, None)
        embeddings, matches = compare_images(learner, images)
        decision = _slots_of(model)
        mixture = decision.draw()
        logits = decision.mixed(matches, mixture)
        own = own_sets(mixture, labels)  # of a mixture the first label counts
        return Step(logits, labels, model.parts, matches, embeddings, targets, own)

    return step


def stages(config: ProtoPoolConfig) -> "tuple[Stage, ...]":
    """Warm-up and joint epochs in which slots become sharp, one replacement at the end, and then the head alone."""
    from pixpnet.parts.losses import LossTerm, cluster, off_class_l1, separation
    from pixpnet.parts.slots import slot_orthogonality
    from pixpnet.training.usual import CROSS_ENTROPY, usual_stages

    losses, optim, final = config.losses, config.optimization, config.replacement
    l1 = LossTerm("off_class_l1", losses.off_class_l1, off_class_l1)
    terms = [
        CROSS_ENTROPY,
        LossTerm("cluster", losses.cluster_weight, cluster),
        LossTerm("separation", losses.separation_weight, separation),
        l1,
        LossTerm("orthogonality", losses.orthogonality, slot_orthogonality),
    ]
    first = max(1, optim.epochs - final.rehearsals)
    replacement = Replacement(first, 1, final.unique, final.assignment, final.head_epochs)
    usual = usual_stages(optim, replacement, terms, head_learns=True, step=mixing_step(losses.mixup))
    # The head learns behind the last replacement only.
    usual = tuple(stage for stage in usual if "head" not in stage.learns or stage is usual[-1])

    def with_slots(stage: "Stage") -> "Stage":
        if "prototypes" in stage.learns:
            return replace(stage, learns=stage.learns | {"slots"}, before_epoch=(Anneal(config.annealing),))
        if "head" in stage.learns:
            sharp = Sharpen(config.annealing.head_scale)
            return replace(stage, losses=(CROSS_ENTROPY, l1), rate=_head_rate(stage.begins), before_epoch=(sharp,))
        return stage

    return tuple(map(with_slots, usual))


def _head_rate(begins: int) -> "Rate":
    def factor(time: float) -> float:
        share: float = _HEAD_FACTOR ** int((time - begins) // _HEAD_EPOCHS)
        return share

    return factor


def _slots_of(model: "PixPNet") -> "SlotDecision":
    from pixpnet.parts import SlotDecision

    assert isinstance(model.head, SlotDecision)
    return model.head


def groups(model: "PixPNet", config: ProtoPoolConfig, extras: "Mapping[str, nn.Module]") -> "Mapping[str, Group]":
    """The usual ones; slots learn like prototypes, and the weights of the head by themselves."""
    from pixpnet.training.groups import group, usual_groups

    optim, decision = config.optimization, _slots_of(model)
    return {
        **usual_groups(model, optim, extras),
        "slots": group([decision.slots], optim.lr_prototypes, 0.0),
        "head": group([decision.weight], optim.lr_head, optim.weight_decay),
    }


MEMBER = Member(
    name="protopool",
    title="ProtoPool",
    summary="classes share a pool of prototypes and learn which ones their ten slots hold; what stands out counts",
    config=ProtoPoolConfig,
    architecture=ProtoPoolArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups,
    stages=stages,
    extras=pretraining_extras,
)

"""What a member of the family is made of and how it is trained, as plain numbers and names.

A recipe names its parts; `model/` and `training/` look them up. The defaults of the records here are the paper's
hyperparameters (App. E), but for the assignment of patches, where the paper's is that of `PIXPNET`. A new member is a
new line in `RECIPES`, and where it brings a new part (a distance, a head, a loss) one line in the table of that part;
the training loop stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pixpnet.records import ADDED_LATER, refuse_above

_MOST_EPOCHS = 100_000
# Far above what learns, and far below what overflows in 32 bits.
_LARGEST_RATE = 1_000_000


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
        own_weight: first weight of a prototype for its own class, where the head has weights
        other_weight: first weight of a prototype for other classes, where the head has weights
        add_on: first weights of the convolution before the sigmoid: xavier (App. K), or kaiming as in ProtoPNet
        cells: what the add-on gets: plain is what the backbone gives (the paper); normalised shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone (not in the paper)
        pooling: which cell speaks for a prototype. max is its nearest one (the paper); distinct gives each prototype
            of a class a cell of its own, the nearest pair first, so that ten reasons are ten places (not in the paper)
        separation: with distinct pooling, how many steps the cells of a class are apart where the image has room
        channel_dropout: share of the backbone's channels that are left out of each cell while learning (not in the
            paper)
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
    cells: Literal["plain", "normalised"] = field(default="plain", metadata=ADDED_LATER)
    pooling: Literal["max", "distinct"] = field(default="max", metadata=ADDED_LATER)
    separation: int = field(default=1, metadata=ADDED_LATER)
    channel_dropout: float = field(default=0.0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if not 0 <= self.channel_dropout < 1:
            raise ValueError(f"channel_dropout is at least 0 and below 1, got {self.channel_dropout}")
        _positive(self, "dim", "prototypes_per_class", "prototype_rows", "prototype_cols", "epsilon", "separation")
        largest = {"dim": 16384, "prototypes_per_class": 10_000, "prototype_rows": 1024, "prototype_cols": 1024}
        refuse_above(self, largest, "architecture.")


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
        _not_negative(self, "cluster_weight", "separation_weight", "off_class_l1")


@dataclass(frozen=True)
class Optimisation:
    """How the weights are learnt: Adam, in stages.

    Attributes:
        epochs: of the add-on and prototypes, the warm-up included; stages of the head alone come on top
        pretraining_epochs: before all others, in which a backbone with random weights learns to classify with a linear
            layer on the largest value of each channel; the layer is then thrown away (not in the paper)
        warm_up_epochs: at the start, in which the backbone does not change
        batch_size: images in a batch, shared equally by all devices
        views: augmented views of each image in an epoch; by default what suits the data set (16 for photographs)
        backbone_rate: learning rate of the backbone
        add_on_rate: learning rate of the add-on
        prototype_rate: learning rate of the prototypes
        head_rate: learning rate of the head, where it learns
        weight_decay: L2, on everything but the prototypes
        schedule: warm_cosine rises as 1 - exp(-(t + 1) / rise), t in epochs, and falls as a cosine; steps multiplies
            by step_factor every step_epochs after the warm-up; constant does neither
        rise: how many epochs the rise of warm_cosine takes, about
        step_epochs: epochs between two steps
        step_factor: what each step multiplies the rates by
        frozen_statistics: keep the backbone in eval mode: batch statistics stay as they came with its weights
        frozen: what of the backbone never learns, so that its features are computed once for each view and kept: all,
            all_but_last (the last stage before the cut learns), or a layer (everything up to it). Nothing by default.
            `views` are then those that are kept, and each epoch sees them all, and the plain image
    """

    epochs: int = 20
    pretraining_epochs: int = 0
    warm_up_epochs: int = 5
    batch_size: int = 64
    views: int | None = None
    backbone_rate: float = 1e-4
    add_on_rate: float = 3e-3
    prototype_rate: float = 3e-3
    head_rate: float = 1e-4
    weight_decay: float = 1e-3
    schedule: Literal["warm_cosine", "steps", "constant"] = "warm_cosine"
    rise: float = 5.0
    step_epochs: int = 5
    step_factor: float = 0.1
    frozen_statistics: bool = False
    frozen: str = field(default="", metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        _positive(self, "epochs", "batch_size", "rise", "step_epochs", "step_factor")
        epochs = dict.fromkeys(("epochs", "pretraining_epochs", "step_epochs"), _MOST_EPOCHS)
        refuse_above(self, {**epochs, "batch_size": 65536, "views": 10_000}, "optimisation.")
        if self.views is not None and self.views < 1:
            raise ValueError(f"views is at least 1, got {self.views}")
        if self.pretraining_epochs < 0:
            raise ValueError(f"pretraining_epochs is not negative, got {self.pretraining_epochs}")
        if not 0 <= self.warm_up_epochs <= self.epochs:
            raise ValueError(
                f"warm_up_epochs is between 0 and epochs ({self.epochs}), got {self.warm_up_epochs}: set it as well "
                "(--optimisation.warm_up_epochs)"
            )
        rates = ("backbone_rate", "add_on_rate", "prototype_rate", "head_rate", "weight_decay")
        _not_negative(self, *rates)
        refuse_above(self, dict.fromkeys(rates, _LARGEST_RATE), "optimisation.")


@dataclass(frozen=True)
class Replacement:
    """When and how prototypes become patches of training images. It always happens at the end as well.

    Attributes:
        start: the first one comes after this many epochs
        every: epochs from one to the next
        unique: no two prototypes of a class from the same image, the same patch, or no such rule. A class with
            too few images for its prototypes gets different patches, with too few patches the nearest ones
        assignment: smallest_total chooses the patches of a class with the smallest sum of distances;
            nearest_first lets the nearest pair choose first, and the next nearest patch serve duplicates (the paper)
        head_epochs: epochs of the head alone after each replacement, where it learns
    """

    start: int = 4
    every: int = 4
    unique: Literal["image", "patch", "none"] = "image"
    assignment: Literal["smallest_total", "nearest_first"] = "smallest_total"
    head_epochs: int = 0

    def __post_init__(self) -> None:
        _positive(self, "start", "every")
        refuse_above(self, dict.fromkeys(("start", "every", "head_epochs"), _MOST_EPOCHS), "replacement.")
        if self.head_epochs < 0:
            raise ValueError(f"head_epochs is not negative, got {self.head_epochs}")


@dataclass(frozen=True)
class Recipe:
    """A member of the family.

    Attributes:
        architecture: what stands behind the backbone.
        losses: what is added to the cross-entropy.
        optimisation: how it learns.
        replacement: when and how prototypes become training patches.
        frame: how a picture becomes a square (`Preprocessing.frame`); None for what suits the data set.

    >>> Recipe().architecture.dim, Recipe().losses.cluster_weight
    (192, 0.0)
    """

    architecture: Architecture = field(default_factory=Architecture)
    losses: Losses = field(default_factory=Losses)
    optimisation: Optimisation = field(default_factory=Optimisation)
    replacement: Replacement = field(default_factory=Replacement)
    frame: Literal["crop", "stretch", "pad"] | None = None

    def __post_init__(self) -> None:
        if self.optimisation.frozen and self.optimisation.pretraining_epochs:
            raise ValueError("a frozen backbone cannot be pretrained: set --optimisation.pretraining_epochs 0")
        if self.architecture.head in LEARNING_HEADS and not self.replacement.head_epochs:
            raise ValueError(
                f"the head {self.architecture.head} learns in epochs of its own after each replacement, and there are "
                "none: set --replacement.head_epochs (20 in ProtoPNet), or take the head class_sum or frozen"
            )


# Heads with weights that are learnt, in a stage of their own.
KEPT_EPOCH = (
    "the last epoch whose validation accuracy after replacement is within one standard error of the best so far"
)
"""Which model a run keeps, in the words that every display of the choice uses (`training.fitting` decides it)."""
LEARNING_HEADS = frozenset({"linear", "own_class"})


def _not_negative(record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if not value >= 0:
            raise ValueError(f"{name} is not negative, got {value}")


def _positive(record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if not value > 0:
            raise ValueError(f"{name} is above 0, got {value}")


PIXPNET = Recipe(replacement=Replacement(assignment="nearest_first"), frame="crop")

PROTOPNET = Recipe(
    Architecture(dim=128, distance="squared_l2", similarity="original", epsilon=1e-4, head="linear", add_on="kaiming"),
    Losses(cluster_weight=0.8, separation_weight=0.08, off_class_l1=1e-4),
    Optimisation(epochs=50, batch_size=80, schedule="steps"),
    Replacement(start=10, every=10, unique="none", assignment="nearest_first", head_epochs=20),
    frame="crop",
)

# For a laptop and a few hundred images, with a backbone that was trained before. Each cell is normalised by itself, so
# that prototypes tell patterns apart and not contrasts. Small batches make many steps of few images; the backbone
# learns slowly, so that it does not learn the images by heart. From the middle on, prototypes are replaced after every
# epoch: the network learns with patches in place, and the last replacement, at rates near 0, moves next to nothing
# (ARCHITECTURE.md has the measurements).
LAPTOP = Recipe(
    Architecture(cells="normalised"),
    losses=Losses(cluster_weight=0.8, separation_weight=0.08),
    optimisation=Optimisation(epochs=12, warm_up_epochs=2, batch_size=32, views=3, rise=1.0),
    replacement=Replacement(start=6, every=1),
)

# For the small backbone and thousands of small pictures. The embeddings of a random backbone all point the same way, so
# prototypes have nothing to tell apart; a few epochs of plain classification give them something.
SCRATCH = Recipe(
    Architecture(dim=128, cells="normalised"),
    Losses(cluster_weight=0.8, separation_weight=0.08),
    Optimisation(epochs=11, pretraining_epochs=3, warm_up_epochs=0, backbone_rate=3e-3, weight_decay=5e-4, rise=1.0),
    Replacement(start=5, every=3),
)

# For a backbone with good weights that stays as it is, best on windows: its features are computed once for a few views
# of each image and kept, so that an epoch takes seconds. The whole picture is shown. Each prototype of a class has a
# place of its own in an image. Few images, seen again and again in the same views, would be learnt by heart: half of
# the channels are left out at a time (docs/decisions/windows.md has the measurements).
FROZEN = Recipe(
    Architecture(cells="normalised", pooling="distinct", channel_dropout=0.5),
    Losses(cluster_weight=0.8, separation_weight=0.08),
    Optimisation(epochs=16, warm_up_epochs=0, batch_size=32, views=4, rise=1.0, frozen="all"),
    Replacement(start=8, every=1),
    frame="stretch",
)

# The same, and the last stage before the cut learns too, on kept features of what lies before it.
TAIL = replace(
    FROZEN,
    optimisation=replace(
        FROZEN.optimisation, epochs=12, warm_up_epochs=2, frozen="all_but_last", frozen_statistics=True
    ),
    replacement=Replacement(start=6, every=1),
)

RECIPES: Mapping[str, Recipe] = {
    "laptop": LAPTOP,
    "scratch": SCRATCH,
    "pixpnet": PIXPNET,
    "protopnet": PROTOPNET,
    "frozen": FROZEN,
    "tail": TAIL,
}

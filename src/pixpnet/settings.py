"""What the configurations of all members share: how weights are learnt, and how prototypes become patches.

Plain numbers and names, without torch: the command line reads them for `--help`. A member's own configuration
(`pixpnet.members`) holds these records beside those of its own parts, with its paper's numbers as defaults.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from pixpnet.records import ADDED_LATER, refuse_above


def kept_epoch(replaced: bool | None = None) -> str:
    """Which model a run keeps, in the words that every display of the choice uses (`training.selection` decides it).

    Args:
        replaced: whether prototypes were replaced by training patches; None where that is not known yet.

    >>> kept_epoch(False)
    'the last epoch whose validation accuracy is within one standard error of the best so far'
    """
    after = {True: " after replacement", False: "", None: " (after replacement, where there is one)"}[replaced]
    return f"the last epoch whose validation accuracy{after} is within one standard error of the best so far"


Frame = Literal["crop", "stretch", "pad"]
_MOST_EPOCHS = 100_000
# Far above what learns, and far below what overflows in 32 bits.
_LARGEST_RATE = 1_000_000


@dataclass(frozen=True)
class Optimization:
    """How the weights are learnt, in stages.

    Attributes:
        epochs: of the add-on and prototypes, the warm-up included; stages of the head alone come on top
        pretraining_epochs: before all others, in which a backbone with random weights learns to classify with a linear
            layer on the largest values of each channel; the layer is then thrown away (not in the paper)
        pretraining_cells: how many cells those values are the mean of, channel by channel. One is how a prototype reads
            a map; several teach more cells at a time, and the first epochs go faster
        warm_up_epochs: at the start, in which the backbone does not change
        batch_size: images in a batch, shared equally by all devices
        views: augmented views of each image in an epoch; by default what suits the data set (16 for photographs)
        lr_backbone: learning rate of the backbone
        lr_add_on: learning rate of the add-on
        lr_prototypes: learning rate of the prototypes
        lr_head: learning rate of the head, where it learns
        weight_decay: L2, on the backbone, the add-on and, with most members, the head; never on prototypes
        lr_schedule: warm_cosine rises as 1 - exp(-(t + 1) / lr_rise), t in epochs, and falls as a cosine; steps
            multiplies by lr_step_factor every lr_step_epochs after the warm-up; constant does neither
        lr_rise: how many epochs the rise of warm_cosine takes, about
        lr_step_epochs: epochs between two steps
        lr_step_factor: what each step multiplies the rates by
        frozen_statistics: keep the backbone in eval mode: batch statistics stay as they came with its weights
        frozen: what of the backbone never learns, so that its features are computed once for each view and kept: all,
            all_but_last (the last stage before the cut learns), or a layer (everything up to it). Nothing by default.
            `views` are then those that are kept, and each epoch sees them all, and the plain image
        windows_at_once: with windows and a backbone that learns, through how many windows gradients flow at a time;
            the others are computed again when their turn comes: less memory, and another forward pass. All by default
    """

    epochs: int = 20
    pretraining_epochs: int = 0
    warm_up_epochs: int = 5
    batch_size: int = 64
    views: int | None = None
    lr_backbone: float = 1e-4
    lr_add_on: float = 3e-3
    lr_prototypes: float = 3e-3
    lr_head: float = 1e-4
    weight_decay: float = 1e-3
    lr_schedule: Literal["warm_cosine", "steps", "constant"] = "warm_cosine"
    lr_rise: float = 5.0
    lr_step_epochs: int = 5
    lr_step_factor: float = 0.1
    frozen_statistics: bool = False
    frozen: str = field(default="", metadata=ADDED_LATER)
    pretraining_cells: int = field(default=1, metadata=ADDED_LATER)
    windows_at_once: int | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        positive(self, "epochs", "batch_size", "pretraining_cells", "lr_rise", "lr_step_epochs", "lr_step_factor")
        epochs = dict.fromkeys(("epochs", "pretraining_epochs", "lr_step_epochs"), _MOST_EPOCHS)
        most = {"batch_size": 65536, "views": 10_000, "pretraining_cells": 2**24}
        refuse_above(self, epochs | most, "optimization.")
        if self.windows_at_once is not None and self.windows_at_once < 1:
            raise ValueError(f"windows_at_once is at least 1, got {self.windows_at_once}")
        if self.views is not None and self.views < 1:
            raise ValueError(f"views is at least 1, got {self.views}")
        if self.pretraining_epochs < 0:
            raise ValueError(f"pretraining_epochs is not negative, got {self.pretraining_epochs}")
        if not 0 <= self.warm_up_epochs <= self.epochs:
            raise ValueError(
                f"warm_up_epochs is between 0 and epochs ({self.epochs}), got {self.warm_up_epochs}: set it as well "
                "(--warm-up-epochs)"
            )
        rates = ("lr_backbone", "lr_add_on", "lr_prototypes", "lr_head", "weight_decay")
        not_negative(self, *rates)
        refuse_above(self, dict.fromkeys(rates, _LARGEST_RATE), "optimization.")
        if self.frozen and self.pretraining_epochs:
            raise ValueError("a frozen backbone cannot be pretrained: set --pretraining-epochs 0")


@dataclass(frozen=True)
class Replacement:
    """When and how prototypes become patches of training images. It always happens at the end as well.

    Attributes:
        start: epochs before the first replacement
        every: epochs between two replacements
        unique: no two prototypes of a class (in one grid) from the same image, the same patch, or no such rule. A class
            with too few images for its prototypes gets different patches, with too few patches the nearest ones
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
        positive(self, "start", "every")
        refuse_above(self, dict.fromkeys(("start", "every", "head_epochs"), _MOST_EPOCHS), "replacement.")
        if self.head_epochs < 0:
            raise ValueError(f"head_epochs is not negative, got {self.head_epochs}")


@runtime_checkable
class MemberSettings(Protocol):
    """What every member's configuration has, whatever else is in it: a frozen dataclass of records and numbers."""

    @property
    def architecture(self) -> Any:
        """What stands behind the backbone: a frozen dataclass of the member's own, which its model files repeat."""

    @property
    def optimization(self) -> Optimization:
        """How the weights are learnt."""

    @property
    def frame(self) -> Frame | None:
        """How a picture becomes a square (`Preprocessing.frame`); None for what suits the data set."""


def not_negative(record: object, *names: str) -> None:
    """Refuses numbers below 0.

    Raises:
        ValueError: with the name and what came.
    """
    for name in names:
        value = getattr(record, name)
        if not value >= 0:
            raise ValueError(f"{name} is not negative, got {value}")


def below_one(record: object, *names: str) -> None:
    """Refuses shares that are not at least 0 and below 1.

    Raises:
        ValueError: with the name and what came.
    """
    for name in names:
        value = getattr(record, name)
        if not 0 <= value < 1:
            raise ValueError(f"{name} is at least 0 and below 1, got {value}")


def positive(record: object, *names: str) -> None:
    """Refuses numbers that are not above 0.

    Raises:
        ValueError: with the name and what came.
    """
    for name in names:
        value = getattr(record, name)
        if not value > 0:
            raise ValueError(f"{name} is above 0, got {value}")

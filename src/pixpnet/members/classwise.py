"""What members have in common whose prototypes each belong to one class; and those whose head learns after replacement.

Like member files, it imports torch inside functions only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pixpnet.members import budgets
from pixpnet.settings import Frame, MemberSettings, Optimization, Replacement

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.model import PixPNet
    from pixpnet.parts import Comparison, Decision, Ownership, Parts
    from pixpnet.training.groups import Group

Settings = TypeVar("Settings", bound=MemberSettings)

# Of ProtoPNet and TesNet: any patch of the class, whoever else takes it, and then the head learns.
PUBLISHED_REPLACEMENT = Replacement(start=10, every=10, unique="none", assignment="nearest_first", head_epochs=20)

# On small budgets: after how many epochs prototypes first become patches.
FIRST_REPLACEMENT: Mapping[str, int] = {"laptop": 8, "scratch": 8, "frozen": 12, "tail": 8}


@dataclass(frozen=True)
class ReplacedConfig:
    """What a network whose prototypes become training patches is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        losses: auxiliary losses beside the cross-entropy
        optimization: optimizer, learning rates and epochs
        replacement: of prototypes by training patches
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: Any
    losses: Any
    optimization: Optimization = field(default_factory=Optimization)
    replacement: Replacement = PUBLISHED_REPLACEMENT
    frame: Frame | None = None


def unit_projections(dim: int, num_classes: int) -> "Callable[[int], Comparison]":
    """Makes the comparison of a grid in which cells are projected onto prototypes of length 1 (TesNet's)."""
    import torch

    from pixpnet import parts as made

    def comparison(own: int) -> made.Comparison:
        # Published: of any length until the first step of the optimizer.
        prototypes = torch.rand(own * num_classes, dim, 1, 1)
        return made.UnitPrototypes(prototypes, made.Projection(), made.Negated(), made.Nearest())

    return comparison


def classwise_parts(
    channels: tuple[int, ...],
    prototypes_per_class: int,
    num_classes: int,
    add_on: "Callable[[int], nn.Module]",
    comparison: "Callable[[int], Comparison]",
    decision: "Callable[[Ownership], Decision]",
) -> "Parts":
    """Parts of a network in which every prototype speaks for one class; a class's are shared out among the grids.

    Args:
        channels: of the backbone, for each grid.
        prototypes_per_class: in all grids together.
        num_classes: how many classes there are.
        add_on: makes that of a grid, from its channels.
        comparison: makes that of a grid, from how many prototypes of each class look at it; those of a class stand
            side by side.
        decision: makes it, from the ownership.
    """
    import torch

    from pixpnet.parts import OneClassEach, Parts

    add_ons, comparisons, labels = [], [], []
    for count, own in zip(channels, share_out(prototypes_per_class, len(channels)), strict=True):
        add_ons.append(add_on(count))
        comparisons.append(comparison(own))
        labels.append(torch.arange(num_classes).repeat_interleave(own))
    ownership = OneClassEach(torch.cat(labels), num_classes)
    return Parts(tuple(add_ons), tuple(comparisons), ownership, decision(ownership))


def share_out(prototypes: int, grids: int, option: str = "--architecture.prototypes-per-class") -> tuple[int, ...]:
    """How many of some prototypes look at each grid; the first grids get what is left over.

    Args:
        prototypes: of a class, or of a pool.
        grids: how many grids there are.
        option: what says how many prototypes there are.

    Raises:
        ValueError: if there are fewer prototypes than grids.

    >>> share_out(10, 3)
    (4, 3, 3)
    """
    if prototypes < grids:
        raise ValueError(
            f"{prototypes} prototypes cannot be shared out among {grids} grids: take more ({option}), or fewer layers "
            "(--at)"
        )
    return tuple(prototypes // grids + (number < prototypes % grids) for number in range(grids))


def presets_with_head(published: Settings, small: object) -> Mapping[str, Settings]:
    """The published settings and the small budgets of a member whose head learns after each replacement.

    On small budgets there is one replacement on the way and one at the end, each followed by a few epochs of the head.

    Args:
        published: the member's defaults.
        small: the architecture on small budgets.
    """
    defaults: Any = published

    def preset(name: str, optim: Optimization, frame: Frame | None = None) -> Settings:
        first = FIRST_REPLACEMENT[name]
        replacement = replace(PUBLISHED_REPLACEMENT, start=first, every=optim.epochs - first, head_epochs=4)
        changed: Settings = replace(
            defaults, architecture=small, optimization=optim, replacement=replacement, frame=frame
        )
        return changed

    return {
        "paper": replace(defaults, frame="crop"),
        "laptop": preset("laptop", budgets.LAPTOP),
        "scratch": preset("scratch", budgets.SCRATCH),
        "frozen": preset("frozen", budgets.FROZEN, "stretch"),
        "tail": preset("tail", budgets.TAIL, "stretch"),
    }


def refuse_without_head_epochs(replacement: Replacement, published: str) -> None:
    """Refuses settings with which the head would never learn.

    Raises:
        ValueError: if there are no epochs of the head.
    """
    if not replacement.head_epochs:
        raise ValueError(
            "the head learns in epochs of its own after each replacement, and there are none: set "
            f"--replacement.head-epochs ({published})"
        )


def groups_without_head_decay(
    model: "PixPNet", settings: MemberSettings, extras: "Mapping[str, nn.Module]"
) -> "Mapping[str, Group]":
    """The usual parameter groups, without weight decay on the head."""
    from pixpnet.training.groups import usual_groups

    usual = usual_groups(model, settings.optimization, extras)
    return {**usual, "head": replace(usual["head"], weight_decay=0.0)}


def pretraining_extras(model: "PixPNet", settings: MemberSettings) -> "Mapping[str, nn.Module]":
    """The classifier of the pretraining, where there is one."""
    from pixpnet.training.steps import POOLED, pooled_classifier

    return {POOLED: pooled_classifier(model)} if settings.optimization.pretraining_epochs else {}

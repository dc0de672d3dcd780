"""The usual order of stages, shared by most of the family: warm-up, joint epochs with replacements, the head alone."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from pixpnet.parts.losses import LossTerm, cross_entropy
from pixpnet.settings import Optimization, Replacement
from pixpnet.training.actions import Replace
from pixpnet.training.stages import Stage, StepOf, constant, schedule_of
from pixpnet.training.steps import POOLED, plain_step, pretraining_step

CROSS_ENTROPY = LossTerm("cross_entropy", 1.0, cross_entropy)


def usual_stages(
    optim: Optimization,
    replacement: Replacement | None,
    losses: Sequence[LossTerm],
    head_learns: bool = False,
    step: StepOf = plain_step,
) -> tuple[Stage, ...]:
    """Pretraining (where there is any), warm-up, joint; blocks that end with a replacement; head epochs behind each.

    Args:
        optim: epochs and rates.
        replacement: when, and how; None for a member whose prototypes never become patches, which may be kept after
            every joint epoch.
        losses: of all stages but pretraining.
        head_learns: whether there are epochs of the head alone after each replacement.
        step: of all stages but pretraining.
    """
    head_epochs = replacement.head_epochs if head_learns and replacement is not None else 0
    replaced = () if replacement is None else (Replace(replacement),)
    stages: list[Stage] = []
    if optim.pretraining_epochs:
        # What was learnt so far is not in the prototypes, so they begin as patches; that is a start, not a result.
        stages.append(
            Stage(
                "pretraining",
                optim.pretraining_epochs,
                frozenset({"backbone", POOLED}),
                (CROSS_ENTROPY,),
                partial(pretraining_step, cells=optim.pretraining_cells),
                constant,
                trains=frozenset() if optim.frozen_statistics else None,
                at_end=replaced,
                validated=False,
            )
        )
    rate = schedule_of(optim)
    statistics_stay = frozenset({"add_on"}) if optim.frozen_statistics else None
    begins = 0
    for end in range(1, optim.epochs + 1):
        last = end == optim.epochs
        replaces = replacement is not None and (
            last or (end >= replacement.start and (end - replacement.start) % replacement.every == 0)
        )
        if not replaces and not last and end != optim.warm_up_epochs:
            continue
        warm = end <= optim.warm_up_epochs
        stages.append(
            Stage(
                "warm_up" if warm else "joint",
                end - begins,
                frozenset({"add_on", "prototypes"} if warm else {"backbone", "add_on", "prototypes"}),
                tuple(losses),
                step,
                rate,
                begins=begins,
                trains=statistics_stay,
                at_end=replaced if replaces else (),
                selectable=_selectable(replacement is not None, replaces and not head_epochs, last or not warm),
            )
        )
        begins = end
        if replaces and head_epochs:
            stages.append(
                Stage(
                    "head",
                    head_epochs,
                    frozenset({"head"}),
                    tuple(losses),
                    step,
                    constant,
                    begins=end,
                    trains=frozenset(),
                    # Prototypes stay patches, so every such epoch is a result.
                    selectable="every epoch",
                    keeps_patches=True,
                )
            )
    return tuple(stages)


def _selectable(becomes_patches: bool, replaces: bool, learnt: bool) -> Literal["never", "end", "every epoch"]:
    """Where prototypes become patches a model may be kept after that; where they never do, once everything learns."""
    if becomes_patches:
        return "end" if replaces else "never"
    return "every epoch" if learnt else "never"

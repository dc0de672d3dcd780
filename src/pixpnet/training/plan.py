"""The epochs of a run, decided before it starts: which parts learn, how fast, and when prototypes are replaced.

The training loop walks along this list. A recipe with other stages makes another list, not another loop.
"""

from dataclasses import dataclass
from math import cos, exp, pi
from typing import Literal

from pixpnet.recipe import LEARNING_HEADS, Optimisation, Recipe

Stage = Literal["pretraining", "warm_up", "joint", "head"]
# Which parts of the network learn in each stage.
LEARNING: dict[Stage, frozenset[str]] = {
    "pretraining": frozenset({"backbone", "pooled"}),
    "warm_up": frozenset({"add_on", "prototypes"}),
    "joint": frozenset({"backbone", "add_on", "prototypes"}),
    "head": frozenset({"head"}),
}


@dataclass(frozen=True)
class Epoch:
    """One epoch.

    Attributes:
        stage: what learns.
        begins: how many epochs of the schedule of rates lie before it.
        replace: whether prototypes are replaced at its end.
        judged: whether its end is a result that may be chosen: prototypes are patches then.
    """

    stage: Stage
    begins: int
    replace: bool
    judged: bool


def plan(recipe: Recipe) -> tuple[Epoch, ...]:
    """All epochs of a recipe.

    >>> [epoch.replace for epoch in plan(Recipe())].index(True)
    3
    """
    how, when = recipe.optimisation, recipe.replacement
    head_epochs = when.head_epochs if recipe.architecture.head in LEARNING_HEADS else 0
    before = how.pretraining_epochs
    # What was learnt so far is not in the prototypes, so they begin as patches; that is a start, not a result.
    epochs = [Epoch("pretraining", 0, replace=done == before - 1, judged=False) for done in range(before)]
    for begins in range(how.epochs):
        done = begins + 1
        replace = done == how.epochs or (done >= when.start and (done - when.start) % when.every == 0)
        stage: Stage = "warm_up" if begins < how.warm_up_epochs else "joint"
        epochs.append(Epoch(stage, begins, replace, judged=replace and not head_epochs))
        if replace:
            # The head alone: prototypes stay patches, so every such epoch is a result.
            epochs.extend(Epoch("head", done, replace=False, judged=True) for _ in range(head_epochs))
    return tuple(epochs)


def rate_factor(how: Optimisation, stage: Stage, time: float) -> float:
    """By what the learning rates are multiplied.

    Args:
        how: the schedule.
        stage: before and beside the schedule, rates are constant.
        time: epochs of the schedule that have passed, with the fraction of the running one.
    """
    if stage in ("pretraining", "head") or how.schedule == "constant":
        return 1.0
    if how.schedule == "steps":
        return how.step_factor ** int(max(0.0, time - how.warm_up_epochs) // how.step_epochs)
    rising = 1 - exp(-(time + 1) / how.rise)
    return rising * (1 + cos(pi * min(1.0, time / how.epochs))) / 2

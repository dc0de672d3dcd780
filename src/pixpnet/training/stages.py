"""Stages: what is learnt in which epochs, by which loss, and what is done besides. A member gives a list of them.

The training loop walks along the list and knows no stage, no loss term and no parameter group by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, exp, pi
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from pixpnet.parts.losses import LossTerm, Step
from pixpnet.settings import Optimization
from pixpnet.training.features import AnyBatch

if TYPE_CHECKING:
    from pixpnet.training.learner import Learner

Rate = Callable[[float], float]
"""By what the learning rates are multiplied, from the epochs of the schedule that have passed."""


@runtime_checkable
class Action(Protocol):
    """Something that is done beside the steps of the optimizer: replacement, unit length, annealing, pruning ..."""

    def __call__(self, learner: "Learner") -> Mapping[str, float]:
        """Does it, and says numbers for the log, by column; mostly none."""


StepOf = Callable[["Learner", AnyBatch], Step]
"""From a batch to what its loss is made of."""


@dataclass(frozen=True)
class Stage:
    """Some epochs that are alike.

    Attributes:
        name: for the log and for people.
        epochs: how many.
        learns: the names of the parameter groups that learn.
        losses: what the loss is the sum of.
        step: from a batch to logits and matches.
        rate: of the learning rates.
        begins: how many epochs of the schedule of rates lie before it.
        trains: what is in training mode, by the names of the network's parts (backbone, add_on); by default what
            learns. What is not answers as it always will: its batch statistics stay, nothing is dropped out.
        each_step: done after every step of the optimizer.
        before_epoch: done before every epoch.
        at_end: done after the last epoch; validation is measured before and after.
        selectable: after which epochs the model may be chosen as the result: its prototypes are then what they will
            be. `end` is after `at_end`.
        validated: whether validation says anything, which it does not before prototypes learn.
        keeps_patches: whether prototypes that are patches stay so, because nothing that embeds them learns.
    """

    name: str
    epochs: int
    learns: frozenset[str]
    losses: tuple[LossTerm, ...]
    step: StepOf
    rate: Rate
    begins: int = 0
    trains: frozenset[str] | None = None
    each_step: tuple[Action, ...] = ()
    before_epoch: tuple[Action, ...] = ()
    at_end: tuple[Action, ...] = ()
    selectable: Literal["never", "end", "every epoch"] = "never"
    validated: bool = True
    keeps_patches: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"a stage has at least one epoch, got {self.epochs} in {self.name}")


class Epoch(NamedTuple):
    """One epoch of the plan.

    Attributes:
        stage: that it belongs to.
        number: in the stage, from 0.
    """

    stage: Stage
    number: int

    @property
    def begins(self) -> int:
        """How many epochs of the schedule of rates lie before it."""
        return self.stage.begins + self.number

    @property
    def is_last(self) -> bool:
        """Whether the stage ends with it."""
        return self.number == self.stage.epochs - 1

    @property
    def selectable(self) -> bool:
        """Whether the model at its end may be chosen as the result."""
        return self.stage.selectable == "every epoch" or (self.stage.selectable == "end" and self.is_last)


def epochs_of(stages: Sequence[Stage]) -> tuple[Epoch, ...]:
    """All epochs of some stages, in order."""
    return tuple(Epoch(stage, number) for stage in stages for number in range(stage.epochs))


def term_names(stages: Sequence[Stage]) -> tuple[str, ...]:
    """The loss terms of all stages, each once, in the order in which they come."""
    return tuple(dict.fromkeys(term.name for stage in stages for term in stage.losses))


def constant(time: float) -> float:
    """The learning rates as they are.

    >>> constant(3.5)
    1.0
    """
    return 1.0


def schedule_of(optim: Optimization) -> Rate:
    """The schedule of learning rates that a configuration names.

    >>> schedule_of(Optimization(lr_schedule="steps", warm_up_epochs=1, lr_step_epochs=2))(5.0)
    0.010000000000000002
    """
    return {"constant": constant, "steps": _steps(optim), "warm_cosine": _warm_cosine(optim)}[optim.lr_schedule]


def late_steps(optim: Optimization, first: int) -> Rate:
    """Rates that fall late: first after so many epochs, then every `lr_step_epochs`.

    >>> rate = late_steps(Optimization(lr_step_epochs=4), first=19)
    >>> rate(18.9), rate(19.0), round(rate(23.0), 6)
    (1.0, 0.1, 0.01)
    """

    def factor(time: float) -> float:
        steps = 1 + int((time - first) // optim.lr_step_epochs) if time >= first else 0
        share: float = optim.lr_step_factor**steps
        return share

    return factor


def _steps(optim: Optimization) -> Rate:
    def factor(time: float) -> float:
        steps: float = optim.lr_step_factor ** int(max(0.0, time - optim.warm_up_epochs) // optim.lr_step_epochs)
        return steps

    return factor


def _warm_cosine(optim: Optimization) -> Rate:
    def factor(time: float) -> float:
        rising = 1 - exp(-(time + 1) / optim.lr_rise)
        return rising * (1 + cos(pi * min(1.0, time / optim.epochs))) / 2

    return factor

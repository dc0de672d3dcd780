"""How much of a run is done: everything it does is counted, in forward passes of one batch, not its steps alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from pixpnet.training.actions import Replace
from pixpnet.training.stages import Epoch

# A step goes forward and backward through the network, which costs about three times as much as forward.
STEP_COST = 3.0
# Two pictures of a prototype are cut out and written, which is far less than a batch.
_PICTURE_COST = 0.1
# Where features are kept, a batch passes through what stands behind the stem; to make the features of one image takes
# the stem, which is nearly all of the network.
_FEATURES_COST = 3.0
CALIBRATION = "calibration"
"""What tasks that train on folds have in their names."""
FEATURES = "features"
"""What tasks that compute features have in their names."""


@dataclass(frozen=True)
class Workload:
    """What there is to do in a run.

    Attributes:
        epochs: of each epoch, with its validation and replacement.
        ending: what comes behind the last one: pictures, and the final evaluation.
        replaces: whether prototypes become training patches at any time; None where that is not known.
    """

    epochs: tuple[float, ...]
    ending: float
    replaces: bool | None = None

    @property
    def total(self) -> float:
        """Cost of the whole run."""
        return sum(self.epochs) + self.ending


def workload(
    plan: Sequence[Epoch],
    steps: int,
    images: tuple[int, int, int],
    batch_size: int,
    prototypes: int,
    features_at_end: int = 0,
    folds: int = 0,
) -> Workload:
    """Counts what a plan asks for.

    Args:
        plan: all epochs.
        steps: of the optimizer in each.
        images: how many there are to learn from, to choose by and to evaluate on.
        batch_size: images in a forward pass.
        prototypes: how many.
        features_at_end: of how many images features are computed behind the last epoch: of the test images, which are
            not opened before.
        folds: how many more times a network is trained at the end, on a little less than all training images.
    """
    train, val, test = (ceil(count / batch_size) for count in images)

    def cost(epoch: Epoch) -> float:
        changes = bool(epoch.stage.at_end) and epoch.is_last
        # Behind a replacement once more, for what it can have changed.
        validations = (1 + changes if epoch.stage.validated else 0) + changes
        return STEP_COST * steps + val * validations + (train if changes else 0)

    ending = val + test + _PICTURE_COST * prototypes + _FEATURES_COST * features_at_end
    ending += folds * STEP_COST * steps * len(plan)
    replaces = any(isinstance(action, Replace) for epoch in plan for action in epoch.stage.at_end)
    return Workload(tuple(map(cost, plan)), ending, replaces)


class RunProgress:
    """Which share of a run is done, from what a `Watcher` is told. It never falls, and is 1 at the very end only."""

    def __init__(self) -> None:
        self._work: Workload | None = None
        self._epochs = 0
        self._steps = 0
        self._tasks: dict[str, float] = {}
        self._share = 0.0

    def planned(self, work: Workload) -> None:
        """Takes the workload of the run."""
        self._work = work

    def begins(self, done: int) -> None:
        """So many epochs were done before."""
        self._epochs = done
        self._count()

    def stepped(self) -> None:
        """A step was taken."""
        self._steps += 1
        self._count()

    def busy(self, task: str, done: int, total: int) -> None:
        """So many of so many parts of something else are done."""
        if self._work is None:
            # Features that are computed before the first epoch have a bar of their own.
            return
        ending = self._epochs >= len(self._work.epochs)
        # Pictures and features are counted one by one, everything else in batches.
        cost = 1.0
        if ending and "picture" in task:
            cost = _PICTURE_COST
        elif ending and FEATURES in task:
            cost = _FEATURES_COST
        elif ending and CALIBRATION in task:
            cost = STEP_COST
        self._tasks[task] = done * cost
        self._count()

    def epoch_ended(self, epoch: int) -> None:
        """An epoch, counted from 1, came to its end."""
        self._epochs, self._steps = epoch, 0
        self._tasks.clear()
        self._count()

    @property
    def share(self) -> float:
        """Share of the whole run that is done, 0-1."""
        return self._share

    def _count(self) -> None:
        if self._work is None:
            return
        work, number = self._work, self._epochs
        here = work.epochs[number] if number < len(work.epochs) else work.ending
        done = min(here, STEP_COST * self._steps + sum(self._tasks.values()))
        self._share = max(self._share, (sum(work.epochs[:number]) + done) / max(work.total, 1e-9))

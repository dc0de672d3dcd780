"""Accuracy of a model on un-augmented images, alone or together with other processes."""

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MeanMetric, Metric

from pixpnet.model.modes import evaluating
from pixpnet.parts import Decision
from pixpnet.progress import Progress
from pixpnet.records import ADDED_LATER
from pixpnet.training.confusion import ConfusionTable

T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """A range that holds the true share in 95 of 100 repetitions."""

    low: float
    high: float


@dataclass(frozen=True)
class Reading:
    """How another rule does on the same scores (`Decision.readings`).

    Attributes:
        accuracy: share of images that it gives their class, 0-1.
        agreement: share of images to which it gives the network's own answer, 0-1.
    """

    accuracy: float
    agreement: float


@dataclass(frozen=True)
class Evaluation:
    """How a model did on some images.

    Attributes:
        accuracy: share of images whose largest logit is that of their class, 0-1.
        loss: mean cross-entropy.
        images: how many.
        interval: of the accuracy (Wilson, 95 %), for images like these.
        class_accuracy: the accuracy within each class, None for a class without images.
        confusion: for each true class, how many images were given to each class.
        readings: what other rules would have answered to the same scores, by their names; None where there are none.
    """

    accuracy: float
    loss: float
    images: int
    interval: Interval
    class_accuracy: tuple[float | None, ...]
    confusion: ConfusionTable
    readings: dict[str, Reading] | None = field(default=None, metadata=ADDED_LATER)


def evaluate(
    logits_of: nn.Module,
    num_classes: int,
    batches: Iterable[Any],
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    together: bool = False,
    decision: Decision | None = None,
) -> Evaluation:
    """Counts right answers.

    Args:
        logits_of: takes images and answers with something that has `logits`.
        num_classes: how many classes there are.
        batches: un-augmented images with labels, or what stands for images (`Batch`, `FeatureBatch`).
        device: where the model is.
        progress: told how many batches are done.
        together: with the other processes of a training run, each of which brings its own batches; all get the
            answer for all of them.
        decision: of the network, where the answers of its other readings are to be counted too (of one process).
    """
    answers = _Answers(together).to(device)
    nothing = torch.zeros(0, dtype=torch.int64, device=device)
    answers.update(nothing, nothing)  # a process without any batch takes part all the same
    # A loss that is NaN must show, not be left out. ("disable" would forget the weights: torchmetrics 1.9.0.)
    loss = MeanMetric(nan_strategy=float("inf"), sync_on_compute=together).to(device)
    total = batch_count(batches)
    counted = ReadingCounts(decision)
    with evaluating(logits_of):
        for done, batch in enumerate(batches, start=1):
            batch = batch.to(device)
            output = logits_of(batch.images)
            logits = output.logits.float()
            if decision is not None:
                counted.update(output.matches.scores, logits, batch.labels)
            answers.update(batch.labels, logits.argmax(dim=1))
            loss.update(F.cross_entropy(logits, batch.labels), weight=len(batch))
            if progress is not None:
                progress("evaluating", done, total)
    labels, given = answers.compute()
    evaluation = evaluation_of(ConfusionTable.of_answers(labels, given, num_classes), float(loss.compute()))
    return replace(evaluation, readings=counted.compute(evaluation.images))


class ReadingCounts:
    """Counts what other readings of a decision's scores answer; see `Decision.readings`."""

    def __init__(self, decision: Decision | None) -> None:
        self._decision = decision
        self._counts: dict[str, Tensor] = {}

    def update(
        self,
        scores: Float[Tensor, "batch protos"],
        logits: Float[Tensor, "batch classes"],
        labels: Int64[Tensor, " batch"],
    ) -> None:
        """Counts a batch."""
        readings = {} if self._decision is None else self._decision.readings(scores)
        for name, answers in readings.items():
            same = torch.stack([(answers == other).sum() for other in (labels, logits.argmax(dim=1))])
            self._counts[name] = self._counts.get(name, torch.zeros_like(same)) + same

    def compute(self, images: int) -> dict[str, Reading] | None:
        """What each reading had, of so many images; None where there are no other readings."""
        shares = {name: [count / images for count in counts.tolist()] for name, counts in self._counts.items()}
        return {name: Reading(*both) for name, both in shares.items()} or None


class _Answers(Metric):
    """The class of every image and the one that it was given, of all processes.

    A matrix of classes x classes, as torchmetrics has it, is counted anew for every batch: 200 MB at 5,000 classes.
    """

    labels: list[Tensor]
    given: list[Tensor]

    def __init__(self, together: bool) -> None:
        super().__init__(sync_on_compute=together)
        for name in ("labels", "given"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, labels: Int64[Tensor, " batch"], given: Int64[Tensor, " batch"]) -> None:
        """Counts a batch."""
        self.labels.append(labels)
        self.given.append(given)

    def compute(self) -> tuple[Int64[Tensor, " images"], Int64[Tensor, " images"]]:
        """Labels and answers; processes follow each other."""
        return _joined(self.labels), _joined(self.given)


def _joined(parts: list[Tensor] | Tensor) -> Tensor:
    """What torchmetrics has joined already after it was gathered from several processes."""
    if isinstance(parts, Tensor):
        return parts
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)


def evaluation_of(confusion: ConfusionTable | Sequence[Sequence[int]], loss: float) -> Evaluation:
    """What a table of counts says.

    >>> found = evaluation_of([[3, 1], [0, 0]], loss=0.5)
    >>> found.accuracy, found.class_accuracy
    (0.75, (0.75, None))
    """
    table = confusion if isinstance(confusion, ConfusionTable) else ConfusionTable.of_rows(confusion)
    images, right = table.images, table.right
    if not images:
        raise ValueError("there are no images to evaluate on")
    rows = [table.given(label) for label in range(len(table))]
    return Evaluation(
        accuracy=right / images,
        loss=loss,
        images=images,
        interval=wilson(right, images),
        class_accuracy=tuple(row.get(n, 0) / sum(row.values()) if row else None for n, row in enumerate(rows)),
        confusion=table,
    )


def wilson(right: int, images: int, deviations: float = 1.96) -> Interval:
    """Wilson's interval of a share.

    >>> interval = wilson(95, 100)
    >>> f"{interval.low:.3f} {interval.high:.3f}"
    '0.888 0.978'
    """
    square = deviations**2
    center = (right + square / 2) / (images + square)
    half = deviations / (images + square) * sqrt(right * (images - right) / images + square / 4)
    # Rounding must not push the ends past the share itself.
    share = right / images
    return Interval(max(0.0, min(share, center - half)), min(1.0, max(share, center + half)))


def batch_count(batches: Iterable[Any]) -> int:
    """How many batches there are, 0 where that is not known."""
    return len(batches) if isinstance(batches, Sized) else 0


def shard(items: Sequence[T], batch_size: int, rank: int, world_size: int) -> tuple[T, ...]:
    """One process's share of an evaluation: every so-manieth batch, so that batches stay what they are.

    A batch of the same images gives the same floating-point numbers in any process, so several find what one would
    have found.

    >>> shard("abcdefg", batch_size=2, rank=1, world_size=2)
    ('c', 'd', 'g')
    """
    starts = range(rank * batch_size, len(items), world_size * batch_size)
    return tuple(item for start in starts for item in items[start : start + batch_size])

"""The log of a run: one line for each epoch, with a column for each loss term and each figure of an action."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from io import StringIO

from pixpnet.records import ADDED_LATER, from_plain, to_plain

REPLACED_DISTANCE = "replaced_distance"
_FORMER_TERMS = ("cross_entropy", "cluster", "separation")


@dataclass(frozen=True)
class LogLine:
    """One epoch in `log.csv`; None where something was not measured.

    Attributes:
        epoch: counted from 1.
        stage: what learnt.
        loss: mean over the epoch's batches.
        terms: the loss terms of the stage, before their weights; each is a column of the log.
        train_accuracy: on the augmented views, while learning.
        val_accuracy: at the end of the epoch, before replacement; not in pretraining, where prototypes do not learn.
        val_loss: cross-entropy there.
        figures: what actions at the end of the epoch say, such as `replaced_distance`, the mean distance that
            prototypes moved when they were replaced; each is a column of the log.
        val_accuracy_after: after replacement.
        val_loss_after: cross-entropy there.
        best: whether this epoch's model was kept: the validation accuracy after replacement is within one standard
            error of the best so far. The last such epoch is the run's model; it need not be the most accurate.
        seconds: how long the epoch took.
        refusals: figures that cannot be told, by the name of their column, and why.
    """

    epoch: int
    stage: str
    loss: float
    terms: dict[str, float]
    train_accuracy: float
    val_accuracy: float | None
    val_loss: float | None
    figures: dict[str, float]
    val_accuracy_after: float | None
    val_loss_after: float | None
    best: bool
    seconds: float
    refusals: dict[str, str] = field(default_factory=dict, metadata=ADDED_LATER)

    @property
    def replaced_distance(self) -> float | None:
        """How far prototypes moved on average when they were replaced; None where they were not."""
        return self.figures.get(REPLACED_DISTANCE)


def log_text(lines: Sequence[LogLine]) -> str:
    """The log as a table: a column for each loss term and each figure that any line has."""
    terms = dict.fromkeys(name for line in lines for name in line.terms)
    figures = dict.fromkeys([REPLACED_DISTANCE, *(name for line in lines for name in (*line.figures, *line.refusals))])
    open_up = {"terms": terms, "figures": figures, "refusals": {}}
    columns = [name for part in fields(LogLine) for name in open_up.get(part.name, {part.name: None})]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        values = {**to_plain(line), **line.terms, **line.figures, **line.refusals}
        writer.writerow("" if values.get(column) is None else values[column] for column in columns)
    return text.getvalue()


def log_line(values: object) -> LogLine:
    """A line of the log from plain values; those of earlier versions had three loss terms beside the other numbers.

    Raises:
        BadRecord: if the values do not fit.
    """
    if isinstance(values, dict) and "terms" not in values:
        moved = {name: values[name] for name in _FORMER_TERMS if name in values}
        distance = values.get(REPLACED_DISTANCE)
        rest = {name: value for name, value in values.items() if name not in (*_FORMER_TERMS, REPLACED_DISTANCE)}
        values = {**rest, "terms": moved, "figures": {} if distance is None else {REPLACED_DISTANCE: distance}}
    return from_plain(LogLine, values, "log")

"""What `predict` writes of each picture: lines, a table or JSON; with doubt, and sets of classes if asked for."""

from __future__ import annotations

import csv
import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pixpnet.messages import on_one_line
from pixpnet.wording import probability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from pixpnet.model.calibration import Calibration
    from pixpnet.model.predicting import Prediction, Ranking

    Write = Callable[[Prediction], None]
    Sets = Callable[[Ranking], tuple[int, ...]]

COLUMNS = ("file", "class", "probability", "runner-up", "runner-up probability", "calibrated", "doubt", "rare")
SET_COLUMN = "classes"
_SHOWN = 3


@dataclass(frozen=True)
class Answers:
    """What is known of all answers.

    Attributes:
        names: of the classes.
        calibration: of the model; None where it has none.
        sets: from a ranking to the classes that a picture may be of; None where that was not asked for.
    """

    names: tuple[str, ...]
    calibration: Calibration | None
    sets: Sets | None


@contextmanager
def as_text(stream: TextIO, answers: Answers) -> Iterator[Write]:
    """A line for each picture, and one more where it looks like nothing known."""
    from pixpnet.explanation.certainty import warning

    names = answers.names

    def write(answer: Prediction) -> None:
        ranking = answer.ranking
        best = ", ".join(
            f"{names[label]} {probability(ranking.probabilities[label])} ({ranking.logits[label]:.2f})"
            for label in ranking.labels[:_SHOWN]
        )
        lines = [f"{on_one_line(answer.path)}: {best}"]
        if answers.sets is not None:
            may_be = answers.sets(ranking)
            lines.append("  may be: " + (", ".join(names[label] for label in may_be) or "none of the classes"))
        if ranking.doubt is not None and ranking.doubt.raised:
            lines.append("  " + warning(ranking.doubt, names[ranking.labels[0]]))
        stream.write("\n".join(lines) + "\n")

    yield write


@contextmanager
def as_csv(stream: TextIO, answers: Answers) -> Iterator[Write]:
    """A table; a set of classes is one cell, with semicolons, and so are rare signs."""
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(COLUMNS if answers.sets is None else (*COLUMNS, SET_COLUMN))
    calibrated = "no" if answers.calibration is None else "yes"

    def write(answer: Prediction) -> None:
        ranking, names = answer.ranking, answers.names
        best = [(names[label], f"{ranking.probabilities[label]:.6f}") for label in ranking.labels[:2]]
        doubt = "" if ranking.doubt is None else "yes" if ranking.doubt.raised else "no"
        rare = "" if ranking.doubt is None else ";".join(ranking.doubt.rare)
        classes = () if answers.sets is None else (";".join(names[label] for label in answers.sets(ranking)),)
        table.writerow((answer.path, *(cell for pair in best for cell in pair), calibrated, doubt, rare, *classes))

    yield write


@contextmanager
def as_json(stream: TextIO, answers: Answers) -> Iterator[Write]:
    """One list, written record by record; still a whole list when nothing could be read."""
    begun = False
    known = answers.calibration

    def write(answer: Prediction) -> None:
        nonlocal begun
        ranking, names = answer.ranking, answers.names
        doubt = ranking.doubt
        record: dict[str, object] = {
            "image": str(answer.path),
            "class": names[ranking.labels[0]],
            "logits": {names[label]: ranking.logits[label] for label in ranking.labels},
            "probabilities": {names[label]: ranking.probabilities[label] for label in ranking.labels},
            "temperature": None if known is None else known.temperature,
            "doubt": None if doubt is None else {"raised": doubt.raised, "rare": doubt.rare, **asdict(doubt)},
        }
        if answers.sets is not None:
            record["classes"] = [names[label] for label in answers.sets(ranking)]
        stream.write((",\n" if begun else "[\n") + json.dumps(record))
        begun = True

    yield write
    stream.write("\n]\n" if begun else "[]\n")


FORMS = {"text": as_text, "csv": as_csv, "json": as_json}

"""What a run's model answered for each image that it was evaluated on: one line an image, in `answers.csv`.

Confusion, class accuracies and mistakes follow from it, so none of them needs another look at the test split.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from pixpnet.data import Entry
from pixpnet.training.confusion import ConfusionTable

ANSWERS_FILE = "answers.csv"
BEST = 5
_COLUMNS = ("split", "file", "class")

EvaluatedSplit = Literal["val", "test"]


@dataclass(frozen=True)
class AnswerLine:
    """What the model made of one image.

    Attributes:
        split: that the image is in.
        file: its stable name in the data set.
        truth: its class.
        best: the classes with the largest logits, the largest first.
        scores: their logits.
    """

    split: EvaluatedSplit
    file: str
    truth: str
    best: tuple[str, ...]
    scores: tuple[float, ...]

    @property
    def answer(self) -> str:
        """The predicted class."""
        return self.best[0]

    @property
    def lead(self) -> float:
        """How far the logit of the answer is above that of the true class, or above the last that is listed."""
        by_name = dict(zip(self.best, self.scores, strict=True))
        return self.scores[0] - by_name.get(self.truth, self.scores[-1])


def answer_lines(
    split: EvaluatedSplit, entries: Sequence[Entry], logits: Float[Tensor, "images classes"], names: Sequence[str]
) -> list[AnswerLine]:
    """The lines of images in the order of their logits."""
    top = logits.sort(dim=1, descending=True, stable=True)
    numbers, labels = top.values[:, :BEST].tolist(), top.indices[:, :BEST].tolist()
    return [
        AnswerLine(split, entry.id, names[entry.label], tuple(names[label] for label in best), tuple(scores))
        for entry, best, scores in zip(entries, labels, numbers, strict=True)
    ]


def answers_text(lines: Sequence[AnswerLine]) -> str:
    """The lines as comma-separated values; logits with all of the digits that 32 bits have."""
    most = max((len(line.best) for line in lines), default=0)
    text = StringIO()
    # The csv module does not quote a lone carriage return, and reads it as the end of a row.
    odd = any("\r" in name for line in lines for name in (line.file, line.truth, *line.best))
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
    writer.writerow((*_COLUMNS, *(f"{column} {number + 1}" for number in range(most) for column in ("best", "logit"))))
    for line in lines:
        pairs = zip(line.best, line.scores, strict=True)
        writer.writerow((line.split, line.file, line.truth, *(c for n, s in pairs for c in (n, f"{s:.9g}"))))
    return text.getvalue()


def answers_from_text(text: str) -> tuple[AnswerLine, ...]:
    """Reads what `answers_text` wrote.

    Raises:
        ValueError: if it is no such table.
    """
    rows = list(csv.reader(StringIO(text, newline="")))
    if not rows or tuple(rows[0][:3]) != _COLUMNS:
        raise ValueError(f"a table of answers begins with the columns {','.join(_COLUMNS)}")
    lines = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) < len(_COLUMNS) + 2 or len(row) != len(rows[0]) or row[0] not in ("val", "test"):
            raise ValueError(f"row {number}: expected {', '.join(rows[0])}, got {row}")
        split, file, truth, *pairs = row
        lines.append(AnswerLine(split, file, truth, tuple(pairs[::2]), tuple(map(float, pairs[1::2]))))  # type: ignore[arg-type]
    return tuple(lines)


def confusion_of(lines: Sequence[AnswerLine], names: Sequence[str]) -> ConfusionTable:
    """For each true class, how many images were given to each class.

    Raises:
        ValueError: if a line names a class that there is not.
    """
    places = {name: index for index, name in enumerate(names)}
    for line in lines:
        if line.truth not in places or line.answer not in places:
            raise ValueError(f"{ANSWERS_FILE} names a class that the model does not have: {line.truth}, {line.answer}")
    counts = Counter((places[line.truth], places[line.answer]) for line in lines)
    return ConfusionTable(len(names), ((*pair, count) for pair, count in counts.items()))

"""What people replied: one line of JSON each in a run's `quiz.jsonl`, with all that the result needs.

So a result can be worked out again later, when other questions have been drawn.
"""

import csv
import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal

from pixpnet.file_lock import lock, read_lines
from pixpnet.messages import on_one_line
from pixpnet.metrics.quiz.questions import PairKind
from pixpnet.records import BadRecord, from_plain, to_plain

QUIZ_FILE = "quiz.jsonl"
RATINGS = {1: "not at all", 2: "hardly", 3: "somewhat", 4: "clearly"}
_LONGEST_NAME = 40
# More than any team gives; a larger file is not a quiz's.
_LARGEST_FILE = 50_000_000


class BadReply(ValueError):
    """A reply that is none to its question; the message says why."""


@dataclass(frozen=True)
class AgreementReply:
    """How much a part looks like a patch, to one person.

    Attributes:
        person: who says so, in their own words; may be empty.
        time: when (UTC, ISO 8601).
        model: hash of the model that the quiz was about.
        image: the image.
        prototype: whose patch it was.
        kind: whether the model's answer was right, wrong, or the pair a control.
        rating: 1 (not at all) to 4 (clearly).
    """

    person: str
    time: str
    model: str
    image: str
    prototype: int
    kind: PairKind
    rating: int
    task: Literal["agreement"] = "agreement"

    def __post_init__(self) -> None:
        if self.rating not in RATINGS:
            raise BadReply(f"a rating is 1, 2, 3 or 4, got {self.rating}")
        _check_person(self.person)


@dataclass(frozen=True)
class DistinctionReply:
    """Which explanation one person took for the right one.

    Attributes:
        person: who says so, in their own words; may be empty.
        time: when (UTC, ISO 8601).
        model: hash of the model that the quiz was about.
        image: the image.
        chosen: name of the class that was chosen.
        truth: name of the class of the image.
        choices: how many there were.
        model_right: whether the model's answer was right.
    """

    person: str
    time: str
    model: str
    image: str
    chosen: str
    truth: str
    choices: int
    model_right: bool
    task: Literal["distinction"] = "distinction"

    def __post_init__(self) -> None:
        if self.choices < 2:
            raise BadReply(f"there are at least two explanations to choose from, got {self.choices}")
        _check_person(self.person)

    @property
    def right(self) -> bool:
        """Whether the true class was chosen."""
        return self.chosen == self.truth


Reply = AgreementReply | DistinctionReply
_KINDS: dict[str, type[Reply]] = {"agreement": AgreementReply, "distinction": DistinctionReply}


def append_reply(path: Path, reply: Reply) -> None:
    """Adds one line; lines of others stay, whoever else writes at the same moment."""
    with path.open("ab", buffering=0) as file:
        with suppress(OSError):  # no locks here: a reader may see half of the line for a moment
            lock(file.fileno())
        file.write(json.dumps(to_plain(reply), ensure_ascii=False).encode() + b"\n")


def read_replies(path: Path, models: Collection[str] | None = None) -> tuple[Reply, ...]:
    """What was replied, in that order.

    Args:
        path: the file; no file means no replies.
        models: hashes of the model whose replies are wanted; by default those of all.

    Raises:
        BadReply: if the file is damaged; the message says in which line.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise BadReply(f"{path} has more than {_LARGEST_FILE} bytes: it is no file of replies")
        # Not `splitlines`: names may hold what it takes for the end of a line, such as U+2028.
        lines = read_lines(path).decode().split("\n")
    except FileNotFoundError:
        return ()
    except UnicodeDecodeError as error:
        raise BadReply(f"{path} is damaged: it is no text") from error
    replies = [_reply(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    return tuple(reply for reply in replies if models is None or reply.model in models)


def _reply(path: Path, number: int, line: str) -> Reply:
    try:
        plain = json.loads(line)
        kind = _KINDS[plain["task"]]
        return from_plain(kind, plain, "reply")
    except (BadRecord, BadReply, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadReply(
            f"line {number} of {path} is no reply ({on_one_line(error)}): mend or delete that line"
        ) from error


def replies_csv(replies: Iterable[Reply]) -> str:
    """All replies as a table for a spreadsheet, one line each."""
    file = StringIO()
    table = csv.writer(file)
    table.writerow(
        (
            "task",
            "person",
            "time",
            "model",
            "image",
            "kind",
            "prototype",
            "rating",
            "chosen",
            "truth",
            "choices",
            "right",
        )
    )
    for reply in replies:
        match reply:
            case AgreementReply():
                rest: tuple[object, ...] = (reply.kind, reply.prototype, reply.rating, "", "", "", "")
            case DistinctionReply():
                kind = "right" if reply.model_right else "wrong"
                rest = (kind, "", "", _cell(reply.chosen), _cell(reply.truth), reply.choices, int(reply.right))
        table.writerow((reply.task, _cell(reply.person), reply.time, reply.model, _cell(reply.image), *rest))
    return file.getvalue()


def _cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> _cell("=1+1"), _cell("jay")
    ("'=1+1", 'jay')
    """
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") else text


def _check_person(person: str) -> None:
    if len(person) > _LONGEST_NAME or on_one_line(person) != person:
        raise BadReply(f"a name has at most {_LONGEST_NAME} characters, all of them visible")

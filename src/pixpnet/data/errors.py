"""What can be wrong with data: one error per cure, each listing everything found rather than the first."""

from collections.abc import Sequence
from dataclasses import dataclass

from pixpnet.class_names import printable

_SHOWN = 20


class DataError(ValueError):
    """A data set that cannot be used as it is; the message says what to do next."""


class ClassNameError(DataError):
    """A data set with a class that no model may have (`pixpnet.class_names`); the message says which one and why."""


class DataWarning(UserWarning):
    """Something was left out or let through because the caller asked for that."""


class ImageError(DataError):
    """One image file that cannot be used, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a data set.

    Attributes:
        where: the file, folder or class, relative to the data set's root.
        reason: what is wrong, in words for a person.
    """

    where: str
    reason: str


@dataclass(frozen=True)
class Leak:
    """The same picture on both sides of a split.

    Attributes:
        train_id: stable id of the copy that is trained on.
        test_id: stable id of the copy in the test split.
    """

    train_id: str
    test_id: str


class BadFilesError(DataError):
    """A data set holds unusable files or folders, and the caller asked to stop on them."""

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        lines = listing([f"{problem.where}: {problem.reason}" for problem in problems])
        super().__init__(
            f"{name}: {len(problems)} unusable file(s) or folder(s)\n{lines}\n"
            "Repair or remove them, or go on without them with on_bad='skip'."
        )
        self.problems = tuple(problems)


class LeakError(DataError):
    """The same picture is in train and in test, and the caller did not ask to go on."""

    def __init__(self, name: str, leaks: Sequence[Leak]) -> None:
        lines = listing([f"{leak.test_id} (test) is {leak.train_id} (train)" for leak in leaks])
        super().__init__(
            f"{name}: {len(leaks)} test image(s) are also in train\n{lines}\n"
            "Remove one copy of each, or go on and have it reported with on_leak='report'."
        )
        self.leaks = tuple(leaks)


def listing(lines: Sequence[str]) -> str:
    """The first lines, indented, and how many more there are.

    >>> print(listing(["a", "b"]))
      a
      b
    """
    shown = [f"  {printable(line)}" for line in lines[:_SHOWN]]
    if len(lines) > _SHOWN:
        shown.append(f"  ... and {len(lines) - _SHOWN} more")
    return "\n".join(shown)

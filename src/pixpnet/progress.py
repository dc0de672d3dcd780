"""How work that takes a while says how far it is: one shape for all of it, from a library call to a bar."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much (0 where that is not known)."""


def silent(task: str, done: int, total: int) -> None:
    """A progress that shows nothing."""


def named(progress: Progress | None, task: str) -> Progress | None:
    """The same progress under the caller's name for the work.

    >>> named(print, "validation")("evaluating", 1, 4)
    validation 1 4
    """
    return None if progress is None else lambda _, done, total: progress(task, done, total)


def part_of(progress: Progress | None, task: str, number: int, count: int) -> Progress | None:
    """The progress of one of several equal parts of a task.

    Args:
        progress: of the whole task.
        task: its name.
        number: of the part, from 0.
        count: how many parts there are.

    >>> part_of(print, "explaining", 1, 3)("proving", 2, 10)
    explaining 12 30
    """
    return None if progress is None else lambda _, done, total: progress(task, number * total + done, count * total)

"""A progress bar with the time left, on a terminal; a line now and then where there is none."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pixpnet.views.console import visible_output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID


LINE_EVERY = 30.0
"""Seconds between two lines about the same work, where there is no terminal."""


class NowAndThen:
    """Says when it is time for another line; the first one waits as long as the others, so short work is silent."""

    def __init__(self, every: float | None = None) -> None:
        self.every = LINE_EVERY if every is None else every
        self.last = time.monotonic()

    def due(self) -> bool:
        """Whether the last line was long enough ago; if so, this is the next one."""
        if time.monotonic() - self.last < self.every:
            return False
        self.last = time.monotonic()
        return True


def clock(seconds: float) -> str:
    """A span of time for people.

    >>> clock(59.7), clock(3700)
    ('0:01:00', '1:01:40')
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


@contextmanager
def progress_bar(console: "Console", task: str) -> "Iterator[Callable[[int, int], None]]":
    """Yields a function to call with how much is done, of how much."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # While a bar is shown, rich takes over stdout and prints it above the bar, on the bar's console: on stderr. Where
    # stdout is a file or a pipe, what goes there would never arrive.
    shown = Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),
    )
    with shown as bar, visible_output():
        handle, lines = bar.add_task(task, total=None), None if console.is_terminal else NowAndThen()

        def told(done: int, total: int) -> None:
            bar.update(handle, completed=done, total=total)
            if lines is not None and lines.due():
                console.print(_line(task, done, total), markup=False, highlight=False, soft_wrap=True)

        yield told


@contextmanager
def task_bars(console: "Console") -> "Iterator[Callable[[str, int, int], None]]":
    """Yields a function to call with a task, how much of it is done, of how much; each task has a bar of its own."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("time left"))
    times = (TimeRemainingColumn(), TextColumn("so far"), TimeElapsedColumn())
    with (
        Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal) as bars,
        visible_output(),
    ):
        handles: dict[str, TaskID] = {}
        lines = None if console.is_terminal else NowAndThen()

        def told(task: str, done: int, of: int) -> None:
            if task not in handles:
                handles[task] = bars.add_task(task, total=None)
            bars.update(handles[task], completed=done, total=of)
            if lines is not None and lines.due():
                console.print(_line(task, done, of), markup=False, highlight=False, soft_wrap=True)

        yield told


def _line(task: str, done: int, of: int) -> str:
    return f"{task}: {round(100 * done / of)} %" if of else f"{task}: {done}"

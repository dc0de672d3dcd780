"""A progress bar with the time left, on a terminal; a line now and then where there is none."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pixpnet.progress import Progress
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
def progress_bars(console: "Console") -> Iterator[Progress]:
    """A progress that draws a bar for each task."""
    from rich.progress import (
        BarColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("time left"))
    times = (TimeRemainingColumn(), TextColumn("so far"), TimeElapsedColumn())
    # While a bar is shown, rich takes over stdout and prints it above the bar, on the bar's console: on stderr. Where
    # stdout is a file or a pipe, what goes there would never arrive.
    shown = Bars(
        *columns,
        *times,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),
    )
    with shown as bars, visible_output():
        handles: dict[str, TaskID] = {}
        lines = None if console.is_terminal else NowAndThen()

        def show(task: str, done: int, total: int) -> None:
            if task not in handles:
                handles[task] = bars.add_task(task, total=None)
            bars.update(handles[task], completed=done, total=total or None)
            if lines is not None and lines.due():
                console.print(_line(task, done, total), markup=False, highlight=False, soft_wrap=True)

        yield show


def _line(task: str, done: int, total: int) -> str:
    return f"{task}: {round(100 * done / total)} %" if total else f"{task}: {done}"

"""A progress bar with the time left, on a terminal; nothing where nobody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pixpnet.commands.console import visible_output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID


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
        handle = bar.add_task(task, total=None)
        yield lambda done, total: bar.update(handle, completed=done, total=total)


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

        def told(task: str, done: int, of: int) -> None:
            if task not in handles:
                handles[task] = bars.add_task(task, total=None)
            bars.update(handles[task], completed=done, total=of)

        yield told

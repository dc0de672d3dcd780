"""The progress bar, on a terminal that is not one."""

import io
import sys
from typing import Any

import pytest
from rich.console import Console

from pixpnet.views import progress as progress_module
from pixpnet.views.progress import progress_bar, task_bars


def test_what_is_printed_beside_a_bar_goes_where_stdout_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in `pixpnet explain RUN jay.jpg > jay.txt`: the bar is on a terminal, stdout is a file.
    terminal, file = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with progress_bar(Console(file=terminal, force_terminal=True), "reading") as progress:
        progress(1, 2)
        sys.stdout.write("said\n")
    assert file.getvalue() == "said\n"
    assert "reading" in terminal.getvalue()
    assert "said" not in terminal.getvalue()


@pytest.mark.parametrize("bars", [progress_bar, task_bars])
def test_without_a_terminal_there_is_a_line_now_and_then(bars: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    file = io.StringIO()
    console = Console(file=file, force_terminal=False)
    with bars(console, "reading") if bars is progress_bar else bars(console) as told:
        say = told if bars is progress_bar else (lambda done, of: told("reading", done, of))
        for done in range(1, 101):
            now[0] += 1.0
            say(done, 100)
    assert file.getvalue().splitlines() == ["reading: 30 %", "reading: 60 %", "reading: 90 %"]


def test_short_work_without_a_terminal_is_silent() -> None:
    file = io.StringIO()
    with progress_bar(Console(file=file, force_terminal=False), "reading") as told:
        told(1, 2)
        told(2, 2)
    assert file.getvalue() == ""

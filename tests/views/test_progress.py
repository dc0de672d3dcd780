"""The progress bar, on a terminal that is not one."""

import io
import sys

import pytest
from rich.console import Console

from pixpnet.views import progress as progress_module
from pixpnet.views.progress import progress_bars


def test_what_is_printed_beside_a_bar_goes_where_stdout_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in `pixpnet explain RUN jay.jpg > jay.txt`: the bar is on a terminal, stdout is a file.
    terminal, file = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with progress_bars(Console(file=terminal, force_terminal=True)) as progress:
        progress("reading", 1, 2)
        sys.stdout.write("said\n")
    assert file.getvalue() == "said\n"
    assert "reading" in terminal.getvalue()
    assert "said" not in terminal.getvalue()


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    file = io.StringIO()
    console = Console(file=file, force_terminal=False)
    with progress_bars(console) as progress:
        for done in range(1, 101):
            now[0] += 1.0
            progress("reading", done, 100)
    assert file.getvalue().splitlines() == ["reading: 30 %", "reading: 60 %", "reading: 90 %"]


def test_short_work_without_a_terminal_is_silent() -> None:
    file = io.StringIO()
    with progress_bars(Console(file=file, force_terminal=False)) as progress:
        progress("reading", 1, 2)
        progress("reading", 2, 2)
    assert file.getvalue() == ""

"""The progress bar, on a terminal that is not one."""

import io
import sys

import pytest
from rich.console import Console

from pixpnet.commands.progress import progress_bar


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

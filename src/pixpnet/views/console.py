"""Where commands print: nothing that came from a file, a name or a log is obeyed by the terminal.

`visible_output` stands between `sys.stdout` and `sys.stderr` and everything that is written there; rich, whose bars
need the terminal's obedience, gets a console that makes the text in it visible instead.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from pixpnet.messages import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console


class _Visible:
    """A stream that shows what a terminal would obey; in everything else the stream that it writes to."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes text, made visible."""
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def visible_output() -> Iterator[None]:
    """Makes what is written to stdout and stderr visible; inside another one, and inside rich's bars, too."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("Any", _Visible(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def plain_console(stderr: bool = True, **options: Any) -> Console:
    """A console of rich, for tables and bars, whose text is made visible."""
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

    class VisibleConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)  # before its width is measured

        def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
            for segment in super().render(*args, **kwargs):
                # Only rich itself makes segments that control the terminal.
                yield segment if segment.control else segment._replace(text=visible(segment.text))

    stream: Any = sys.stderr if stderr else sys.stdout
    while isinstance(stream, _Visible):
        stream = stream.stream
    return VisibleConsole(file=stream, **options)

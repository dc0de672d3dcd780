"""Runs a page of the documentation from top to bottom, and compares what it prints with what the page says.

Python blocks share one namespace; lines of sh blocks that call pixpnet run in this process, others (pip, make) do not
run. A block with a title is saved under that name. A text block behind either is what it prints, where `...` stands for
anything. A comment `<!-- numbers differ -->` in front of it leaves its numbers uncompared: they depend on the
processor, or on pictures that are not here.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pixpnet.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Pages that are run from top to bottom.
EXECUTED = (
    DOCS / "index.md",
    *sorted((DOCS / "tutorials").glob("*.md")),
    *sorted((DOCS / "howto" / "extend").glob("*.md")),
)
_BLOCK = re.compile(r"(<!-- numbers differ -->\n)?```(python|sh|text)( title=\"(.+?)\")?\n(.*?)```", flags=re.DOTALL)
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e-?\d+)?")
# What stands behind it takes minutes, and is run by `make test-slow`.
_MINUTES = "<!-- minutes from here on -->"
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        language: python, sh or text.
        text: what is in it.
        numbers_differ: whether its numbers are left uncompared.
        file: the name of the file that it is to be saved as, instead of being run; empty for none.
    """

    language: str
    text: str
    numbers_differ: bool
    file: str


def blocks(page: Path, short: bool = False) -> list[Block]:
    """The blocks of a page that run, or that say what is printed; of its short part alone, if that is wanted."""
    text = page.read_text()
    parts = _BLOCK.findall(text.partition(_MINUTES)[0] if short else text)
    return [Block(language, text, bool(mark), file) for mark, language, _, file, text in parts]


def commands(block: Block) -> Iterator[str]:
    """The calls of pixpnet in a sh block, without what is said about them."""
    for line in block.text.replace("\\\n", " ").splitlines():
        command = " ".join(line.split("  #")[0].split(" # ")[0].split())
        if command.startswith("pixpnet "):
            yield command


def run_page(page: Path, short: bool = False) -> None:
    """Runs every block of a page and compares what each prints.

    Args:
        page: to run.
        short: only what stands above the comment that says that minutes follow.
    """
    names: dict[str, Any] = {"__name__": page.stem}
    printed = ""
    for block in blocks(page, short):
        if block.language == "text":
            compare(printed, block, page.name)
            continue
        if block.file:
            Path(block.file).write_text(block.text)
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if block.language == "python":
                exec(compile(block.text, str(page), "exec", dont_inherit=True), names)
            else:
                for command in commands(block):
                    code = _code(shlex.split(command)[1:])
                    # An audit answers by its code: 3 is a claim that does not hold.
                    expected = (0, 3) if command.startswith("pixpnet audit") else (0,)
                    assert code in expected, (page.name, command, code)
        printed = out.getvalue()


def compare(printed: str, block: Block, name: str) -> None:
    """Checks that a block says what was printed."""
    said, came = _plain(block.text, block), _plain(printed, block)
    pattern = ".*?".join(re.escape(piece) for piece in said.split("..."))
    assert re.fullmatch(pattern, came, flags=re.DOTALL), f"{name} says:\n{said}\nprinted was:\n{came}"


def _plain(text: str, block: Block) -> str:
    text = "\n".join(line.rstrip() for line in _COLORS.sub("", text).strip().splitlines())
    if block.numbers_differ:  # columns move with the digits in them
        text = re.sub(r"[ ─━]+", " ", _NUMBER.sub("0", text))
    return text


def _code(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)

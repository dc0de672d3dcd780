"""One spelling of options on the whole command line, and what to say where another one came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pixpnet.option_names import option_of, renamed_option

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser


def spell(parser: ArgumentParser) -> None:
    """Gives the options of a parser, which has them by the names of fields, the names that people type."""
    for action in parser._actions:
        if not any(option.startswith("--") for option in action.option_strings):
            continue
        for option in action.option_strings:
            del parser._option_string_actions[option]
        action.option_strings = [_spelt(option) for option in action.option_strings]
        parser._option_string_actions.update(dict.fromkeys(action.option_strings, action))
        if "--print-config" in action.option_strings:
            action.metavar = "[=FLAGS]"  # without what a terminal would obey
        elif action.metavar is None and action.choices is None and action.nargs != 0:
            name = action.option_strings[-1].removeprefix("--").rpartition(".")[2]
            action.metavar = name.replace("-", "_").upper()


def _spelt(option: str) -> str:
    if not option.startswith("--"):
        return option
    name, plus, _ = option.removeprefix("--").partition("+")
    return option_of(name.replace("-", "_")) + plus


def misspelt(words: Sequence[str], known: Iterable[str]) -> str | None:
    """What is wrong with the first word that is no option of a command, and what may have been meant; None if none is.

    >>> misspelt(["--epoch", "3"], ["--epochs", "--seed"])
    'there is no option --epoch: did you mean --epochs?'
    >>> misspelt(["--own_code"], ["--trust-code"])
    '--own_code is now --trust-code'
    """
    options = set(known)
    for word in words:
        if word == "--":
            return None
        name = word.partition("=")[0]
        if not name.startswith("--") or name in options:
            continue
        today = renamed_option(name)
        if today in options:
            return f"{name} is now {today}"
        near = get_close_matches(name, options, n=1, cutoff=0.6)
        inside = sorted(option for option in options if len(name) > 4 and name[2:] in option)
        meant = near or inside[:1]
        return f"there is no option {name}" + (f": did you mean {meant[0]}?" if meant else "; --help lists them all")
    return None

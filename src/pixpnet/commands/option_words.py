"""Options as words of a command line, and as nested values."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any


def value_in(words: Sequence[str], option: str, default: str) -> str:
    """The last value of an option in either spelling."""
    last = default
    for word, following in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name == option:
            last = value if equals else following
    return last


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested options under the names that they have on the command line.

    >>> flat({"optimization": {"epochs": 3}, "frame": None})
    {'optimization.epochs': 3, 'frame': None}
    """
    named: dict[str, Any] = {}
    for name, value in values.items():
        named |= flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return named


def is_number_as_text(value: object) -> bool:
    """Whether YAML took a number for text, as it does with 1e-3.

    >>> is_number_as_text("1e-3"), is_number_as_text("many")
    (True, False)
    """
    try:
        return isinstance(value, str) and float(value) == float(value)
    except ValueError:
        return False

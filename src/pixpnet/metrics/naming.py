"""Things that are chosen by name: one check, and one sentence where there is no such thing."""

from collections.abc import Iterable
from typing import TypeVar

Name = TypeVar("Name", bound=str)


def known_name(kind: str, name: str, known: Iterable[Name]) -> Name:
    """The name, as one of those that there are.

    Args:
        kind: what has such names, for the error.
        name: that was given.
        known: all that there are.

    Raises:
        ValueError: if it is none of them.

    >>> known_name("attack", "pgd", ("noise", "pgd"))
    'pgd'
    """
    names = list(known)
    if name not in names:
        raise ValueError(f"no {kind} is called {name!r}: choose one of {', '.join(names)}")
    return names[names.index(name)]

"""Errors about networks that were asked for by name, and the names that are nearest."""

from difflib import get_close_matches


class UnknownModel(ValueError):
    """A name that stands for no network; the message names the nearest ones."""


class InputSizeError(ValueError):
    """A network that cannot be built for inputs of some size; the message says which sizes it takes."""


def nearest_names(name: str, known: list[str]) -> str:
    """The end of a message: up to four known names that are like this one.

    >>> nearest_names("resnet17", ["resnet18", "vgg16"])
    "; did you mean 'resnet18'?"
    """
    near = get_close_matches(name, known, n=4, cutoff=0.5)
    return f"; did you mean {', '.join(map(repr, near))}?" if near else ""

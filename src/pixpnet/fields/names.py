"""Names of layers taken apart: ``relu#2`` is the second call of a module, ``branch[0]`` one of its results."""

import re
from typing import NamedTuple


class LayerName(NamedTuple):
    """A module, which call of it (0 for the last), and which of several results ("" for the only one)."""

    path: str
    call: int
    part: str


def parse_layer(name: str) -> LayerName:
    """Takes a name of `Fields` apart.

    >>> parse_layer("blocks.2.relu#2"), parse_layer("branch[out]")
    (LayerName(path='blocks.2.relu', call=2, part=''), LayerName(path='branch', call=0, part='out'))
    """
    match = re.fullmatch(r"(?P<path>[^#\[]*)(#(?P<call>\d+))?(\[(?P<part>[^\]]*)\])?", name)
    if match is None:
        raise ValueError(f"{name!r} names no layer: write a module's path, PATH#CALL or PATH[PART]")
    return LayerName(match["path"], int(match["call"] or 0), match["part"] or "")

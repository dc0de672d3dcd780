"""Tables for people, on a terminal."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with its cells under each other.

    >>> aligned([("cut", "field"), ("layer1", "3 %")])
    ['cut     field', 'layer1  3 %']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}s}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

"""Numbers and tables as people read them: one percent sign, one way to lay out columns."""

from collections.abc import Collection, Sequence


def percent(fraction: float) -> str:
    """A fraction as a person reads it; the digits follow its size, only a whole is 100 %, and only nothing is 0 %.

    >>> percent(0.1574), percent(0.00018), percent(0.99999999), percent(1.0)
    ('15.7 %', '0.018 %', '99.999 %', '100 %')
    >>> percent(0.0), percent(2e-9)
    ('0 %', 'under 0.001 %')
    """
    value = 100 * fraction
    if value >= 99.95:
        return "100 %" if fraction == 1.0 else f"{min(value, 99.999):.3f} %"
    return f"{value:.3g} %" if value >= 0.001 or fraction == 0 else "under 0.001 %"


def probability(share: float) -> str:
    """A softmax as a person reads it: it is never certain, and near its ends it has more digits than meaning.

    >>> probability(0.99999), probability(1.0), probability(0.714), probability(0.00001)
    ('over 99.9 %', 'over 99.9 %', '71.4 %', 'under 0.1 %')
    """
    if 0.001 <= share <= 0.999:
        return percent(share)
    return "over 99.9 %" if share > 0.5 else "under 0.1 %"


def called(prototype: int, name: str = "") -> str:
    """A prototype by its number and, where a person gave it one, its name.

    >>> called(7), called(7, "red belly")
    ('prototype 7', 'prototype 7 (red belly)')
    """
    return f"prototype {prototype} ({name})" if name else f"prototype {prototype}"


def times(numbers: Sequence[object]) -> str:
    """Sizes as a person reads them: ``3 x 3``."""
    return " x ".join(map(str, numbers)) if numbers else "1"


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """A line for each row, with its cells under each other.

    Args:
        rows: of as many cells each.
        right: columns, by their numbers, that are set flush right.

    >>> aligned([("cut", "field"), ("layer1", "3 %")], right=[1])
    ['cut     field', 'layer1    3 %']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

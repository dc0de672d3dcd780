"""Numbers and tables as people read them: one percent sign, one way to lay out columns."""

from collections.abc import Collection, Sequence


def percent(fraction: float) -> str:
    """A fraction as a person reads it; the digits follow its size, and only a whole is 100 %.

    >>> percent(0.1574), percent(0.00018), percent(0.99999999), percent(1.0)
    ('15.7 %', '0.018 %', '99.999 %', '100 %')
    """
    value = 100 * fraction
    if value >= 99.95:
        return "100 %" if fraction == 1.0 else f"{min(value, 99.999):.3f} %"
    return f"{value:.3g} %"


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

"""The layers of a network as a table that a person reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One layer: its fields in a few numbers. Fractions are 0 to 1."""

    layer: str
    paper_name: str
    shape: tuple[int, ...]
    mean_fraction: float
    mean_fraction_union: float
    stride: tuple[float | None, ...]
    size: tuple[int, ...]
    is_solid: bool

    def cells(self) -> tuple[str, ...]:
        """The row as a person reads it, fractions in percent."""
        return (
            f"{self.layer} ({self.paper_name})" if self.paper_name else self.layer,
            times(self.shape),
            percent(self.mean_fraction),
            percent(self.mean_fraction_union),
            times(["-" if s is None else f"{s:g}" for s in self.stride]),
            times(self.size),
            "yes" if self.is_solid else "no",
        )


HEADER = ("layer", "output", "mean field", "channels united", "stride", "field size", "solid")


@dataclass(frozen=True)
class FieldTable:
    """The rows of all layers; ``str`` lays them out in plain text."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        lines = [HEADER, *(row.cells() for row in self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(HEADER))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if k in (0, 1) else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


def percent(fraction: float) -> str:
    """A fraction as a person reads it; the digits follow its size.

    >>> percent(0.1574), percent(0.00018), percent(1.0)
    ('15.7 %', '0.018 %', '100 %')
    """
    value = 100 * fraction
    if value >= 99.95:
        return "100 %" if fraction == 1.0 else f"{value:.3f} %"
    return f"{value:.3g} %"


def times(numbers: Sequence[object]) -> str:
    """Sizes as a person reads them: ``3 x 3``."""
    return " x ".join(map(str, numbers)) if numbers else "1"

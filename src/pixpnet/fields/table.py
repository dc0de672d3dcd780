"""The layers of a network as a table that a person reads."""

from collections.abc import Iterator
from dataclasses import dataclass

from pixpnet.wording import aligned, percent, times


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
        return "\n".join(aligned([HEADER, *(row.cells() for row in self.rows)], right=range(2, len(HEADER))))

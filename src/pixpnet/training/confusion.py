"""Which classes images were given to: a table of classes x classes that is kept as the few entries that are not 0.

A thousand classes have a million entries, of which fifty thousand images can fill at most fifty thousand. In files a
table of few classes is written as its rows, which a person reads; a larger one as its entries.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from jaxtyping import Int64
from torch import Tensor

from pixpnet.records import BadRecord

# Tables of more classes are written as entries.
ROWS_UP_TO = 64


class ConfusionTable(Sequence[tuple[int, ...]]):
    """For each true class, how many images were given to each class; a sequence of rows.

    >>> import torch
    >>> found = ConfusionTable.of_answers(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2)
    >>> list(found), found.right, found.images
    ([(1, 1), (0, 1)], 2, 3)
    """

    def __init__(self, classes: int, entries: Iterable[tuple[int, int, int]]) -> None:
        """Takes entries that are not 0.

        Args:
            classes: how many there are.
            entries: true class, given class, and how many images; each pair of classes once.

        Raises:
            ValueError: if an entry is not of these classes, is not positive, or comes twice.
        """
        rows: dict[int, dict[int, int]] = {}
        for truth, given, images in entries:
            row = rows.setdefault(truth, {})
            if not (0 <= truth < classes and 0 <= given < classes) or images < 1 or given in row:
                raise ValueError(f"no entry of a table of {classes} classes: {(truth, given, images)}")
            row[given] = images
        self.classes = classes
        self._rows: Mapping[int, Mapping[int, int]] = {
            truth: dict(sorted(rows[truth].items())) for truth in sorted(rows)
        }

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> "ConfusionTable":
        """From all counts, a row for each true class."""
        if any(len(row) != len(rows) for row in rows):
            raise ValueError(f"a table of {len(rows)} classes has as many columns, got {[len(row) for row in rows]}")
        pairs = ((truth, given, count) for truth, row in enumerate(rows) for given, count in enumerate(row))
        return cls(len(rows), ((truth, given, count) for truth, given, count in pairs if count))

    @classmethod
    def of_answers(
        cls, labels: Int64[Tensor, " images"], answers: Int64[Tensor, " images"], classes: int
    ) -> "ConfusionTable":
        """From the true class and the answer of each image."""
        pairs, counts = (classes * labels + answers).unique(return_counts=True)
        counted = zip(pairs.tolist(), counts.tolist(), strict=True)
        return cls(classes, ((pair // classes, pair % classes, count) for pair, count in counted))

    @property
    def images(self) -> int:
        """How many images there are."""
        return sum(sum(row.values()) for row in self._rows.values())

    @property
    def right(self) -> int:
        """How many were given their own class."""
        return sum(row.get(truth, 0) for truth, row in self._rows.items())

    @property
    def entries(self) -> tuple[tuple[int, int, int], ...]:
        """True class, given class and number of images, wherever that is not 0."""
        return tuple((truth, given, count) for truth, row in self._rows.items() for given, count in row.items())

    def given(self, truth: int) -> Mapping[int, int]:
        """To which classes the images of a class were given, and how many."""
        return self._rows.get(truth, {})

    def to_plain(self) -> Any:
        """Rows of few classes, entries of many; see `pixpnet.records.PlainForm`."""
        if self.classes <= ROWS_UP_TO:
            return [list(row) for row in self]
        # One list for each class that has images: the class, then pairs of a class and a number of images.
        entries = [[truth, *(n for pair in row.items() for n in pair)] for truth, row in self._rows.items()]
        return {"classes": self.classes, "given": entries}

    @classmethod
    def from_plain(cls, value: Any, where: str) -> "ConfusionTable":
        """What `to_plain` gave; rows may be of any number of classes, as earlier versions wrote them.

        Raises:
            BadRecord: if it is neither.
        """
        lists = value["given"] if isinstance(value, dict) and set(value) == {"classes", "given"} else value
        if not isinstance(lists, list) or not all(isinstance(row, list) for row in lists):
            raise BadRecord(f"{where}: expected rows of counts, or the fields classes and given")
        numbers = [number for row in lists for number in row]
        classes = value["classes"] if isinstance(value, dict) else len(lists)
        if not all(type(number) is int for number in (*numbers, classes)):
            raise BadRecord(f"{where}: expected whole numbers")
        try:
            if not isinstance(value, dict):
                return cls.of_rows(lists)
            pairs = [(row[0], zip(row[1::2], row[2::2], strict=True)) for row in lists]
            return cls(classes, [(truth, given, count) for truth, row in pairs for given, count in row])
        except (ValueError, IndexError) as error:
            raise BadRecord(f"{where}: {error}") from error

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[int, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, ...] | Sequence[tuple[int, ...]]:
        if isinstance(index, slice):
            return [self[truth] for truth in range(*index.indices(self.classes))]
        truth = range(self.classes)[index]
        row = self._rows.get(truth, {})
        return tuple(row.get(given, 0) for given in range(self.classes))

    def __len__(self) -> int:
        return self.classes

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return (self[truth] for truth in range(self.classes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfusionTable):
            return NotImplemented
        return (self.classes, self.entries) == (other.classes, other.entries)

    def __hash__(self) -> int:
        return hash((self.classes, self.entries))

    def __repr__(self) -> str:
        return f"ConfusionTable({self.classes}, {list(self.entries)})"

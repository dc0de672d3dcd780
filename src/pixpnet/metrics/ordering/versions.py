"""Which cells of a tensor change at which step of a block, and where the values of that moment are.

A block is a run of steps; at each step one pixel changes. A *version* is a (cell, step) at which a cell may get another
value. A tensor's values lie in one `Store`, a row for each: first the cells as they were before the block, then two
rows of padding, then the versions. So the value of a cell at a step is one row number, and reading is a gather of rows.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

# Rows of padding behind the cells: what a convolution reads outside the image, and what a max-pool does.
PADDING_ROWS = 2


class Versions:
    """The versions of one tensor within a block, in the order of cells and then of steps.

    Attributes:
        keys: ``cell * block + step``, ascending.
        cells, steps: the same taken apart.
        count: how many cells the tensor has.
        block: how many steps the block has.

    >>> versions = Versions(torch.tensor([2 * 4 + 1, 2 * 4 + 3]), count=3, block=4)
    >>> versions.cells.tolist(), versions.steps.tolist()
    ([2, 2], [1, 3])
    """

    def __init__(self, keys: Int64[Tensor, " versions"], count: int, block: int) -> None:
        self.keys, self.count, self.block = keys, count, block
        self.cells = keys // block
        self.steps = keys - self.cells * block

    def __len__(self) -> int:
        return len(self.keys)

    def reaching(self, readers: Int64[Tensor, "cells readers"], count: int) -> "Versions":
        """The versions of a tensor whose cells read this one's: a reader has a version whenever one it reads has.

        Args:
            readers: for each cell those that read it, filled up with `count`.
            count: how many cells that tensor has.
        """
        candidates = (readers[self.cells] * self.block + self.steps[:, None]).flatten()
        return Versions(_distinct(candidates, count * self.block), count, self.block)

    def united(self, other: "Versions") -> "Versions":
        """What has a version in one of two tensors of the same cells."""
        if other is self or torch.equal(self.keys, other.keys):
            return self
        keys = _distinct(torch.cat([self.keys, other.keys]), self.count * self.block)
        return Versions(keys, self.count, self.block)


class Store:
    """The values of a tensor before a block and its versions within, a row each.

    The table `_latest` says for each cell and step which row holds the value of that moment. Only the lines of cells
    that change in a block are written, and put back after it.
    """

    def __init__(self, count: int, channels: int, block: int, like: Tensor) -> None:
        self.count, self.block = count, block
        self._rows = like.new_empty(count + PADDING_ROWS, channels)
        self._rows[count] = 0
        self._rows[count + 1] = -torch.inf
        cells = torch.arange(count + PADDING_ROWS, device=like.device)
        self._latest = cells[:, None].repeat(1, block)
        self._touched = cells[:0]
        self._last = cells[:0]

    @property
    def rows(self) -> Float[Tensor, "rows channels"]:
        """All of them; see `latest` for which is which."""
        return self._rows

    @property
    def cells(self) -> Float[Tensor, "cells channels"]:
        """The cells as they were before the block."""
        return self._rows[: self.count]

    def room(self, versions: int) -> Float[Tensor, "versions channels"]:
        """The rows of the block's versions, to be written."""
        first = self.count + PADDING_ROWS
        if len(self._rows) < first + versions:
            larger = self._rows.new_empty(first + versions + versions // 4, self._rows.shape[1])
            larger[:first] = self._rows[:first]
            self._rows = larger
        return self._rows[first : first + versions]

    def begin(self, versions: Versions) -> None:
        """Makes the versions of a block known; their values are written to `room`."""
        touched, counts = torch.unique_consecutive(versions.cells, return_counts=True)
        lines = touched[:, None].repeat(1, self.block)
        rows = torch.repeat_interleave(torch.arange(len(touched), device=touched.device), counts)
        first = self.count + PADDING_ROWS
        # Rows grow with the steps of a cell, and every version comes after every cell: the latest is the largest.
        lines[rows, versions.steps] = torch.arange(first, first + len(versions), device=touched.device)
        self._latest[touched] = lines.cummax(dim=1).values
        self._touched, self._last = touched, counts.cumsum(0) - 1

    def latest(self, cells: Int64[Tensor, "*shape"], steps: Int64[Tensor, "*#shape"]) -> Int64[Tensor, "*shape"]:
        """The row that holds each cell's value at a step; a cell that is padding has its own row."""
        return self._latest.flatten()[cells * self.block + steps]

    def at_every_step(self, steps: int) -> Float[Tensor, "steps cells channels"]:
        """The whole tensor after each of the first steps of the block."""
        rows = self._latest[: self.count, :steps].T.reshape(-1)
        values: Tensor = self._rows.index_select(0, rows).unflatten(0, (steps, self.count))
        return values

    def advance(self) -> None:
        """Makes the end of the block the beginning of the next one; values are moved, never added to."""
        self._rows[self._touched] = self._rows[self._last + self.count + PADDING_ROWS]
        self._latest[self._touched] = self._touched[:, None]


def _distinct(keys: Int64[Tensor, " keys"], end: int) -> Int64[Tensor, " distinct"]:
    """The different ones below an end, ascending."""
    if len(keys) * 32 < end:  # few among many: sorting is faster than a mask of everything
        distinct: Tensor = torch.unique(keys)
        return distinct[distinct < end]
    mask = torch.zeros(int(end) + 1, dtype=torch.bool, device=keys.device)
    mask[keys.clamp_max(end)] = True
    return mask[:end].nonzero().flatten()

"""Which cells a cell of a convolution or pooling reads, and which cells read it, as tables of row numbers."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True)
class Window:
    """How an operation moves over rows and columns, each as (down, across).

    Attributes:
        size: rows and columns of the input.
        out_size: those of the result.
        kernel, stride, padding, dilation: as torch has them; padding at the top and left.
    """

    size: tuple[int, int]
    out_size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def count(self) -> int:
        """How many cells the result has."""
        return self.out_size[0] * self.out_size[1]

    @property
    def is_pointwise(self) -> bool:
        """Each cell reads itself alone."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0)

    def taps(self, outside: int) -> Int64[Tensor, "cells taps"]:
        """For each cell of the result what it reads: cells of the input row by row, or `outside`.

        >>> Window((1, 3), (1, 3), (1, 3), (1, 1), (0, 1), (1, 1)).taps(outside=9).tolist()
        [[9, 0, 1], [0, 1, 2], [1, 2, 9]]
        """
        down, across = (self._along(axis) for axis in (0, 1))
        inside = ((down >= 0) & (down < self.size[0]))[:, None, :, None]
        inside = inside & ((across >= 0) & (across < self.size[1]))[None, :, None, :]
        cells = down[:, None, :, None] * self.size[1] + across[None, :, None, :]
        return cells.where(inside, outside).reshape(self.count, -1)

    def _along(self, axis: int) -> Int64[Tensor, "positions taps"]:
        starts = torch.arange(self.out_size[axis]) * self.stride[axis] - self.padding[axis]
        return starts[:, None] + torch.arange(self.kernel[axis]) * self.dilation[axis]


def readers(taps: Int64[Tensor, "cells taps"], count: int) -> Int64[Tensor, "inputs readers"]:
    """For each of `count` cells of the input those that read it, filled up with the number of cells of the result.

    >>> readers(torch.tensor([[9, 0, 1], [0, 1, 2], [1, 2, 9]]), 3).tolist()
    [[0, 1, 3], [0, 1, 2], [1, 2, 3]]
    """
    outputs = torch.arange(len(taps))[:, None].expand_as(taps)[taps < count]
    inputs = taps[taps < count]
    # A cell that reads another one twice is still one reader.
    pairs = torch.unique(inputs * len(taps) + outputs)
    inputs, outputs = pairs // len(taps), pairs % len(taps)
    counts = torch.bincount(inputs, minlength=count)
    offset = torch.arange(len(inputs)) - (counts.cumsum(0) - counts)[inputs]
    table = torch.full((count, int(counts.max()) if count else 0), len(taps))
    table[inputs, offset] = outputs
    return table

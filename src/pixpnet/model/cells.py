"""From what a network gives at a cut to cells: channels first, tokens where their patches were, windows pooled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.fields import Field, Fields
from pixpnet.model.errors import CutError
from pixpnet.windows import Windows, window_starts

# A class token, one for distillation, and registers.
_MOST_TOKENS_BEFORE = 8


class WindowGrid(NamedTuple):
    """How many windows a batch of them holds."""

    images: int
    rows: int
    cols: int


class Tokens(NamedTuple):
    """The tokens of a transformer as a grid: so many (class token, registers) stand before those of patches."""

    before: int
    grid: tuple[int, int]


def tokens_of(field: Field, fields: Fields) -> Tokens | None:
    """The grid of a layer whose output is tokens; None if it is not.

    Its tokens are those of patches if an earlier layer has as many cells with as many channels: the patches themselves.
    """
    if len(field.shape) != 2 or field.channel_dim != 1:
        return None
    tokens, channels = field.shape
    for name in fields:
        patches = fields[name]
        if len(patches.shape) == 3 and patches.channel_dim == 0 and patches.shape[0] == channels:
            rows, cols = patches.shape[1:]
            if 0 <= tokens - rows * cols <= _MOST_TOKENS_BEFORE:
                return Tokens(tokens - rows * cols, (rows, cols))
    return None


@dataclass(frozen=True)
class CellLayout:
    """How cells lie in what a network gives at its cut.

    Attributes:
        part: which of several results; "" for the only one.
        channel_dim: of one image's output.
        tokens: where the output is tokens.
    """

    part: str
    channel_dim: int
    tokens: Tokens | None

    def cells(self, output: Any, windows: WindowGrid | None) -> Float[Tensor, "batch channels rows cols"]:
        """The cells; of windows, where there are some, the mean of each."""
        if windows is not None:
            return as_grid(self.pooled(output), windows)
        output = self._chosen(output)
        channel_dim = self.channel_dim + 1
        if self.tokens is not None:
            tokens: Tensor = output[:, self.tokens.before :].unflatten(1, self.tokens.grid)
            return tokens.permute(0, 3, 1, 2)
        cells: Tensor = output.permute(0, 3, 1, 2) if channel_dim == 3 else output
        return cells

    def pooled(self, output: Any) -> Float[Tensor, "windows channels"]:
        """What each window of a batch of them comes to: the mean of what the network gives for it."""
        output = self._chosen(output)
        others = [dim for dim in range(1, output.dim()) if dim != self.channel_dim + 1]
        pooled: Tensor = output.mean(dim=others) if others else output
        return pooled

    def _chosen(self, output: Any) -> Any:
        return output[self.part if isinstance(output, Mapping) else int(self.part)] if self.part else output


def as_grid(
    pooled: Float[Tensor, "windows channels"], windows: WindowGrid
) -> Float[Tensor, "batch channels rows cols"]:
    """What windows came to, as rows and columns of cells."""
    return torch.permute(pooled.unflatten(0, windows), (0, 3, 1, 2))


def cut_windows(
    maps: Float[Tensor, "batch channels height width"], size: int, stride: int
) -> tuple[Float[Tensor, "windows channels {size} {size}"], WindowGrid]:
    """Overlapping windows as a batch, image by image and row by row, and how many.

    They have the channels last in memory, as convolutions want them, and are cut in that order: long runs of memory are
    copied, which takes a third of the time.
    """
    indices = []
    for length in maps.shape[2:]:
        starts = window_starts(length, size, stride)
        indices.append((len(starts), [start + step for start in starts for step in range(size)]))
    (rows, down), (cols, across) = indices
    cut = maps.permute(0, 2, 3, 1).index_select(1, torch.tensor(down, device=maps.device)).unflatten(1, (rows, size))
    cut = cut.index_select(3, torch.tensor(across, device=maps.device)).unflatten(3, (cols, size))
    windows = cut.permute(0, 1, 3, 2, 4, 5).flatten(0, 2)
    return windows.permute(0, 3, 1, 2), WindowGrid(maps.shape[0], rows, cols)


def input_size(size: tuple[int, int], windows: Windows | None) -> tuple[int, int]:
    """Height and width of what a network is run on.

    Raises:
        CutError: if a window does not fit into the images.
    """
    if windows is None:
        return size
    if windows.size > min(size):
        raise CutError(
            f"a window of {windows.size} pixels does not fit into images of {size[0]} x {size[1]}: take a smaller one "
            "(--window), or larger images (--size)"
        )
    return size if windows.start else (windows.size, windows.size)


def size_in_cells(windows: Windows, fields: Fields, size: tuple[int, int]) -> tuple[int, int]:
    """Size and stride of windows in cells of the map that they are cut from.

    Raises:
        CutError: if it is no map.
    """
    if not windows.start:
        return windows.size, windows.stride
    layer = fields[windows.start]
    if len(layer.shape) != 3 or layer.channel_dim != 0:
        raise CutError(
            f"windows cannot be cut at '{windows.start}', whose output has the shape {layer.shape}: choose a layer "
            "with channels, rows and columns"
        )
    pixels = size[0] / layer.shape[1]
    cells = max(1, round(windows.size / pixels))
    return cells, min(cells, max(1, round(windows.stride / pixels)))

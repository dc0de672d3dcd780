"""The field of a layer: for every neuron of its output, the exact set of input pixels that it reads."""

from collections import Counter
from functools import cached_property
from math import prod

import numpy as np
import torch
from torch import Tensor

from pixpnet.fields import area, bits
from pixpnet.fields.region import AnyBox, Region
from pixpnet.fields.rules.taps import window_taps
from pixpnet.fields.sources import Sources
from pixpnet.shapes import Bool


class Field:
    """The receptive fields of all neurons of one layer.

    A *cell* is a position of the output (row and column); it has one neuron for each channel. After a
    concatenation the channels of a cell may see different pixels. ``mean_fraction`` then averages over every
    neuron, as the paper defines the mean receptive field, while ``mean_fraction_union`` averages over cells
    with their channels united: what a 1x1 convolution behind the layer sees, so what an explanation must show.

    Attributes:
        shape: the shape of the layer's output without the batch: ``(channels, rows, cols)`` for most.
        space: the size of the input in pixels: ``(height, width)``.
        channel_dim: which axis of ``shape`` holds the channels: the first, or the last of two (tokens, channels).
            Layers that keep the channels last are recognised by the field, which varies along the axes in
            front and not along the last; ``with_channels`` says it outright.
        inner: the field of the single cells that are read, where this is one of `reaching`; else None.
    """

    inner: "Field | None" = None

    def __init__(self, sources: Sources, channel_dim: int | None = None) -> None:
        self._sources = sources
        self.shape = sources.shape
        self.space = sources.space
        self.channel_dim = _channel_dim(sources) if channel_dim is None else channel_dim
        self._boxes: dict[tuple[int, ...], tuple[AnyBox, ...]] = {}

    # The size of the field ---------------------------------------------------------------------------------

    @property
    def mean_fraction(self) -> float:
        """The paper's mean receptive field, 0 to 1: the mean over every neuron of its share of the pixels."""
        return area.mean_area(self._sources) / prod(self.space)

    @property
    def mean_fraction_union(self) -> float:
        """The mean over cells, channels united, of the share of the pixels that the cell sees, 0 to 1."""
        return area.mean_area(self._cells) / prod(self.space)

    @cached_property
    def max_fraction(self) -> float:
        """The largest share of the pixels that a cell, channels united, sees."""
        return int(self._areas.max(initial=0)) / prod(self.space)

    @cached_property
    def sees_everything(self) -> bool:
        """Whether every cell sees the whole image, as behind attention or global pooling."""
        return bool((self._areas == prod(self.space)).all())

    @cached_property
    def fraction_that_sees_everything(self) -> float:
        """The share of the cells, channels united, that see the whole image, 0 to 1."""
        return float((self._areas == prod(self.space)).mean())

    @cached_property
    def is_solid(self) -> bool:
        """Whether every cell's field is one box without holes. An empty field is no box."""
        lengths = [spans[..., 1] - spans[..., 0] for spans in self._spans]
        return bool(((self._areas == prod(lengths)) & (self._areas > 0)).all())

    @cached_property
    def size(self) -> tuple[int, ...]:
        """The largest height and width of a cell's hull, in pixels, clipped to the image."""
        return tuple(int((spans[..., 1] - spans[..., 0]).max(initial=0)) for spans in self._spans)

    @cached_property
    def stride(self) -> tuple[float | None, ...]:
        """The step in pixels from one cell's hull to the next, down and across; None where no two can be compared."""
        return tuple(_step(spans, length) for spans, length in zip(self._spans, self.space, strict=True))

    # The field of one cell ---------------------------------------------------------------------------------

    def boxes(self, *cell: int, channel: int | None = None) -> list[AnyBox]:
        """The field of one cell as disjoint half-open boxes ``(y0, x0, y1, x1)``.

        Args:
            cell: the row and column, or whatever indices the layer has besides the channel.
            channel: one channel; by default the union over all channels.
        """
        if channel is not None:
            return self.region(*cell, channel=channel).boxes
        # Explanations ask for the same few hundred cells over and over; a field never changes.
        if cell not in self._boxes:
            self._boxes[cell] = tuple(self.region(*cell).boxes)
        return list(self._boxes[cell])

    def hull(self, *cell: int, channel: int | None = None) -> AnyBox | None:
        """The smallest box around the field of one cell, within the image; None where it is empty."""
        return self.region(*cell, channel=channel).hull

    def mask(self, *cell: int, channel: int | None = None) -> Bool[Tensor, "*space"]:
        """The field of one cell as booleans, height x width."""
        return self.region(*cell, channel=channel).mask

    def region(self, *cell: int, channel: int | None = None) -> Region:
        """The field of one cell as a record that knows its boxes, hull, mask and area."""
        index = list(cell)
        if channel is None:
            sources = self._cells
        else:
            sources = self._sources
            index.insert(self.channel_dim, channel)
        if len(index) != len(sources.shape):
            names = ", ".join(str(size) for k, size in enumerate(self.shape) if k != self.channel_dim)
            raise IndexError(
                f"{len(cell)} indices for a cell of a layer of shape {self.shape}, whose axis {self.channel_dim} "
                f"holds the channels; expected {len(self.shape) - 1}, one for each of the sizes ({names})"
            )
        return _region(sources, index)

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> Region:
        """The field of one neuron, ``field[channel, row, col]``, or the union over slices, ``field[:, 0:2, 3]``."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) > len(self.shape):
            raise IndexError(f"{len(indices)} indices for a layer of shape {self.shape}")
        sources = self._sources
        for dim, chosen in reversed(list(enumerate(indices))):
            if isinstance(chosen, slice):
                taps = np.arange(self.shape[dim])[chosen][:, None]
                sources = sources.take(dim, taps)
            else:
                sources = sources.take(dim, np.array([[_within(chosen, self.shape[dim], dim)]]))
        return _region(sources.reduce(range(len(sources.shape)), keepdim=False), [])

    def landmark_cells(self) -> dict[str, tuple[int, ...]]:
        """A corner, an edge and the centre cell of a layer with rows and columns; else its first cell."""
        sizes = [size for dim, size in enumerate(self.shape) if dim != self.channel_dim]
        if len(sizes) != 2 or min(sizes) < 3:
            return {"first": (0,) * len(sizes)}
        rows, cols = sizes
        return {"corner": (0, 0), "edge": (rows // 2, cols - 1), "center": (rows // 2, cols // 2)}

    def sees(self, *pixel: int) -> Bool[Tensor, "*shape"]:
        """Which neurons have this pixel in their field: the pixel's projective field, in the layer's shape.

        Args:
            pixel: the row and column in the input.
        """
        position = [_within(index, size, dim) for dim, (index, size) in enumerate(zip(pixel, self.space, strict=True))]
        atoms = [size for group in self._sources.atoms for size in group]
        seen = np.zeros(atoms, bool)
        for term in self._sources.terms:
            hit = term.mask
            for sets, index in zip(term.sets, position, strict=True):
                hit = hit & ((sets[..., index // 64] >> np.uint64(index % 64)) & np.uint64(1)).astype(bool)
            seen |= hit
        return torch.from_numpy(seen.reshape(self.shape))

    def separated(self) -> tuple[Bool[np.ndarray, "rows height"], Bool[np.ndarray, "cols width"]] | None:
        """What each row of cells sees of the rows of pixels, and each column of cells of their columns.

        None unless the field of every cell (channels united) is the product of the two, as behind convolutions and
        pooling; a field that is a union of several products, such as a cross, is not taken apart.
        """
        cells = self._cells
        if len(cells.shape) != 2 or len(cells.space) != 2 or len(cells.terms) > 1:
            return None
        if not cells.terms:
            return np.zeros((cells.shape[0], self.space[0]), bool), np.zeros((cells.shape[1], self.space[1]), bool)
        (term,) = cells.terms
        atoms = [size for group in cells.atoms for size in group]
        down, across = (np.broadcast_to(s, (*atoms, s.shape[-1])).reshape(*cells.shape, -1) for s in term.sets)
        seeing = np.broadcast_to(term.mask, atoms).reshape(cells.shape) & down.any(-1) & across.any(-1)
        rows, cols = np.asarray(seeing.any(1)), np.asarray(seeing.any(0))
        # Where a row of cells sees anything at all, every cell of it must see the same rows of pixels.
        by_row = np.where(rows[:, None], down[np.arange(len(rows)), seeing.argmax(1)], 0).astype(np.uint64)
        by_col = np.where(cols[:, None], across[seeing.argmax(0), np.arange(len(cols))], 0).astype(np.uint64)
        same = (down == by_row[:, None]).all(-1) & (across == by_col[None, :]).all(-1)
        if not (seeing == np.outer(rows, cols)).all() or not same[seeing].all():
            return None
        return bits.unpack(by_row, self.space[0]), bits.unpack(by_col, self.space[1])

    def with_channels(self, dim: int) -> "Field":
        """The same field with the channels on the axis ``dim``."""
        return Field(self._sources, dim % len(self.shape))

    def window(self, rows: int, cols: int) -> "Field":
        """The field of what reads windows of ``rows x cols`` cells, such as prototypes larger than 1 x 1.

        Cell (r, c) of the result is the window whose top left cell is (r, c).
        """
        sources = self._sources
        dims = [dim for dim in range(len(self.shape)) if dim != self.channel_dim]
        if len(dims) != 2:
            raise ValueError(f"a layer of shape {self.shape} has no rows and columns to lay a window on")
        for dim, extent in zip(dims, (rows, cols), strict=True):
            size = self.shape[dim]
            if not 1 <= extent <= size:
                raise ValueError(f"a window of {rows} x {cols} cells does not fit into a layer of shape {self.shape}")
            sources = sources.take(dim, window_taps(size, size - extent + 1, extent))
        return Field(sources, self.channel_dim)

    def reaching(self, steps: int) -> "Field":
        """The field of what reads all cells up to so many steps away, diagonals included; see `inner`."""
        sources = self._sources
        for dim in (dim for dim in range(len(self.shape)) if dim != self.channel_dim):
            size = self.shape[dim]
            sources = sources.take(dim, window_taps(size, size, kernel=2 * steps + 1, padding=steps))
        reached = Field(sources, self.channel_dim)
        reached.inner = self
        return reached

    def __repr__(self) -> str:
        return f"Field(shape={self.shape}, space={self.space}, mean_fraction={self.mean_fraction:.4f})"

    def _repr_html_(self) -> str:
        from pixpnet.fields.notebook import html_of_field

        return html_of_field(self)

    # Private -----------------------------------------------------------------------------------------------

    @cached_property
    def _cells(self) -> Sources:
        """The same with the channels united."""
        return self._sources.reduce([self.channel_dim], keepdim=False) if self.shape else self._sources

    @cached_property
    def _areas(self) -> np.ndarray:
        return area.areas(self._cells)

    @cached_property
    def _spans(self) -> list[np.ndarray]:
        return area.hulls(self._cells)


def _channel_dim(sources: Sources) -> int:
    *front, last = [sources.varies_along(dim) for dim in range(len(sources.shape))] or [False]
    if len(sources.shape) == 2:
        return 0 if last and not front[0] and sources.shape[0] > 1 else 1
    return len(front) if front and all(front) and not last and sources.shape[-1] > 1 else 0


def _region(sources: Sources, index: list[int]) -> Region:
    """The field of one element."""
    position: list[int] = []
    for dim, (chosen, atoms) in enumerate(zip(index, sources.atoms, strict=True)):
        position += [int(i) for i in np.unravel_index(_within(chosen, sources.shape[dim], dim), atoms)] if atoms else []
    products = []
    for term in sources.terms:
        if term.mask[_clamped(position, term.mask)]:
            sets = [bits.unpack(s[_clamped(position, s)], n) for s, n in zip(term.sets, sources.space, strict=True)]
            if all(members.any() for members in sets):
                products.append(tuple(sets))
    return Region(tuple(products), sources.space)


def _clamped(position: list[int], array: np.ndarray) -> tuple[int, ...]:
    """The place in an array that has size 1 along what it does not depend on."""
    return tuple(min(i, size - 1) for i, size in zip(position, array.shape, strict=False))


def _within(index: int, size: int, dim: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"index {index} is outside axis {dim} of size {size}")
    return index % size


def _step(spans: np.ndarray, length: int) -> float | None:
    """The commonest step between neighbouring hulls, by those of their sides that the border does not clip."""
    if sum(size > 1 for size in spans.shape[:-1]) != 1:
        return None
    start, stop = spans.reshape(-1, 2).T
    left, right = (start > 0), (stop < length) & (stop > start)
    steps = [
        *np.diff(start)[left[1:] & left[:-1]].tolist(),
        *np.diff(stop)[right[1:] & right[:-1]].tolist(),
    ]
    return float(Counter(steps).most_common(1)[0][0]) if steps else None

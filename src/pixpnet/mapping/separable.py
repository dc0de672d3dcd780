"""Heat maps of fields that are products of rows and columns, as those of convolutions and pooling are.

The map of App. D is a maximum over cells and boxes of s x T, and T over a box of h x w pixels is a product of a
function of y and one of x, both with sigma = max(h, w). Where h >= w, sigma is h, whatever the column: for a row of cells the
maximum over its columns can be taken first, on single lines of pixels,

    max over (r, c) of s_rc T_r(y) T_c(x)  =  max over r of T_r(y) ( max over c of s_rc T_c(x) )        for s >= 0,

and the boxes that are wider than high are the same with rows and columns exchanged. So a map costs one product of two
lines for each row and for each column of cells, not one for each cell, and nothing is approximated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from pixpnet.fields import Field
from pixpnet.fields.bits import runs
from pixpnet.mapping.gaussian import squared_offsets

# Pixel rows that are painted at once, and numbers in a temporary tensor: what fits into a processor's cache.
_BAND = 32
_NUMBERS = 2**20


@dataclass(frozen=True)
class Bundle:
    """Boxes with one sigma each: those of a row of cells that are at least as high as wide, or of a column likewise.

    Attributes:
        cells: the row (or column) of cells of each.
        along: the Gaussian along that row's (column's) own axis of pixels, 0 outside.
        across: for every cell of the row (column) the Gaussian along the other axis of pixels, 0 outside.
    """

    cells: Int64[Tensor, " bundles"]
    along: Float[Tensor, "bundles own_pixels"]
    across: Float[Tensor, "bundles other_cells other_pixels"]

    def profiles(self, maps: Float[Tensor, "protos own_cells other_cells"]) -> Float[Tensor, "protos bundles pixels"]:
        """The maximum over the cells of each row (column), a line of pixels."""
        return (maps[:, self.cells, :, None] * self.across).amax(dim=2)


@dataclass(frozen=True)
class Band:
    """Neighbouring rows of pixels and the bundles that are seen there."""

    y0: int
    y1: int
    rows: Int64[Tensor, " row_bundles"]
    cols: Int64[Tensor, " col_bundles"]
    down: Float[Tensor, "row_bundles band 1"]
    across: Float[Tensor, "col_bundles 1 width"]


class SeparablePainter:
    """Paints the maps of one field, whose geometry it has worked out beforehand."""

    def __init__(self, by_row: Bundle, by_col: Bundle, size: tuple[int, int]) -> None:
        self.size = size
        self.by_row, self.by_col = by_row, by_col
        self.bands = list(_bands(by_row, by_col, size[0]))
        painted = max(
            ((band.y1 - band.y0) * size[1] * max(len(band.rows), len(band.cols)) for band in self.bands), default=1
        )
        # So many prototypes at once keep temporary tensors small.
        self.together = max(1, _NUMBERS // max(painted, by_row.across.numel(), by_col.across.numel(), 1))

    @classmethod
    def of(cls, field: Field, gaussian: bool, like: Tensor) -> "SeparablePainter | None":
        """The painter of a field, or None if that is no product; numbers of the type and on the device of ``like``."""
        sets = field.separated()
        if sets is None:
            return None
        down, across = (_Strips.of(members) for members in sets)
        governs = (
            down.lengths[:, None] >= across.lengths
            if gaussian
            else np.ones((len(down.lengths), len(across.lengths)), bool)
        )
        by_row = _bundle(down, across, governs, gaussian, like)
        by_col = _bundle(across, down, ~governs.T, gaussian, like)
        return cls(by_row, by_col, (sets[0].shape[1], sets[1].shape[1]))

    def paint(self, maps: Float[Tensor, "protos rows cols"]) -> Float[Tensor, "protos height width"]:
        """Maxima over cells of similarity x Gaussian; similarities are 0 or more."""
        painted = maps.new_zeros(len(maps), *self.size)
        for first in range(0, len(maps), self.together):
            self._paint(maps[first : first + self.together], painted[first : first + self.together])
        return painted

    def _paint(self, maps: Tensor, painted: Tensor) -> None:
        from_rows = self.by_row.profiles(maps)
        from_cols = self.by_col.profiles(maps.mT)
        for band in self.bands:
            part = painted[:, band.y0 : band.y1]
            if len(band.rows):
                torch.amax(from_rows[:, band.rows, None] * band.down, dim=1, out=part)
            if len(band.cols):
                seen = (from_cols[:, band.cols, band.y0 : band.y1, None] * band.across).amax(dim=1)
                torch.maximum(part, seen, out=part)


@dataclass(frozen=True)
class _Strips:
    """Runs of pixels along one axis: those of one cell row (or column) that have the same length are one strip.

    Attributes:
        cells: to which row (column) of cells each belongs.
        count: how many of those there are.
        lengths: of its runs.
        squares: squared distance to the centre of the run; infinite outside the runs.
    """

    cells: Int64[np.ndarray, " strips"]
    count: int
    lengths: Int64[np.ndarray, " strips"]
    squares: Float64[np.ndarray, "strips pixels"]

    @classmethod
    def of(cls, members: Bool[np.ndarray, "cells pixels"]) -> "_Strips":
        found: dict[tuple[int, int], np.ndarray] = {}
        for cell, line in enumerate(members):
            for start, stop in runs(line):
                squares = found.setdefault((cell, stop - start), np.full(len(line), np.inf))
                squares[start:stop] = squared_offsets(stop - start)
        cells, lengths = np.array(list(found), np.int64).reshape(-1, 2).T
        return cls(cells, len(members), lengths, np.array(list(found.values())).reshape(-1, members.shape[1]))


def _bundle(
    own: _Strips, other: _Strips, governs: Bool[np.ndarray, "own other"], gaussian: bool, like: Tensor
) -> Bundle:
    """Boxes whose sigma is the length of the strip of ``own``, as far as ``governs`` says so."""
    leading = np.flatnonzero(governs.any(1))
    along = np.zeros((len(leading), own.squares.shape[1]))
    across = np.zeros((len(leading), other.count, other.squares.shape[1]))
    for place, strip in enumerate(leading):
        sigma = float(own.lengths[strip]) if gaussian else np.inf
        along[place] = _spread(own.squares[strip], sigma)
        led = np.flatnonzero(governs[strip])
        # The strips of one cell have no pixel in common, so the larger is the one that is there.
        np.maximum.at(across[place], other.cells[led], _spread(other.squares[led], sigma))
    return Bundle(
        torch.from_numpy(own.cells[leading]).to(like.device),
        torch.from_numpy(along).to(like),
        torch.from_numpy(across).to(like),
    )


def _spread(squares: Float64[np.ndarray, "*shape"], sigma: float) -> Float64[np.ndarray, "*shape"]:
    """The Gaussian, 0 where the distance is infinite, whatever sigma."""
    return np.where(np.isfinite(squares), np.exp(-np.nan_to_num(squares, posinf=0) / (2 * sigma**2)), 0)


def _bands(by_row: Bundle, by_col: Bundle, height: int) -> Iterator[Band]:
    """Cuts the image where the hull of a row of cells begins or ends, and into bands of `_BAND` rows at most."""
    rows_see = by_row.along > 0
    cols_see = (by_col.across > 0).any(dim=1)
    edges = {0, height, *range(0, height, _BAND)}
    for line in rows_see.cpu().numpy():
        seen = np.flatnonzero(line)
        edges |= {int(seen[0]), int(seen[-1]) + 1}
    for y0, y1 in pairwise(sorted(edges)):
        rows = rows_see[:, y0:y1].any(dim=1).nonzero().flatten()
        cols = cols_see[:, y0:y1].any(dim=1).nonzero().flatten()
        yield Band(y0, y1, rows, cols, by_row.along[rows, y0:y1, None], by_col.along[cols, None])

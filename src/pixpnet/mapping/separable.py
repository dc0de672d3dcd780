"""Heat maps of fields that are products of rows and columns, as those of convolutions and pooling are.

The map of App. D is a maximum over cells and boxes of s x T, and T over a box of h x w pixels is a product of a
function of y and one of x, both with sigma = max(h, w). Where h >= w, sigma is h, whatever the column: for a row of
cells the maximum over its columns can be taken first, on single lines of pixels,

    max over (r, c) of s_rc T_r(y) T_c(x)  =  max over r of T_r(y) ( max over c of s_rc T_c(x) )        for s >= 0,

and the boxes that are wider than high are the same with rows and columns exchanged. So a map costs one product of two
lines for each row and for each column of cells, not one for each cell, and nothing is approximated.

The outer maximum is a matrix product with "max" for "plus", and torch has one that makes no temporary tensors and skips
zeros: ``torch.sparse.mm(..., reduce="amax")``. It runs on the CPU only.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from pixpnet.fields import Field
from pixpnet.fields.bits import runs
from pixpnet.mapping.gaussian import squared_offsets

# Numbers in a temporary tensor; decides how many prototypes are painted at once.
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


class SeparablePainter:
    """Paints the maps of one field, whose geometry it has worked out beforehand.

    A row of pixels y is a row of the sparse matrix. It holds the Gaussians T_r(y) of the rows of cells that see y, to
    be multiplied with their profiles along x, and the profiles at y of columns of cells, to be multiplied with T_c(x).
    """

    def __init__(self, by_row: Bundle, by_col: Bundle, size: tuple[int, int]) -> None:
        self.size = size
        self.by_row, self.by_col = by_row, by_col
        self.together = max(1, _NUMBERS // max(by_row.across.numel(), by_col.across.numel(), 1))
        rows, cols = len(by_row.cells), len(by_col.cells)
        # Columns of the matrix: first the columns of cells, which all prototypes share, then the rows of cells.
        values = torch.cat([by_col.across.new_zeros(cols, size[0]), by_row.along]).T
        seen = torch.cat([(by_col.across > 0).any(dim=1), by_row.along > 0]).T
        y, bundle = seen.nonzero(as_tuple=True)
        self.values = values[seen]
        self.profiled = (bundle < cols).nonzero().flatten()
        self.profile_places = (bundle * size[0] + y)[self.profiled]
        # The same once more for every further prototype, with rows of cells of its own.
        numbers = torch.arange(self.together)[:, None]
        self.columns = bundle + numbers * rows * (bundle >= cols)
        ends = seen.sum(dim=1).cumsum(dim=0)
        self.starts = torch.cat([ends.new_zeros(1), (ends + numbers * len(y)).flatten()])
        with warnings.catch_warnings():
            # Torch says once in a process that its sparse matrices are in beta. The tests hold them to Alg. 2.
            warnings.simplefilter("ignore", UserWarning)
            torch.eye(1).to_sparse_csr()

    @classmethod
    def of(cls, field: Field, gaussian: bool, like: Tensor) -> "SeparablePainter | None":
        """The painter of a field, for numbers of the type of ``like``; None if the field is no product."""
        sets = field.separated()
        if sets is None:
            return None
        down, across = (_Strips.of(members) for members in sets)
        # Without a Gaussian there is no sigma, and rows can lead everywhere.
        leads = down.lengths[:, None] >= (across.lengths if gaussian else np.zeros_like(across.lengths))
        by_row = _bundle(down, across, leads, gaussian, like)
        by_col = _bundle(across, down, ~leads.T, gaussian, like)
        return cls(by_row, by_col, (sets[0].shape[1], sets[1].shape[1]))

    def paint(self, maps: Float[Tensor, "protos rows cols"]) -> Float[Tensor, "protos height width"]:
        """Maxima over cells of similarity x Gaussian; similarities are 0 or more."""
        painted = maps.new_empty(len(maps), *self.size)
        for part, similarities in zip(painted.split(self.together), maps.split(self.together), strict=True):
            part.copy_(self._paint(similarities))
        return painted

    def _paint(self, maps: Float[Tensor, "protos rows cols"]) -> Float[Tensor, "protos height width"]:
        count = len(maps)
        values = self.values.repeat(count, 1)
        values[:, self.profiled] = self.by_col.profiles(maps.mT).flatten(1)[:, self.profile_places]
        lines = torch.cat([self.by_col.along, self.by_row.profiles(maps).flatten(0, 1)])
        matrix = torch.sparse_csr_tensor(
            self.starts[: count * self.size[0] + 1],
            self.columns[:count].flatten(),
            values.flatten(),
            (count * self.size[0], len(lines)),
            check_invariants=False,
        )
        painted: Tensor = torch.sparse.mm(matrix, lines, reduce="amax")
        return painted.view(count, *self.size)


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
        strips: dict[tuple[int, int], np.ndarray] = {}
        for cell, line in enumerate(members):
            for start, stop in runs(line):
                squares = strips.setdefault((cell, stop - start), np.full(len(line), np.inf))
                squares[start:stop] = squared_offsets(stop - start)
        cells, lengths = np.array(list(strips), np.int64).reshape(-1, 2).T
        return cls(cells, len(members), lengths, np.array(list(strips.values())).reshape(-1, members.shape[1]))


def _bundle(
    own: _Strips, other: _Strips, governs: Bool[np.ndarray, "own other"], gaussian: bool, like: Tensor
) -> Bundle:
    """Boxes whose sigma is the length of the strip of ``own``, as far as ``governs`` says so."""
    leading = np.flatnonzero(governs.any(1))
    along = np.zeros((len(leading), own.squares.shape[1]))
    across = np.zeros((len(leading), other.count, other.squares.shape[1]))
    for index, strip in enumerate(leading):
        sigma = float(own.lengths[strip]) if gaussian else np.inf
        along[index] = _spread(own.squares[strip], sigma)
        led = np.flatnonzero(governs[strip])
        # The strips of one cell have no pixel in common, so the larger is the one that is there.
        np.maximum.at(across[index], other.cells[led], _spread(other.squares[led], sigma))
    return Bundle(
        torch.from_numpy(own.cells[leading]).to(like.device),
        torch.from_numpy(along).to(like),
        torch.from_numpy(across).to(like),
    )


def _spread(squares: Float64[np.ndarray, "*shape"], sigma: float) -> Float64[np.ndarray, "*shape"]:
    """The Gaussian, 0 where the distance is infinite, whatever sigma."""
    return np.where(np.isfinite(squares), np.exp(-np.nan_to_num(squares, posinf=0) / (2 * sigma**2)), 0)

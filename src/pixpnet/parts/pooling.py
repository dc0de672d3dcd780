"""Which cell speaks for each prototype: the one place where maps become one number a prototype.

| pooling | cell of a prototype |
|---|---|
| `Nearest` | its own nearest cell, whatever the others take (the paper) |
| `Distinct` | the prototypes of a class share out the cells of an image, so that one place is not counted ten times |
| `Focal` | its own nearest cell, which scores by how it stands out from all cells (ProtoPool) |

`Distinct` goes nearest first: of all pairs of a prototype of the class and a cell that is still free, the nearest is
taken, then the next, until each prototype has a cell. (The assignment with the largest total similarity would take an
exact solver for each image and class, 6400 in a step of 32 images and 200 classes; and "the best match chose first"
can be said to a person.) On a dense grid neighbouring cells are one place too: with a `separation` of s, a cell that is
taken closes all cells fewer than s steps away (diagonals included) to the others of its class, as long as the image
has any cell left that is farther; then the rest take cells that are merely free.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.parts.similarities import Similarity

_GONE = float("inf")


class Pooled(NamedTuple):
    """One number for each prototype, and the number of the cell that it is from, row by row.

    Attributes:
        distances: the measure at the cell that speaks for each prototype.
        cells: the number of that cell.
        background: the mean of the measure over all cells, where the pooling compares with it; else None.
    """

    distances: Float[Tensor, "batch protos"]
    cells: Int64[Tensor, "batch protos"]
    background: Float[Tensor, "batch protos"] | None = None


class Pooling(ABC):
    """From maps of a measure to one score for each prototype, and the cell that it is from."""

    #: Whether a score is the similarity of its cell, so that it rests on the pixels which that cell sees and on which
    #: cell was chosen. Where it is more than that, this says what, as the end of a sentence about the score.
    beside_the_cell: str | None = None
    #: Whether the choice of cells is each prototype's own, so that bounds on distances are bounds on scores.
    independent: bool = True
    #: Why they are not, where they are not, as a sentence.
    unbounded: str = ""

    @abstractmethod
    def __call__(self, maps: Float[Tensor, "batch protos rows cols"]) -> Pooled:
        """The cell that speaks for each prototype."""

    def scores(
        self, pooled: Pooled, maps: Float[Tensor, "batch protos rows cols"], similarity: Similarity
    ) -> Float[Tensor, "batch protos"]:
        """The score of each prototype: the similarity of its cell."""
        return similarity(pooled.distances)

    def score_bounds(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest score, where similarities of cells lie between these."""
        return low, high

    @abstractmethod
    def check(self, grid: tuple[int, int]) -> None:
        """Says before any training that it cannot be done on a grid of so many rows and columns.

        Raises:
            ValueError: if it cannot.
        """


class Nearest(Pooling):
    """`pool_nearest`."""

    def check(self, grid: tuple[int, int]) -> None:
        """Any grid will do."""

    def __call__(self, maps: Tensor) -> Pooled:
        """See `Pooling`."""
        return pool_nearest(maps)


class Focal(Pooling):
    """The nearest cell, against the background of all cells: a prototype scores by what stands out.

    >>> from pixpnet.parts.similarities import Negated
    >>> maps = torch.tensor([[[[3.0, 1.0]]]])
    >>> Focal().scores(Focal()(maps), maps, Negated()).item()
    1.0
    """

    beside_the_cell = "the similarity of the mean distance over all cells is subtracted"
    independent = False
    unbounded = "a focal score rests on the mean distance over all cells, of which the smallest says nothing"

    def check(self, grid: tuple[int, int]) -> None:
        """Any grid will do."""

    def score_bounds(self, low: float, high: float) -> tuple[float, float]:
        """The smallest distance is at most the mean one, so no score is negative."""
        return 0.0, high - low

    def __call__(self, maps: Tensor) -> Pooled:
        """See `Pooling`."""
        return pool_nearest(maps)._replace(background=maps.mean(dim=(-2, -1)))

    def scores(self, pooled: Pooled, maps: Tensor, similarity: Similarity) -> Float[Tensor, "batch protos"]:
        """The similarity of the nearest cell minus that of the mean distance (`focal`)."""
        assert pooled.background is not None
        return focal(pooled.distances, pooled.background, similarity)


def focal(
    distances: Float[Tensor, "*shape"], background: Float[Tensor, "*shape"], similarity: Similarity
) -> Float[Tensor, "*shape"]:
    """How much more alike the smallest distance is than the mean one."""
    return similarity(distances) - similarity(background)


@dataclass(frozen=True)
class Distinct(Pooling):
    """`pool_distinct`.

    Attributes:
        per_class: how many prototypes of a class stand side by side.
        separation: how many steps their cells are apart, where the image has room.
    """

    per_class: int
    separation: int = 1
    independent = False
    unbounded = (
        "with distinct pooling the prototypes of a class share out the cells, and a small move of one may give another "
        "a far worse cell"
    )

    def __call__(self, maps: Tensor) -> Pooled:
        """See `Pooling`."""
        return pool_distinct(maps, self.per_class, self.separation)

    def check(self, grid: tuple[int, int]) -> None:
        """Refuses grids with fewer cells than prototypes of a class."""
        refuse_too_few_cells(grid, self.per_class)


def pool_nearest(maps: Float[Tensor, "batch protos rows cols"]) -> Pooled:
    """The nearest cell of each prototype; the first of several that are equally near.

    >>> pool_nearest(torch.tensor([[[[3.0, 1.0]], [[2.0, 1.5]]]])).cells.tolist()
    [[1, 1]]
    """
    flat = maps.flatten(2)
    if not _in_memory(maps):
        return Pooled(*flat.min(dim=-1))
    # NumPy's search takes many numbers at a time, PyTorch's one by one: a third of the time, and the same cells.
    cells = torch.from_numpy(flat.detach().numpy().argmin(axis=-1))
    return Pooled(flat.gather(2, cells[..., None]).squeeze(-1), cells)


def _in_memory(maps: Tensor) -> bool:
    """Whether NumPy can read it: numbers on the CPU, not shapes that are traced."""
    # torch.jit traces are no compilation, and would take the cells of their first image for all.
    traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if type(maps) is not Tensor or traced or torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return False
    if maps.device.type != "cpu" or maps.dtype not in (torch.float32, torch.float64):
        return False
    try:
        maps.data_ptr()
    except RuntimeError:  # under torch.func numbers have no place in memory
        return False
    return True


def pool_distinct(
    maps: Float[Tensor, "batch protos rows cols"], prototypes_per_class: int, separation: int = 1
) -> Pooled:
    """A cell of its own for each prototype of a class, nearest pair first; gradients flow through the chosen cells.

    Args:
        maps: the prototypes of a class stand side by side.
        prototypes_per_class: how many those are.
        separation: how many steps the cells of a class are apart, where the image has room.

    Raises:
        ValueError: if there are fewer cells than prototypes of a class.

    >>> pool_distinct(torch.tensor([[[[3.0, 1.0]], [[2.0, 1.5]]]]), prototypes_per_class=2).cells.tolist()
    [[1, 0]]
    """
    refuse_too_few_cells(maps.shape[-2:], prototypes_per_class)
    cells = _distinct_cells(maps.detach().unflatten(1, (-1, prototypes_per_class)), separation)
    return Pooled(maps.flatten(2).gather(2, cells[..., None]).squeeze(-1), cells)


def refuse_too_few_cells(grid: tuple[int, ...] | torch.Size, prototypes_per_class: int) -> None:
    """Says before any training that distinct pooling cannot be done.

    Raises:
        ValueError: if there are fewer cells than prototypes of a class.
    """
    rows, cols = grid
    if rows * cols < prototypes_per_class:
        raise ValueError(
            f"distinct pooling gives each of the {prototypes_per_class} prototypes of a class a cell of its own, and "
            f"an image has {rows} x {cols} cells: take a cut or windows with more cells (--window-stride), fewer "
            "prototypes (--architecture.prototypes-per-class), or --architecture.pooling max"
        )


def _distinct_cells(
    maps: Float[Tensor, "batch classes protos rows cols"], separation: int
) -> Int64[Tensor, "batch all_protos"]:
    batch, classes, protos, rows, cols = maps.shape
    table = maps.reshape(batch * classes, protos, rows * cols)
    near = torch.from_numpy(_near(rows, cols, separation)).to(table)
    groups = torch.arange(len(table), device=table.device)
    distances, places = table.min(dim=-1)
    chosen = torch.zeros_like(places)
    # Infinite where a cell is gone: adding it is several times faster than filling by a mask.
    taken = table.new_zeros(len(table), rows * cols)
    blocked = table.new_zeros(len(table), rows * cols)
    for turn in range(protos):
        winner = distances.argmin(dim=1)
        cell = places[groups, winner]
        chosen[groups, winner] = cell
        distances[groups, winner] = _GONE
        if turn == protos - 1:
            break
        taken[groups, cell] = _GONE
        blocked += near[cell]
        # Only those that had counted on a cell that is gone must look again.
        group, proto = ((blocked.gather(1, places) > 0) & (distances < _GONE)).nonzero(as_tuple=True)
        rest = table[group, proto]
        least, at = (rest + blocked[group]).min(dim=-1)
        crowded = least.isinf().nonzero().flatten()
        if len(crowded):
            least[crowded], at[crowded] = (rest[crowded] + taken[group[crowded]]).min(dim=-1)
        distances[group, proto], places[group, proto] = least, at
    return chosen.reshape(batch, classes * protos)


@lru_cache(maxsize=16)
def _near(rows: int, cols: int, separation: int) -> npt.NDArray[np.float32]:
    """Infinite for cells that are fewer than `separation` steps apart, diagonal ones included, and 0 for others.

    Not a tensor, which would belong to the mode (inference, export) in which somebody first asked for it.
    """
    cell = np.arange(rows * cols)
    down = np.abs(cell[:, None] // cols - cell // cols)
    across = np.abs(cell[:, None] % cols - cell % cols)
    return np.where(np.maximum(down, across) < separation, np.float32(_GONE), np.float32(0))

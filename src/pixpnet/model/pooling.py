"""Which cell speaks for each prototype: the one place where maps of distances become one number a prototype.

| pooling | cell of a prototype |
|---|---|
| `max` | its own nearest cell, whatever the others take (the paper) |
| `distinct` | the prototypes of a class share out the cells of an image, so that one place is not counted ten times |

`distinct` goes nearest first: of all pairs of a prototype of the class and a cell that is still free, the nearest is
taken, then the next, until each prototype has a cell. (The assignment with the largest total similarity would take an
exact solver for each image and class, 6400 in a step of 32 images and 200 classes; and "the best match chose first" can
be said to a person.) On a dense grid neighbouring cells are one place too: with a `separation` of s, a cell that is
taken keeps all cells fewer than s steps away (diagonals included) from the others of its class, as long as the image has
any cell left that is farther; then the rest take cells that are merely free.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

_GONE = float("inf")


class Pooled(NamedTuple):
    """One number for each prototype, and the number of the cell that it is from, row by row."""

    distances: Float[Tensor, "batch protos"]
    cells: Int64[Tensor, "batch protos"]


def pool_nearest(maps: Float[Tensor, "batch protos rows cols"]) -> Pooled:
    """The nearest cell of each prototype; the first of several that are equally near.

    >>> pool_nearest(torch.tensor([[[[3.0, 1.0]], [[2.0, 1.5]]]])).cells.tolist()
    [[1, 1]]
    """
    distances, cells = maps.flatten(2).min(dim=-1)
    return Pooled(distances, cells)


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
            "prototypes (--architecture.prototypes_per_class), or --architecture.pooling max"
        )


def _distinct_cells(
    maps: Float[Tensor, "batch classes protos rows cols"], separation: int
) -> Int64[Tensor, "batch all_protos"]:
    batch, classes, protos, rows, cols = maps.shape
    table = maps.reshape(batch * classes, protos, rows * cols)
    near = _near(rows, cols, separation).to(table)
    groups = torch.arange(len(table), device=table.device)
    distances, places = table.min(dim=-1)
    chosen = torch.zeros_like(places)
    # Infinite where a cell is gone: adding it is several times faster than filling by a mask.
    taken = table.new_zeros(len(table), rows * cols)
    blocked = table.new_zeros(len(table), rows * cols)
    for turn in range(protos):
        winner = distances.argmin(dim=1)
        place = places[groups, winner]
        chosen[groups, winner] = place
        distances[groups, winner] = _GONE
        if turn == protos - 1:
            break
        taken[groups, place] = _GONE
        blocked += near[place]
        # Only those that had counted on a cell that is gone must look again.
        group, proto = ((blocked.gather(1, places) > 0) & (distances < _GONE)).nonzero(as_tuple=True)
        rest = table[group, proto]
        found, at = (rest + blocked[group]).min(dim=-1)
        crowded = found.isinf().nonzero().flatten()
        if len(crowded):
            found[crowded], at[crowded] = (rest[crowded] + taken[group[crowded]]).min(dim=-1)
        distances[group, proto], places[group, proto] = found, at
    return chosen.reshape(batch, classes * protos)


@lru_cache(maxsize=16)
def _near(rows: int, cols: int, separation: int) -> Float[Tensor, "cells cells"]:
    """Infinite for cells that are fewer than `separation` steps apart, diagonal ones included, and 0 for others."""
    cell = torch.arange(rows * cols)
    down = (cell[:, None] // cols - cell // cols).abs()
    across = (cell[:, None] % cols - cell % cols).abs()
    return torch.zeros(rows * cols, rows * cols).masked_fill(torch.maximum(down, across) < separation, _GONE)

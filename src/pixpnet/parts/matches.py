"""What a network finds when it compares images with its prototypes: tensors only, over all grids."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.parts.comparison import GridMatches


@dataclass(frozen=True)
class Matches:
    """How a batch of images compares with every prototype; prototypes are numbered grid by grid.

    Attributes:
        scores: what the decision gets: similarity of each prototype to the patch that speaks for it (and what its
            pooling adds to that).
        distances: the measure between each prototype and that patch.
        cells: row and column of that patch in the prototype's own grid.
        grids: the same for each grid, with the measure at every cell.
        background: the mean of the measure over all cells of the prototype's grid, where the poolings of all grids
            compare with it; else None.
    """

    scores: Float[Tensor, "batch protos"]
    distances: Float[Tensor, "batch protos"]
    cells: Int64[Tensor, "batch protos 2"]
    grids: tuple[GridMatches, ...]
    background: Float[Tensor, "batch protos"] | None = None

    @property
    def distance_maps(self) -> Float[Tensor, "batch protos rows cols"]:
        """The measure between each prototype and every patch, where there is one grid.

        Raises:
            ValueError: if there are several, whose maps have different sizes: ask one of `grids`.
        """
        if len(self.grids) > 1:
            raise ValueError(f"there are {len(self.grids)} grids, and their maps differ in size: ask one of .grids")
        return self.grids[0].distance_maps


torch.export.register_dataclass(Matches, serialized_type_name="pixpnet.Matches")


def matches_of(grids: tuple[GridMatches, ...]) -> Matches:
    """The matches of all grids together."""
    cells = [
        torch.stack([grid.cells // (cols := grid.distance_maps.shape[-1]), grid.cells % cols], dim=-1) for grid in grids
    ]
    if len(grids) == 1:
        return Matches(grids[0].scores, grids[0].distances, cells[0], grids, grids[0].background)
    scores, distances = (torch.cat([getattr(grid, name) for grid in grids], dim=1) for name in ("scores", "distances"))
    backgrounds = [grid.background for grid in grids if grid.background is not None]
    background = torch.cat(backgrounds, dim=1) if len(backgrounds) == len(grids) else None
    return Matches(scores, distances, torch.cat(cells, dim=1), grids, background)

"""Grids of cells that prototypes look at, and what a network makes of a batch: records only."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pixpnet.parts import Comparison, Matches

# Sizes differ from grid to grid (an axis with an underscore may be of any size).
Embeddings = tuple[Float[Tensor, "batch _dim _rows _cols"], ...]


@dataclass(frozen=True)
class Output:
    """What the network makes of a batch of images."""

    logits: Float[Tensor, "batch classes"]
    matches: Matches


torch.export.register_dataclass(Output, serialized_type_name="pixpnet.Output")


@dataclass(frozen=True)
class Grid:
    """Cells that prototypes look at: those of one cut of the backbone, or of windows.

    Attributes:
        number: of the grid, from 0.
        add_on: from the backbone's channels to embeddings, cell by cell.
        comparison: of the cells with the grid's prototypes.
        first: the number of its first prototype.
        cut: the number of the backbone's cut whose cells they are.
        branch: what it is called where several grids read one cut; else empty.
    """

    number: int
    add_on: nn.Module
    comparison: Comparison
    first: int
    cut: int = 0
    branch: str = ""

    @property
    def prototypes(self) -> range:
        """The numbers of its prototypes."""
        return range(self.first, self.first + len(self.comparison.prototypes))

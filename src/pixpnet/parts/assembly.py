"""What stands behind a backbone, put together: one add-on and comparison for each grid, ownership, and the decision."""

from dataclasses import dataclass

from torch import nn

from pixpnet.parts.comparison import Comparison
from pixpnet.parts.decisions import Decision
from pixpnet.parts.ownership import Ownership


@dataclass(frozen=True)
class Parts:
    """The parts of a network; prototypes are numbered grid by grid.

    Attributes:
        add_ons: from the backbone's channels to embeddings, cell by cell, one for each grid.
        comparisons: of each grid's cells with its prototypes.
        ownership: which classes each prototype speaks for.
        decision: from scores to logits.
        cuts: the number of the cut that each grid reads; empty where there is one grid for each cut, in their order.
        branches: the name of the branch that each grid belongs to, where several grids read one cut; else empty.
    """

    add_ons: tuple[nn.Module, ...]
    comparisons: tuple[Comparison, ...]
    ownership: Ownership
    decision: Decision
    cuts: tuple[int, ...] = ()
    branches: tuple[str, ...] = ()

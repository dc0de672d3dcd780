"""What networks of the family are made of: comparison, ownership, decision, loss terms. Each answers for itself."""

from pixpnet.parts.add_on import NormalizedCells, build_add_on, stacked_add_on, with_prepared_cells
from pixpnet.parts.assembly import Parts
from pixpnet.parts.binary_tree import BinaryTree, Turn
from pixpnet.parts.branches import AddedHeads, branch_of
from pixpnet.parts.comparison import Comparison, GridMatches
from pixpnet.parts.decisions import Connections, Decision, EditableDecision, LinearDecision
from pixpnet.parts.deformable import Deformable
from pixpnet.parts.losses import LossParts, LossTerm, Step, loss_of
from pixpnet.parts.matches import Matches
from pixpnet.parts.measures import L2, Cosine, Measure, Projection, SquaredL2
from pixpnet.parts.ownership import ClassSets, OneClassEach, Ownership
from pixpnet.parts.pooling import Distinct, Focal, Nearest, Pooled, Pooling
from pixpnet.parts.reasons import ExplanationSize, NoBounds, NoEdit, NoReasons, Path, Reasons, Route, Sum
from pixpnet.parts.selection import SelectedSum
from pixpnet.parts.similarities import Negated, Original, RectifiedCosine, Reformulated, Similarity
from pixpnet.parts.simplex import SimplexSum
from pixpnet.parts.slots import SlotDecision, SlotOwnership
from pixpnet.parts.subspaces import UnitPrototypes
from pixpnet.parts.sums import ClassSum, Linear, OwnClass
from pixpnet.parts.support import ProjectedUnitPatches, UnitPatches
from pixpnet.parts.tree import TreeDecision, TreeOwnership

__all__ = [
    "L2",
    "AddedHeads",
    "BinaryTree",
    "ClassSets",
    "ClassSum",
    "Comparison",
    "Connections",
    "Cosine",
    "Decision",
    "Deformable",
    "Distinct",
    "EditableDecision",
    "ExplanationSize",
    "Focal",
    "GridMatches",
    "Linear",
    "LinearDecision",
    "LossParts",
    "LossTerm",
    "Matches",
    "Measure",
    "Nearest",
    "Negated",
    "NoBounds",
    "NoEdit",
    "NoReasons",
    "NormalizedCells",
    "OneClassEach",
    "Original",
    "OwnClass",
    "Ownership",
    "Parts",
    "Path",
    "Pooled",
    "Pooling",
    "ProjectedUnitPatches",
    "Projection",
    "Reasons",
    "RectifiedCosine",
    "Reformulated",
    "Route",
    "SelectedSum",
    "Similarity",
    "SimplexSum",
    "SlotDecision",
    "SlotOwnership",
    "SquaredL2",
    "Step",
    "Sum",
    "TreeDecision",
    "TreeOwnership",
    "Turn",
    "UnitPatches",
    "UnitPrototypes",
    "branch_of",
    "build_add_on",
    "loss_of",
    "stacked_add_on",
    "with_prepared_cells",
]

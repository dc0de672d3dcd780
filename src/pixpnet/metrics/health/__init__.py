"""What may be wrong with prototypes: on background, duplicates, never deciding, parts left out, cost of replacement."""

from pixpnet.metrics.health.checkup import prototype_health
from pixpnet.metrics.health.record import (
    Background,
    ClassCoverage,
    Coverage,
    Deciding,
    Duplicates,
    PrototypeHealth,
    ReplacementCost,
    Twins,
)
from pixpnet.metrics.health.replacement_cost import accuracy_lost_at_replacement

__all__ = [
    "Background",
    "ClassCoverage",
    "Coverage",
    "Deciding",
    "Duplicates",
    "PrototypeHealth",
    "ReplacementCost",
    "Twins",
    "accuracy_lost_at_replacement",
    "prototype_health",
]

"""Measurements that can fail: what explanations are worth, with intervals.

The health of prototypes reads runs, and so loads what trains them (Lightning): its names are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pixpnet.explanation.size import ExplanationSize, explanation_size
from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.metrics.consistency import Consistency
from pixpnet.metrics.ordering import relevance_ordering
from pixpnet.metrics.part_scores import PartScores, PrototypeParts, consistency_and_stability
from pixpnet.metrics.stability import Stability

if TYPE_CHECKING:
    from pixpnet.metrics.health import PrototypeHealth, accuracy_lost_at_replacement, prototype_health

__all__ = [
    "Consistency",
    "Estimate",
    "ExplanationSize",
    "PartScores",
    "PrototypeHealth",
    "PrototypeParts",
    "Stability",
    "accuracy_lost_at_replacement",
    "bootstrap_mean",
    "consistency_and_stability",
    "explanation_size",
    "prototype_health",
    "relevance_ordering",
]

_OF_HEALTH = ("PrototypeHealth", "accuracy_lost_at_replacement", "prototype_health")


def __getattr__(name: str) -> Any:
    if name not in _OF_HEALTH:
        raise AttributeError(f"module 'pixpnet.metrics' has no attribute '{name}'; it offers {', '.join(__all__)}")
    return getattr(import_module("pixpnet.metrics.health"), name)

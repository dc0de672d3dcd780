"""Measurements that can fail: what explanations are worth, with intervals."""

from pixpnet.explanation.size import ExplanationSize, explanation_size
from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.metrics.consistency import Consistency
from pixpnet.metrics.health import PrototypeHealth, accuracy_lost_at_replacement, prototype_health
from pixpnet.metrics.ordering import relevance_ordering
from pixpnet.metrics.part_scores import PartScores, PrototypeParts, consistency_and_stability
from pixpnet.metrics.stability import Stability

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

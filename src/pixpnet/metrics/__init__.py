"""Measurements that can fail: what explanations are worth, with intervals.

The health of prototypes, and where they come from, read runs, and so load what trains them (Lightning): those names are
loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pixpnet.explanation.size import explanation_size
from pixpnet.metrics.answers import AnswerPlaces, answer_places
from pixpnet.metrics.bootstrap import DefinedMean, Estimate, bootstrap_mean
from pixpnet.metrics.consistency import Consistency
from pixpnet.metrics.dialects import DialectScores, dialect_scores
from pixpnet.metrics.distinctiveness import Distinctiveness, prototype_distinctiveness
from pixpnet.metrics.misalignment import Misalignment, misalignment
from pixpnet.metrics.ordering import relevance_ordering
from pixpnet.metrics.part_scores import PartScores, PrototypeParts, consistency_and_stability
from pixpnet.metrics.purity import Purity, PurityFigures, prototype_purity
from pixpnet.metrics.sizes import Sizes, model_sizes
from pixpnet.metrics.stability import Stability
from pixpnet.parts import ExplanationSize

if TYPE_CHECKING:
    from pixpnet.metrics.health import PrototypeHealth, accuracy_lost_at_replacement, prototype_health
    from pixpnet.metrics.origin_places import PrototypePlaces, prototype_places
    from pixpnet.metrics.transfer import TransferScores, transfer_scores

__all__ = [
    "AnswerPlaces",
    "Consistency",
    "DefinedMean",
    "DialectScores",
    "Distinctiveness",
    "Estimate",
    "ExplanationSize",
    "Misalignment",
    "PartScores",
    "PrototypeHealth",
    "PrototypeParts",
    "PrototypePlaces",
    "Purity",
    "PurityFigures",
    "Sizes",
    "Stability",
    "TransferScores",
    "accuracy_lost_at_replacement",
    "answer_places",
    "bootstrap_mean",
    "consistency_and_stability",
    "dialect_scores",
    "explanation_size",
    "misalignment",
    "model_sizes",
    "prototype_distinctiveness",
    "prototype_health",
    "prototype_places",
    "prototype_purity",
    "relevance_ordering",
    "transfer_scores",
]

_LOADED_LATER = {
    "PrototypeHealth": "health",
    "PrototypePlaces": "origin_places",
    "TransferScores": "transfer",
    "accuracy_lost_at_replacement": "health",
    "prototype_health": "health",
    "prototype_places": "origin_places",
    "transfer_scores": "transfer",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module 'pixpnet.metrics' has no attribute '{name}'; it offers {', '.join(__all__)}")
    return getattr(import_module(f"pixpnet.metrics.{_LOADED_LATER[name]}"), name)

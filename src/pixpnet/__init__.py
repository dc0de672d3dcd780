"""Pixel-grounded prototypical part networks: the public names, loaded when first used.

Nothing heavy is imported here, so that ``pixpnet --help`` answers at once.
"""

from importlib import import_module
from typing import Any

_HOMES: dict[str, str] = {
    name: home
    for home, names in {
        "pixpnet.box": ("Box",),
        "pixpnet.data": ("DataOptions", "Sample", "open_data", "read_sample"),
        "pixpnet.explanation": ("Explanation", "explain", "prove"),
        "pixpnet.family": ("MEMBERS", "Member", "member_named"),
        "pixpnet.fields": (
            *("Call", "Field", "FieldMismatch", "Fields", "Region", "Sources"),
            *("UnknownLayer", "UnsupportedOperation", "receptive_fields", "rule"),
        ),
        "pixpnet.config": ("RunConfig",),
        "pixpnet.metrics": (
            *(
                "Consistency",
                "Estimate",
                "ExplanationSize",
                "PrototypeHealth",
                "Stability",
                "consistency_and_stability",
            ),
            *("explanation_size", "prototype_health", "relevance_ordering"),
        ),
        "pixpnet.goldilocks": ("SearchOptions", "find_cuts"),
        "pixpnet.metrics.auditing": ("audit",),
        "pixpnet.metrics.suite": ("Settings", "measure"),
        "pixpnet.model": ("Backbone", "Origin", "PixPNet"),
        "pixpnet.parts": ("Comparison", "Decision", "LossTerm", "Ownership"),
        "pixpnet.training": ("Run", "replace_prototypes", "resume", "train"),
        "pixpnet.training.stages": ("Stage",),
        "pixpnet.views.reporting": ("report",),
        "pixpnet.zoo": ("UnknownModel",),
    }.items()
    for name in names
}

__all__ = [*_HOMES]
# What things were called in earlier versions.
_FORMER = {"PrototypeLayer": "Comparison"}


def __getattr__(name: str) -> Any:
    if name in _FORMER:
        return __getattr__(_FORMER[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'pixpnet' has no attribute '{name}'; it offers {', '.join(sorted(_HOMES))}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

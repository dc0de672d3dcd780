"""Why the model answered as it did, and the proof of it."""

from pixpnet.explanation.contrast import Contrast, Pair
from pixpnet.explanation.explain import explain
from pixpnet.explanation.names import UnknownClass
from pixpnet.explanation.prove import prove
from pixpnet.explanation.record import ClassExplanation, Explanation, Polygon, Proof, Sight, Term, Trial
from pixpnet.explanation.size import explanation_size

__all__ = [
    "ClassExplanation",
    "Contrast",
    "Explanation",
    "Pair",
    "Polygon",
    "Proof",
    "Sight",
    "Term",
    "Trial",
    "UnknownClass",
    "explain",
    "explanation_size",
    "prove",
]

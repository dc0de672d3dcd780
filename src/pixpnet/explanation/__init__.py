"""Why the model answered as it did, and the proof of it."""

from pixpnet.explanation.answer import Certainty, Deciding, OtherAnswer
from pixpnet.explanation.contrast import Contrast, Pair
from pixpnet.explanation.explaining import explain, explain_batch
from pixpnet.explanation.names import UnknownClass
from pixpnet.explanation.proving import prove
from pixpnet.explanation.qualities import part_qualities
from pixpnet.explanation.quality import Quality
from pixpnet.explanation.record import (
    ClassExplanation,
    Explanation,
    Polygon,
    Proof,
    Sight,
    Term,
    TreePath,
    Trial,
)
from pixpnet.explanation.size import explanation_size

__all__ = [
    "Certainty",
    "ClassExplanation",
    "Contrast",
    "Deciding",
    "Explanation",
    "OtherAnswer",
    "Pair",
    "Polygon",
    "Proof",
    "Quality",
    "Sight",
    "Term",
    "TreePath",
    "Trial",
    "UnknownClass",
    "explain",
    "explain_batch",
    "explanation_size",
    "part_qualities",
    "prove",
]

"""The relevance ordering test (Sec. 5): does similarity come back when the pixels that a map calls relevant do?"""

from pixpnet.metrics.ordering.curve import Curve, area_under_similarity, pixel_order, pixels_to_recovery
from pixpnet.metrics.ordering.curves import Curves, OrderingWarning
from pixpnet.metrics.ordering.relevance import OrderingResult, PairResult, relevance_ordering
from pixpnet.metrics.ordering.spacing import Spacing

__all__ = [
    "Curve",
    "Curves",
    "OrderingResult",
    "OrderingWarning",
    "PairResult",
    "Spacing",
    "area_under_similarity",
    "pixel_order",
    "pixels_to_recovery",
    "relevance_ordering",
]

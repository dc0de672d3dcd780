"""The relevance ordering test (Sec. 5): does similarity come back when the pixels that a map calls relevant do?"""

from pixpnet.metrics.ordering.curve import Curve, area_under_similarity, pixel_order, pixels_to_recovery
from pixpnet.metrics.ordering.curves import Curves, OrderingWarning
from pixpnet.metrics.ordering.relevance import (
    OrderingResult,
    PairResult,
    drawn_samples,
    order_sample,
    ordering_result,
    relevance_ordering,
)
from pixpnet.metrics.ordering.spacing import STATED_ERROR, Spacing, StatedError

__all__ = [
    "STATED_ERROR",
    "Curve",
    "Curves",
    "OrderingResult",
    "OrderingWarning",
    "PairResult",
    "Spacing",
    "StatedError",
    "area_under_similarity",
    "drawn_samples",
    "order_sample",
    "ordering_result",
    "pixel_order",
    "pixels_to_recovery",
    "relevance_ordering",
]

"""Review of prototypes: which of them a person should look at first, and why; and what is nearest to each."""

from pixpnet.metrics.review.nearest import NearestPatches, NearPatch, nearest_patches, training_patch
from pixpnet.metrics.review.record import MisledImage, Review, Reviews
from pixpnet.metrics.review.reviewing import read_reviews, review_prototypes

__all__ = [
    "MisledImage",
    "NearPatch",
    "NearestPatches",
    "Review",
    "Reviews",
    "nearest_patches",
    "read_reviews",
    "review_prototypes",
    "training_patch",
]

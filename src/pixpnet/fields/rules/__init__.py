"""One rule for each operation, never for an architecture; importing this package fills the table."""

from pixpnet.fields.rules import (
    convolution,
    elementwise,
    indexing,
    padding,
    products,
    reduction,
    resample,
    shaping,
)

__all__ = [
    "convolution",
    "elementwise",
    "indexing",
    "padding",
    "products",
    "reduction",
    "resample",
    "shaping",
]

"""What can go wrong when relevance is propagated."""

from pixpnet.fields.errors import UnsupportedOperation


class UnsupportedRelevance(UnsupportedOperation):
    """An operation for which it is not said how relevance passes it, so that no answer would be true."""

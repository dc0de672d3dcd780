"""Prototypical relevance propagation (PRP): which pixels a prototype's similarity is made of, for any CNN."""

from pixpnet.mapping.relevance.errors import UnsupportedRelevance
from pixpnet.mapping.relevance.prp import prp

__all__ = ["UnsupportedRelevance", "prp"]

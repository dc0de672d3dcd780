"""Explanation size, as the paper counts it (Sec. 4, "Simplified Classification Head"; Sec. 5, "Explanation Size").

What is counted are the *elements* that a person must read to follow one logit: similarity scores and the weights they
are multiplied with. Each decision counts its own connections (`Decision.size`).
"""

from pixpnet.model import PixPNet
from pixpnet.parts import ExplanationSize

__all__ = ["ExplanationSize", "explanation_size"]


def explanation_size(model: PixPNet) -> ExplanationSize:
    """How many elements a person must read to follow one logit: positive reasoning, and positive and negative."""
    return model.head.size()

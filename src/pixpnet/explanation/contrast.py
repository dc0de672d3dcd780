"""Why not another class: the terms of the answer and of the other class side by side."""

from dataclasses import dataclass
from itertools import zip_longest

from pixpnet.explanation.record import ClassExplanation, Term


@dataclass(frozen=True)
class Pair:
    """The i-th strongest term of the answer beside the i-th strongest of another class.

    Attributes:
        predicted: of the answer; None where it has fewer terms.
        other: of the other class; None where it has fewer terms.
        difference: by how much the first contributes more.
    """

    predicted: Term | None
    other: Term | None
    difference: float


@dataclass(frozen=True)
class Contrast:
    """What separates the answer from another class: ``difference = sum of the pairs' differences + rest``.

    Attributes:
        predicted: the answer.
        other: the class that it is not.
        difference: of the logits.
        pairs: strongest first.
        rest: difference of what is not listed.
    """

    predicted: ClassExplanation
    other: ClassExplanation
    difference: float
    pairs: tuple[Pair, ...]
    rest: float


def contrast(predicted: ClassExplanation, other: ClassExplanation) -> Contrast:
    """Puts the terms of two classes side by side.

    Raises:
        ValueError: if they are paths through a tree, whose nodes are no addends to be compared by strength.
    """
    if predicted.path is not None or other.path is not None:
        raise ValueError(
            "paths through a tree are not compared term by term: pixpnet.explanation.path_text.parting_text says where "
            "they part"
        )
    pairs = tuple(
        Pair(mine, theirs, (mine.contribution if mine else 0.0) - (theirs.contribution if theirs else 0.0))
        for mine, theirs in zip_longest(predicted.terms, other.terms)
    )
    return Contrast(predicted, other, predicted.logit - other.logit, pairs, predicted.rest - other.rest)

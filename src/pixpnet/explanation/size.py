"""Explanation size, as the paper counts it (Sec. 4, "Simplified Classification Head"; Sec. 5, "Explanation Size").

What is counted are the *elements* that a person must read to follow one logit: similarity scores and the weights they
are multiplied with. A class has P / C prototypes of its own, and P scores are made in all.

| head | positive | positive and negative | why |
|---|---|---|---|
| class_sum | P / C | P / C | own scores only, and no weights |
| own_class | 2 P / C | 2 P / C | a score and a weight for each own prototype; no other is connected |
| linear, frozen | 2 P / C | 2 P | a score and a weight for each own prototype; the others count against the class |

It is a count of the head's connections, as in the paper's table, not of the weights that training happened to leave
at 0. On CUB-200-2011 (P = 2000, C = 200): 20 and 4000 for a fully connected head, 10 and 10 for the class sum.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pixpnet.model import PixPNet

HeadName = Literal["class_sum", "linear", "frozen", "own_class"]


class ExplanationSize(NamedTuple):
    """How many elements explain one logit."""

    positive: int
    both: int


class _Reads(NamedTuple):
    elements: int  # for each prototype: its score, and its weight where there is one
    others: bool  # whether prototypes of other classes are connected as well


_READS: Mapping[str, _Reads] = {
    "class_sum": _Reads(1, others=False),
    "own_class": _Reads(2, others=False),
    "linear": _Reads(2, others=True),
    "frozen": _Reads(2, others=True),
}


def explanation_size(model: PixPNet) -> ExplanationSize:
    """How many elements a person must read to follow one logit: positive reasoning, and positive and negative."""
    return size_of(model.architecture.head, model.architecture.prototypes_per_class, model.num_classes)


def size_of(head: HeadName, prototypes_per_class: int, num_classes: int) -> ExplanationSize:
    """The same from the numbers that it depends on.

    >>> size_of("linear", 10, 200), size_of("class_sum", 10, 200)
    (ExplanationSize(positive=20, both=4000), ExplanationSize(positive=10, both=10))
    """
    reads = _READS[head]
    own = reads.elements * prototypes_per_class
    return ExplanationSize(own, own * num_classes if reads.others else own)

"""The questions of a quiz. What a person must not know before replying is in the record, not in what is shown."""

from dataclasses import dataclass
from typing import Literal

from pixpnet.box import Box
from pixpnet.explanation import Explanation
from pixpnet.model import Origin

PairKind = Literal["right", "wrong", "control"]
"""Of an image that the model takes for what it is, for something else, or a pair that the model did not make."""


@dataclass(frozen=True)
class Pair:
    """A part of an image and a training patch.

    Attributes:
        region: what a cell saw of the image, in the `pixel` frame.
        origin: the training patch.
    """

    region: tuple[Box, ...]
    origin: Origin


@dataclass(frozen=True)
class AgreementQuestion:
    """Does this look like that?

    Attributes:
        number: in the quiz, from 0.
        explanation: of the image.
        pair: what is compared.
        kind: whether the model's answer was right, or the patch was drawn at random from other classes.
    """

    number: int
    explanation: Explanation
    pair: Pair
    kind: PairKind


@dataclass(frozen=True)
class Choice:
    """One of the classes to choose from.

    Attributes:
        label: of the class.
        pairs: the parts that add most to it.
    """

    label: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class DistinctionQuestion:
    """Which of these explanations is the right one?

    Attributes:
        number: in the quiz, from 0.
        explanation: of the image.
        choices: in the order in which they are shown.
        truth: the class of the image, which is one of them.
        model_right: whether the model's answer is that class.
    """

    number: int
    explanation: Explanation
    choices: tuple[Choice, ...]
    truth: int
    model_right: bool


@dataclass(frozen=True)
class Quiz:
    """Questions about one model.

    Attributes:
        agreement: does this look like that?
        distinction: which of these explanations is right?
        seed: of the draws.
        looked_at: how many images were explained to draw them.
    """

    agreement: tuple[AgreementQuestion, ...]
    distinction: tuple[DistinctionQuestion, ...]
    seed: int
    looked_at: int

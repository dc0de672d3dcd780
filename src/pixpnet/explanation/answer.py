"""What is said of an answer as a whole: which scores decide it, how certain it is, what other rules would answer."""

from dataclasses import dataclass

from pixpnet.model.doubt import Doubt, Source


@dataclass(frozen=True)
class OtherAnswer:
    """What another rule would answer to the same scores, such as a hard reading of a soft tree."""

    rule: str
    class_name: str


@dataclass(frozen=True)
class Deciding:
    """The shortest list of largest scores that decides the answer, as long as no other score exceeds the last of them.

    Attributes:
        prototypes: their numbers, the largest score first.
        of: how many prototypes there are.
        limit: the last of these scores.
        seen: the share of the image that their cells saw together, 0 to 1.
    """

    prototypes: tuple[int, ...]
    of: int
    limit: float
    seen: float

    def __post_init__(self) -> None:
        if not 0 < len(self.prototypes) <= self.of or not 0 <= self.seen <= 1:
            raise ValueError(f"{len(self.prototypes)} of {self.of} scores that saw {self.seen} of an image")


@dataclass(frozen=True)
class Certainty:
    """How certain a model may say to be, from images that it did not learn from.

    Attributes:
        temperature: that logits are divided by before the softmax.
        source: whose logits chose it.
        images: how many those were.
        doubt: whether the image looks like something that the model knows; None where it has no limit for that.
    """

    temperature: float
    source: Source
    images: int
    doubt: Doubt | None

"""What a review says of each prototype: frozen records, kept in the run folder."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pixpnet.box import Box


@dataclass(frozen=True)
class MisledImage:
    """A wrong answer to which a prototype added more than any other.

    Attributes:
        image: stable id.
        class_name: the true class.
        answer: the class that was answered.
        contribution: what the prototype added to the logit of that class.
    """

    image: str
    class_name: str
    answer: str
    contribution: float


@dataclass(frozen=True)
class Review:
    """What is known of one prototype.

    Attributes:
        prototype: its number.
        class_name: the class that it is listed under; empty without one.
        counts: whether any class's logit depends on it; not where it was removed.
        image: the training image that it is a patch of; None where it is none.
        region: the pixels of that image that it saw, in the `pixel` frame.
        on_background: whether its patch shows the object too little; None where nothing is known.
        object_share: share of its region that shows the object, by masks or the object's box; None without either.
        parts: annotated parts in its region.
        duplicates: prototypes that are the same patch, or nearly the same vector.
        decides: in how many validation images the answer would be another one without it.
        other_share: of the training images that score highest (its own image apart), the share of other classes; None
            for a prototype without a class.
        other_classes: their names, most frequent first.
        misled: wrong validation answers to which it added most, largest contribution first; at most ten.
        misled_count: how many there are.
        purity: how often the part that it shows most often lies in its region, in the training images that score
            highest; None where no parts are annotated.
        mean_right: mean contribution to right validation answers of classes that it is connected with; None where
            there are none, or contributions are no addends.
        mean_wrong: the same, to wrong answers.
        suspicion: how much speaks for looking at it, from 0; see `suspicion`.
        reasons: why, in plain words, the strongest first.
    """

    prototype: int
    class_name: str
    counts: bool
    image: str | None
    region: tuple[Box, ...]
    on_background: bool | None
    object_share: float | None
    parts: tuple[str, ...]
    duplicates: tuple[int, ...]
    decides: int
    other_share: float | None
    other_classes: tuple[str, ...]
    misled: tuple[MisledImage, ...]
    misled_count: int
    purity: float | None
    mean_right: float | None
    mean_wrong: float | None
    suspicion: float = 0.0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reviews:
    """The reviews of all prototypes of a model.

    Attributes:
        model: hash of the model.
        reviews: in the order of prototypes.
        images: how many validation images there were.
        wrong: how many of them the model answers wrongly.
        known_by: what says which pixels show the object.
    """

    model: str
    reviews: tuple[Review, ...]
    images: int
    wrong: int
    known_by: Literal["masks", "keypoints", "box", "nothing"]

    @cached_property
    def ranking(self) -> tuple[int, ...]:
        """Numbers of prototypes, the most suspicious first; of equals the lower number."""
        order = sorted(self.reviews, key=lambda review: (-review.suspicion, review.prototype))
        return tuple(review.prototype for review in order)

    def __getitem__(self, prototype: int) -> Review:
        return self.reviews[prototype]

    def __len__(self) -> int:
        return len(self.reviews)

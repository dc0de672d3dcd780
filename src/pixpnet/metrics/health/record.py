"""What `prototype_health` finds: frozen records, with an interval for every share and a count of what is undefined."""

from dataclasses import dataclass
from typing import Literal

from pixpnet.metrics.bootstrap import Estimate


@dataclass(frozen=True)
class Background:
    """Prototypes whose patch does not show the object.

    Attributes:
        share: of the prototypes about which something is known, those on background; None if that is none.
        object_share: mean share of a region's pixels that show the object; None where there are no masks.
        undefined: prototypes about which nothing is known: no origin, an origin that the data set does not have, an
            empty region, or an image without masks and visible points.
        known_by: what the object's pixels were taken from.
        least: of a region's pixels, the share that must show the object (masks only).
        prototypes: the numbers of those on background.
    """

    share: Estimate | None
    object_share: Estimate | None
    undefined: int
    known_by: Literal["masks", "keypoints", "nothing"]
    least: float
    prototypes: tuple[int, ...]


@dataclass(frozen=True)
class Twins:
    """Shares of prototypes that have a twin; None where there is nothing to compare.

    Attributes:
        same_image: another prototype is a patch of the same image.
        same_region: another prototype is the very same patch: the same image, the same pixels.
        near_vector: another prototype is nearly the same vector.
    """

    same_image: Estimate | None
    same_region: Estimate | None
    near_vector: Estimate | None


@dataclass(frozen=True)
class Duplicates:
    """Prototypes that say the same.

    Attributes:
        within: twins that share a class; of the prototypes that have one.
        across: twins that share no class.
        tolerance: how far apart vectors that are nearly the same may be, as a share of the longer one's length.
        undefined: prototypes without an origin, which are in no share of images and regions.
    """

    within: Twins
    across: Twins
    tolerance: float
    undefined: int


@dataclass(frozen=True)
class Deciding:
    """Prototypes that decide something.

    Attributes:
        never: share of the prototypes without which every prediction would have been the same; None without images.
        decided: for each prototype, in how many images its removal changes the prediction.
        images: how many were looked at.
        split: of which split.
    """

    never: Estimate | None
    decided: tuple[int, ...]
    images: int
    split: str


@dataclass(frozen=True)
class ClassCoverage:
    """Parts of one class, as indices into the data set's `part_names`.

    Attributes:
        label: the class.
        visible: parts that at least one of the images its prototypes come from shows.
        covered: those of them that lie in the region of at least one prototype.
    """

    label: int
    visible: tuple[int, ...]
    covered: tuple[int, ...]


@dataclass(frozen=True)
class Coverage:
    """Parts that prototypes stand for.

    Attributes:
        share: mean over classes of the share of its visible parts that are covered; None if no class shows a part.
        undefined: classes that show no part.
        classes: each class by itself.
    """

    share: Estimate | None
    undefined: int
    classes: tuple[ClassCoverage, ...]

    @property
    def least_covered(self) -> ClassCoverage | None:
        """The class with the smallest share, the first of several; None if no class shows a part."""
        defined = [of_class for of_class in self.classes if of_class.visible]
        return min(defined, key=lambda of_class: len(of_class.covered) / len(of_class.visible), default=None)


@dataclass(frozen=True)
class ReplacementCost:
    """Accuracy before replacement minus accuracy after, 0-1; positive where replacement cost something.

    Attributes:
        validation: on the validation images.
        test: on the test images; None if they were not opened.
    """

    validation: Estimate
    test: Estimate | None


@dataclass(frozen=True)
class PrototypeHealth:
    """What may be wrong with a model's prototypes.

    Attributes:
        count: how many prototypes there are.
        background: those whose patch does not show the object.
        duplicates: those that say the same as another.
        deciding: those that never decide anything.
        coverage: the parts that they stand for, class by class.
        replacement: the accuracy that was lost when they became patches; None where no run was given, or
            there is no replacement in it.
    """

    count: int
    background: Background
    duplicates: Duplicates
    deciding: Deciding
    coverage: Coverage
    replacement: ReplacementCost | None

"""Birds that are drawn when they are asked for: the data set that is always at hand."""

from dataclasses import dataclass, field, replace

import numpy as np

from pixpnet.data.augmentation import Augmentation
from pixpnet.data.birds import PARTS, SPECIES, BirdOptions, draw_bird
from pixpnet.data.catalog import Catalog, Entry, Split
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.sample import Annotation, Sample, source_sample
from pixpnet.data.scan import facts_of
from pixpnet.data.statistics import statistics_of

# Test birds have numbers of their own, so that asking for more training birds leaves them as they are.
_FIRST_TEST = 1_000_000_000
_LOOKED_AT = 120

# Pose, rotation, scale, light and place are drawn anew for every bird, and a new bird costs little more than
# a new view of an old one; geometric steps would only add black corners to a picture that fills its frame.
MIRRORED = Augmentation(
    factor=1,
    blur_probability=0.0,
    sharpen_probability=0.0,
    rotate_probability=0.0,
    perspective_probability=0.0,
    shear_probability=0.0,
)


@dataclass(frozen=True)
class DrawnBirds:
    """How many birds, and which.

    Attributes:
        world: another number, another world of birds.
        size: side of the pictures.
        train: number of birds to learn from, validation included.
        test: number of birds to evaluate on.
        options: how much they vary. A `confounder` share applies to the training birds only; no test bird
            carries the mark, so a model that learnt it fails there.
    """

    world: int = 0
    size: int = 96
    train: int = 2400
    test: int = 600
    options: BirdOptions = field(default_factory=BirdOptions)

    def __post_init__(self) -> None:
        if self.train < len(SPECIES) or self.test < 0:
            raise ValueError(
                f"{self.train} training and {self.test} test birds: at least one for each of the "
                f"{len(SPECIES)} species is needed to learn from"
            )


@dataclass(frozen=True)
class BirdReader:
    """Draws an entry's bird."""

    birds: DrawnBirds

    def __call__(self, entry: Entry) -> Sample:
        """Draws an entry; see `pixpnet.data.catalog.Reader`."""
        birds = self.birds
        options = replace(birds.options, confounder=0.0) if entry.split == "test" else birds.options
        drawing = draw_bird(birds.world, entry.index, entry.label, (birds.size, birds.size), options)
        y0, x0, y1, x1 = drawing.box
        # Drawn keypoints count from pixel centres.
        annotation = Annotation(
            drawing.keypoints.astype(np.float64) + 0.5,
            drawing.visible,
            (float(x0), float(y0), float(x1), float(y1)),
        )
        return source_sample(drawing.image, entry.label, entry.id, annotation, drawing.masks)


def birds_catalog(birds: DrawnBirds) -> Catalog:
    """Lists drawn birds; nothing is drawn but a few to measure mean and std."""
    reader = BirdReader(birds)
    train = _entries("train", birds.train, 0)
    sizes = Preprocessing(shortest_side=birds.size, crop=birds.size, size=birds.size)
    statistics = statistics_of(facts_of(reader(entry)) for entry in train[:_LOOKED_AT])
    return Catalog(
        name="drawn birds",
        class_names=tuple(species.name for species in SPECIES),
        part_names=PARTS,
        point_parts=tuple(range(len(PARTS))),
        entries=(*train, *_entries("test", birds.test, _FIRST_TEST)),
        reader=reader,
        preprocessing=replace(sizes, mean=statistics.mean, std=statistics.std),
        augmentation=MIRRORED,
        statistics_known=True,
        decided=frozenset({"train", "test"}),
        drawn=True,
    )


def _entries(split: Split, count: int, first: int) -> tuple[Entry, ...]:
    return tuple(
        Entry(f"{split}/{number:06d}", number % len(SPECIES), split, index=first + number) for number in range(count)
    )

"""What is to be said about a data set before anyone trains on it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from pixpnet.data.catalog import Catalog, Entry
from pixpnet.data.dataset import DataOptions, divide, unusable, usable
from pixpnet.data.errors import Leak, Problem
from pixpnet.data.leaks import find_leaks
from pixpnet.data.registry import DataSpec, catalog_of
from pixpnet.data.sample import inside
from pixpnet.data.scan import scan
from pixpnet.data.scan_store import FileFacts
from pixpnet.data.statistics import Statistics, statistics_of
from pixpnet.progress import Progress

_DRAWN_LOOKED_AT = 240
# The kept epoch is chosen by validation accuracy, and of so few images one is ten points of it.
FEW_VALIDATION_IMAGES = 10


@dataclass(frozen=True)
class ClassCount:
    """Usable images of one class in each split."""

    name: str
    train: int
    val: int
    test: int


@dataclass(frozen=True)
class PartCoverage:
    """In which share of the images a part can be seen, 0-1."""

    part: str
    fraction: float


@dataclass(frozen=True)
class Contradiction:
    """One picture that is in several classes: the names of its files."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class DataCheck:
    """The result of a check.

    Attributes:
        name: of the data set.
        counts: per class.
        problems: unusable files and folders, with the reason.
        ignored: files that are not images by their name.
        leaks: test images that are also in train or validation.
        validation_leaks: validation images that are also in train; `test_id` is the validation image.
        contradictions: pictures that are in more than one class, in whatever split.
        lonely: classes with a single training image, and none for validation.
        coverage: per part; empty if no parts are annotated.
        points_outside: visible keypoints that lie outside their image.
        shortest_sides: smallest, median and largest of the images' shortest sides.
        measured: mean and std over the images that may be learnt from; None if none can be read.
        published: the constants that are used instead, for data sets that have them.
    """

    name: str
    counts: tuple[ClassCount, ...]
    problems: tuple[Problem, ...]
    ignored: tuple[str, ...]
    leaks: tuple[Leak, ...]
    validation_leaks: tuple[Leak, ...]
    contradictions: tuple[Contradiction, ...]
    lonely: tuple[str, ...]
    coverage: tuple[PartCoverage, ...]
    points_outside: int
    shortest_sides: tuple[int, int, int]
    measured: Statistics | None
    published: Statistics | None

    @property
    def untrainable(self) -> tuple[str, ...]:
        """Classes that have no usable training image."""
        return tuple(count.name for count in self.counts if count.train == 0)

    @property
    def sound(self) -> bool:
        """Whether the data set can be trained on as it is."""
        wrong = self.problems or self.leaks or self.contradictions or self.untrainable or self.blank
        return not (wrong or len(self.counts) < 2 or not self.validation_images)

    @property
    def validation_images(self) -> int:
        """How many validation images all classes have together."""
        return sum(count.val for count in self.counts)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What lets a data set be trained on and still spoils what comes of it; empty where all is fine."""
        few, images = FEW_VALIDATION_IMAGES, self.validation_images
        without = [count.name for count in self.counts if not count.val]
        lines = []
        if 0 < images < few:
            lines.append(
                f"{images} validation image{'' if images == 1 else 's'}: which epoch is kept is decided by them, and "
                f"{'it' if images == 1 else 'so few'} cannot tell; at least {few} are wanted, better one or more of "
                "every class. Add images, or hold out more of them (train --validation-fraction 0.3)"
            )
        elif images and without:
            lines.append(f"no validation image in {len(without)} of {len(self.counts)} classes, such as {without[0]}")
        return tuple(lines)

    @property
    def blank(self) -> bool:
        """Whether a channel has the same value in all images, so that they cannot be normalised."""
        return self.measured is not None and self.published is None and min(self.measured.std) <= 0


def check(spec: DataSpec, options: DataOptions | None = None, progress: Progress | None = None) -> DataCheck:
    """Looks at every image of a data set and says what is wrong with it.

    Args:
        spec: from `parse_spec` or `guess_spec`.
        options: how it would be split.
        progress: told how many of how many files have been looked at.

    Raises:
        DataError: if the folder is not a data set at all.
    """
    # Whole files are checked, also where training would show only the boxes.
    chosen = replace(DataOptions() if options is None else options, crop_to_box=False)
    catalog = catalog_of(spec, chosen)
    facts = scan(catalog, progress)
    divided = divide(usable(catalog.entries, facts), catalog, chosen)
    learnt_from = (*divided.train, *divided.val)
    fine = [fact for fact in facts.values() if fact.reason is None]
    sides = sorted(min(fact.height, fact.width) for fact in fine) or [0]
    in_train, in_val, in_test = (
        Counter(entry.label for entry in split) for split in (divided.train, divided.val, divided.test)
    )
    counts = tuple(
        ClassCount(name, in_train[label], in_val[label], in_test[label])
        for label, name in enumerate(catalog.class_names)
    )
    own = catalog.preprocessing
    return DataCheck(
        name=catalog.name,
        counts=counts,
        problems=unusable(catalog, facts),
        ignored=tuple(catalog.ignored),
        leaks=find_leaks(learnt_from, divided.test),
        validation_leaks=divided.copies,
        contradictions=_contradictions((*learnt_from, *divided.test)),
        lonely=tuple(count.name for count in counts if count.train == 1 and count.val == 0),
        coverage=_coverage(catalog, facts),
        points_outside=sum(_points_outside(entry, facts[entry.id]) for entry in catalog.entries),
        shortest_sides=(sides[0], sides[len(sides) // 2], sides[-1]),
        measured=statistics_of(facts[entry.id] for entry in learnt_from) if learnt_from else None,
        published=Statistics(own.mean, own.std) if catalog.statistics_known and catalog.root else None,
    )


def _contradictions(entries: tuple[Entry, ...]) -> tuple[Contradiction, ...]:
    """Pictures that are in more than one class, by their pixels."""
    places: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.digest is not None:
            places.setdefault(entry.digest, []).append(entry)
    return tuple(
        Contradiction(tuple(sorted(entry.id for entry in same)))
        for same in places.values()
        if len({entry.label for entry in same}) > 1
    )


def _coverage(catalog: Catalog, facts: Mapping[str, FileFacts]) -> tuple[PartCoverage, ...]:
    if not catalog.part_names:
        return ()
    if catalog.root is None:
        samples = [catalog.reader(entry) for entry in catalog.entries[:_DRAWN_LOOKED_AT]]
        visible = np.stack([sample.visible.numpy() for sample in samples])
    else:
        entries = usable(catalog.entries, facts)
        visible = np.array([_seen(entry, facts[entry.id]) for entry in entries]).reshape(-1, len(catalog.point_parts))
    point_parts = np.array(catalog.point_parts)
    return tuple(
        PartCoverage(name, float(visible[:, point_parts == part].any(axis=1).mean()) if len(visible) else 0.0)
        for part, name in enumerate(catalog.part_names)
    )


def _seen(entry: Entry, fact: FileFacts) -> Bool[np.ndarray, " points"]:
    """Which points are visible, as a sample will have it: those outside the image are not."""
    return np.asarray(entry.annotation.visible & inside(entry.annotation.keypoints, (fact.height, fact.width)))


def _points_outside(entry: Entry, fact: FileFacts) -> int:
    if fact.reason is not None or entry.path is None:
        return 0
    seen = entry.annotation.keypoints[entry.annotation.visible]
    return int((~inside(seen, (fact.height, fact.width))).sum())

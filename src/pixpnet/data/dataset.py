"""Opening a data set: list it, read every file once, split it, look for leaks, lock the test images away."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalog import Catalog, Entry, Reader
from pixpnet.data.drawn import DrawnBirds
from pixpnet.data.errors import BadFilesError, DataError, DataWarning, Leak, LeakError, Problem, listing
from pixpnet.data.leaks import find_leaks
from pixpnet.data.listed import Changes, ImageList, assign_splits
from pixpnet.data.locked import LockedSplit
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.scan import scan
from pixpnet.data.scan_store import FileFacts
from pixpnet.data.splits import SplitRule, take
from pixpnet.data.statistics import statistics_of
from pixpnet.progress import Progress


@dataclass(frozen=True)
class DataOptions:
    """What may be chosen about a data set.

    Attributes:
        seed: decides which images are taken for validation. Which are taken for test, where the data set has no
            test split of its own, never changes.
        validation_fraction: of the training images, where the data set has no validation split of its own
            (the paper's value).
        test_fraction: of the images, where the data set has no test split of its own.
        split_rule: how images are chosen that are held out; see `pixpnet.data.splits`. Drawn birds go by `quota`.
        on_bad: stop with the list of unusable files, or go on without them and warn.
        on_leak: refuse a data set with test images in train, or go on and warn.
        crop_to_box: show only the annotated boxes (CUB and Cars).
        birds: how birds are drawn.
    """

    seed: int = 0
    validation_fraction: float = 0.1
    test_fraction: float = 0.2
    split_rule: SplitRule = "pixels"
    on_bad: Literal["stop", "skip"] = "stop"
    on_leak: Literal["refuse", "report"] = "refuse"
    crop_to_box: bool = False
    birds: DrawnBirds = field(default_factory=DrawnBirds)


@dataclass(frozen=True)
class DataSet:
    """Images to learn from, images to choose by, and a locked box of images to evaluate on.

    Attributes:
        name: for messages.
        class_names: for people; labels are indices into it.
        part_names: annotated parts; may be empty.
        point_parts: for each keypoint the part it belongs to.
        train: entries to learn from.
        val: entries to tune and choose by, disjoint from train.
        test: closed; see `LockedSplit.open`.
        reader: turns an entry into a `Sample`.
        preprocessing: sizes for this data set, with its mean and std.
        augmentation: what suits this data set; the paper's for photographs.
        skipped: unusable files that were left out because the caller asked for it.
        leaks: test images that are also in train, let through because the caller asked for it.
        split_rule: how images were chosen that are held out, for further splits of `train`.
        changes: since the run began that the data set was opened for.
    """

    name: str
    class_names: tuple[str, ...]
    part_names: tuple[str, ...]
    point_parts: tuple[int, ...]
    train: tuple[Entry, ...]
    val: tuple[Entry, ...]
    test: LockedSplit
    reader: Reader
    preprocessing: Preprocessing
    augmentation: Augmentation
    skipped: tuple[Problem, ...] = ()
    leaks: tuple[Leak, ...] = ()
    split_rule: SplitRule = "quota"
    changes: Changes = field(default_factory=Changes)

    @property
    def listed(self) -> ImageList:
        """All images by split, for a run to keep; see `pixpnet.data.listed`."""
        learnt = ImageList.of([("train", self.train), ("val", self.val)], self.class_names)
        return ImageList(learnt.images + self.test.listed(self.class_names).images)


@dataclass(frozen=True)
class Divided:
    """Entries of each split.

    Attributes:
        train: to learn from.
        val: to choose by.
        test: to evaluate on.
        copies: validation images that are also in train; by the rule `pixels` they are not in `val`.
    """

    train: tuple[Entry, ...]
    val: tuple[Entry, ...]
    test: tuple[Entry, ...]
    copies: tuple[Leak, ...] = ()


def open_catalog(
    catalog: Catalog, options: DataOptions, progress: Progress | None = None, listed: ImageList | None = None
) -> DataSet:
    """Makes a data set of a catalog; see `pixpnet.data.open_data`.

    Args:
        catalog: what there is.
        options: what is wanted.
        progress: told how many of how many files have been looked at.
        listed: where a run had the images; they are put there again, and what is different is in `changes`.

    Raises:
        BadFilesError: if there are unusable files and `on_bad` is "stop".
        LeakError: if test images are in train and `on_leak` is "refuse".
        DataError: if a class has nothing to learn from.
    """
    facts = {} if catalog.root is None else scan(catalog, progress)
    return open_looked_at(catalog, facts, options, listed)


def open_looked_at(
    catalog: Catalog, facts: Mapping[str, FileFacts], options: DataOptions, listed: ImageList | None = None
) -> DataSet:
    """Like `open_catalog`, for images that have been looked at: facts by stable id, none for drawn ones."""
    problems = unusable(catalog, facts)
    _decide(
        problems,
        options.on_bad == "stop",
        lambda: BadFilesError(catalog.name, problems),
        lambda: (
            f"{catalog.name}: going on without {len(problems)} unusable file(s)\n"
            + listing([f"{problem.where}: {problem.reason}" for problem in problems])
        ),
    )
    divided = divide(usable(catalog.entries, facts), catalog, options)
    _refuse_empty_classes(catalog, divided.train)
    changes, why_empty = Changes(), ""
    if listed is not None:
        held_out, (divided, changes) = divided.test, _as_listed(divided, catalog, listed)
        if not divided.train:
            raise DataError(
                f"none of the images that the run learnt from is in {catalog.name}: is it another data set? (To "
                "evaluate a model on other images: pixpnet evaluate RUN --data ...)"
            )
        if held_out:
            why_empty = f"{catalog.name}: nothing is left to test on\n" + "\n".join(changes.sentences)
    if divided.copies:
        warnings.warn(_copies_notice(catalog, divided, options), DataWarning, stacklevel=4)
    leaks = find_leaks((*divided.train, *divided.val), divided.test)
    _decide(
        leaks,
        options.on_leak == "refuse",
        lambda: LeakError(catalog.name, leaks),
        lambda: (
            f"{catalog.name}: {len(leaks)} test image(s) are also in train, so it is no test\n"
            + listing([f"{leak.test_id} is {leak.train_id}" for leak in leaks])
        ),
    )
    preprocessing = catalog.preprocessing
    if not catalog.statistics_known:
        # Paper: over the full data set. Here over what may be learnt from; the test images stay closed.
        by_pixels = {fact.digest: fact for fact in facts.values()}
        statistics = statistics_of(by_pixels[entry.digest or ""] for entry in (*divided.train, *divided.val))
        preprocessing = replace(preprocessing, mean=statistics.mean, std=statistics.std)
    return DataSet(
        name=catalog.name,
        class_names=catalog.class_names,
        part_names=catalog.part_names,
        point_parts=catalog.point_parts,
        train=divided.train,
        val=divided.val,
        test=LockedSplit(catalog.name, divided.test, why_empty),
        reader=catalog.reader,
        preprocessing=preprocessing,
        augmentation=catalog.augmentation,
        skipped=problems,
        leaks=leaks,
        split_rule=_rule(catalog, options),
        changes=changes,
    )


def divide(entries: Iterable[Entry], catalog: Catalog, options: DataOptions) -> Divided:
    """Puts entries into splits: the data set's own where it has them, the rest taken from train.

    Where the data set itself puts copies of one picture into train and validation, train keeps its copy: a picture that
    was learnt says nothing about others. (By the rule `quota` validation keeps it too, as in earlier versions.)
    """
    entries = tuple(entries)
    rule = _rule(catalog, options)
    train, val, test = (tuple(entry for entry in entries if entry.split == split) for split in ("train", "val", "test"))
    if "test" not in catalog.decided:
        # Not by the run's seed: what one run is tuned on must not be another run's test.
        train, test = take(train, options.test_fraction, 0, "test", rule)
    if "val" not in catalog.decided:
        train, val = take(train, options.validation_fraction, options.seed, "validation", rule)
    copies = find_leaks(train, val)
    if rule == "pixels":
        copied = {copy.test_id for copy in copies}
        val = tuple(entry for entry in val if entry.id not in copied)
    return Divided(train, val, test, copies)


def _as_listed(divided: Divided, catalog: Catalog, listed: ImageList) -> tuple[Divided, Changes]:
    placed = assign_splits(
        [("train", divided.train), ("val", divided.val), ("test", divided.test)], catalog.class_names, listed
    )
    return Divided(placed.train, placed.val, placed.test), placed.changes


def unusable(catalog: Catalog, facts: Mapping[str, FileFacts]) -> tuple[Problem, ...]:
    """Everything that is wrong with a data set's files."""
    bad = [Problem(id_, fact.reason) for id_, fact in sorted(facts.items()) if fact.reason is not None]
    return (*catalog.problems, *bad)


def usable(entries: Iterable[Entry], facts: Mapping[str, FileFacts]) -> tuple[Entry, ...]:
    """Entries whose files can be read, with the digests of their pixels; drawn ones always can, and have none."""
    return tuple(
        replace(entry, digest=facts[entry.id].digest) if entry.id in facts else entry
        for entry in entries
        if entry.id not in facts or facts[entry.id].reason is None
    )


def _rule(catalog: Catalog, options: DataOptions) -> SplitRule:
    """Drawn images have no files that come and go, and keep the split that they always had."""
    return "quota" if catalog.drawn else options.split_rule


def _copies_notice(catalog: Catalog, divided: Divided, options: DataOptions) -> str:
    left_out = _rule(catalog, options) == "pixels"
    return (
        f"{catalog.name}: {len(divided.copies)} validation image(s) are also in train"
        + (" and left out of validation\n" if left_out else ", so validation looks better than it is\n")
        + listing([f"{copy.test_id} (validation) is {copy.train_id} (train)" for copy in divided.copies])
    )


def _decide(
    faults: tuple[object, ...], refuse: bool, error: Callable[[], DataError], notice: Callable[[], str]
) -> None:
    if not faults:
        return
    if refuse:
        raise error()
    warnings.warn(notice(), DataWarning, stacklevel=5)


def _refuse_empty_classes(catalog: Catalog, train: tuple[Entry, ...]) -> None:
    counts = Counter(entry.label for entry in train)
    empty = [name for label, name in enumerate(catalog.class_names) if counts[label] == 0]
    if empty:
        raise DataError(f"{catalog.name}: no usable training image in {', '.join(empty[:10])}: add some or remove it")

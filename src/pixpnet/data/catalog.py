"""What a data set is before its images are decoded: a list of entries, and someone who can read them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from pixpnet.data.augmentation import Augmentation
from pixpnet.data.errors import Problem
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.sample import NO_ANNOTATION, Annotation, Sample

Split = Literal["train", "val", "test"]


@dataclass(frozen=True)
class Entry:
    """One image that has not been read yet.

    Attributes:
        id: stable name, the same on every machine: the path below the data set's folder with forward slashes.
        label: the class, an index into `class_names`.
        split: where the data set itself puts the image.
        path: the file; None for an image that is drawn.
        index: number of an image that is drawn; 0 for files.
        annotation: in the `source` frame.
        digest: hash of the image's pixels, once the data set has been opened; None before, and for drawn images.
    """

    id: str
    label: int
    split: Split
    path: Path | None = None
    index: int = 0
    annotation: Annotation = NO_ANNOTATION
    digest: str | None = None


# Reads or draws an entry's image: uint8, `source` frame. Raises ImageError with the reason if that cannot be
# done. It must survive pickling, for worker processes.
Reader: TypeAlias = Callable[[Entry], Sample]


@dataclass(frozen=True)
class Catalog:
    """All entries of a data set as its folder states them.

    Attributes:
        name: for messages.
        class_names: for people.
        part_names: parts of the object that are annotated; may be empty.
        point_parts: for each keypoint of a sample the part it belongs to, an index into `part_names`.
        entries: of all splits.
        reader: reads them.
        preprocessing: sizes that suit the data set, and its statistics if they are known.
        augmentation: what suits the data set; the paper's for photographs.
        statistics_known: whether mean and std in `preprocessing` are the data set's own.
        decided: splits that the data set itself fixes; the others are taken from train.
        problems: what was found wrong while listing; the entries are without it.
        ignored: files that are not images by their name, not listed.
        root: the folder, None for drawn images.
        class_folders: what the classes are called on the disk, where that is something else.
        drawn: images are made from their number alone, so they have no pixels to be split by.
    """

    name: str
    class_names: tuple[str, ...]
    part_names: tuple[str, ...]
    point_parts: tuple[int, ...]
    entries: tuple[Entry, ...]
    reader: Reader
    preprocessing: Preprocessing
    augmentation: Augmentation
    statistics_known: bool
    decided: frozenset[Split]
    problems: Sequence[Problem] = field(default=())
    ignored: Sequence[str] = field(default=())
    root: Path | None = None
    class_folders: tuple[str, ...] = ()
    drawn: bool = False

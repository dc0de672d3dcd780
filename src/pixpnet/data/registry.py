"""Names of data sets: `birds`, `cub:PATH`, `cars:PATH`, `imagenette:PATH`, `folder:PATH`.

A new kind of data set is a function that returns a `Catalog`, and one line in `KINDS`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pixpnet.class_names import fault_of
from pixpnet.config import is_given
from pixpnet.data import cars, imagenette
from pixpnet.data.cars import cars_catalog
from pixpnet.data.catalog import Catalog
from pixpnet.data.cub import cub_catalog
from pixpnet.data.dataset import DataOptions, DataSet, open_catalog
from pixpnet.data.drawn import birds_catalog
from pixpnet.data.errors import ClassNameError, DataError, Problem
from pixpnet.data.folder import folder_catalog
from pixpnet.data.imagenette import imagenette_catalog
from pixpnet.data.listed import ImageList
from pixpnet.progress import Progress


@dataclass(frozen=True)
class DataSpec:
    """Which data set: a kind and, but for drawn birds, a folder (the name of one that was given as an object)."""

    kind: str
    path: Path


KINDS: dict[str, Callable[[Path, DataOptions], Catalog]] = {
    "birds": lambda path, options: birds_catalog(options.birds),
    "cub": lambda path, options: cub_catalog(path, options.crop_to_box),
    "cars": lambda path, options: cars_catalog(path, options.crop_to_box),
    "imagenette": lambda path, options: imagenette_catalog(path),
    "folder": lambda path, options: folder_catalog(path),
}
_FORMS = "birds, cub:PATH, cars:PATH, imagenette:PATH or folder:PATH"


def parse_spec(text: str) -> DataSpec:
    """Reads the name of a data set.

    Raises:
        DataError: if it is none; the message lists the forms.

    >>> parse_spec("cub:CUB_200_2011").kind
    'cub'
    """
    kind, colon, path = text.partition(":")
    if is_given(text):
        return DataSpec(kind, Path(path))
    if kind not in KINDS:
        hint = f" Did you mean folder:{text}?" if Path(text).is_dir() else ""
        raise DataError(f"unknown data set {text!r}: expected {_FORMS}.{hint}")
    if kind == "birds" and colon:
        raise DataError(f"birds are drawn and have no folder, got {text!r}: write birds")
    if kind != "birds" and not path:
        raise DataError(f"{text!r} names no folder: write {kind}:PATH")
    return DataSpec(kind, Path(path).expanduser())


def guess_spec(text: str) -> DataSpec:
    """Like `parse_spec`, but also takes a bare folder and recognises its layout."""
    kind = text.partition(":")[0]
    path = Path(text).expanduser()
    if kind in KINDS:
        return parse_spec(text)
    if not path.is_dir():
        raise DataError(f"there is no folder {text}: give a folder, or {_FORMS}")
    if (path / "images.txt").is_file() and (path / "train_test_split.txt").is_file():
        return DataSpec("cub", path)
    if (path / cars.META).is_file() or (path / "stanford_cars" / cars.META).is_file():
        return DataSpec("cars", path)
    tench = next(iter(imagenette.CLASS_NAMES))
    if any((path / below / "train" / tench).is_dir() for below in ("", *imagenette.FOLDERS)):
        return DataSpec("imagenette", path)
    return DataSpec("folder", path)


def same_place(one: str, two: str) -> bool:
    """Whether two names of data sets mean the same kind and folder."""
    first, second = parse_spec(one), parse_spec(two)
    return first.kind == second.kind and first.path.resolve() == second.path.resolve()


def catalog_of(spec: DataSpec, options: DataOptions) -> Catalog:
    """Lists a data set without looking into its images.

    Raises:
        ClassNameError: if a class has a name that no model may have (`pixpnet.class_names`).
        DataError: if it is no data set.
    """
    if spec.kind not in KINDS:
        raise DataError(
            f"the images were handed over as a dataset object ({spec.path}), which no file can hold: give it again "
            "(dataset=... of Run, train and resume), or images on the disk (--data folder:PATH)"
        )
    catalog = _without_twins(KINDS[spec.kind](spec.path, options))
    fault = fault_of(catalog.class_names, catalog.class_folders)
    if fault is not None:
        raise ClassNameError(f"{catalog.name}: {fault}")
    return catalog


def _without_twins(catalog: Catalog) -> Catalog:
    """Two files with one stable name would stand for each other: the second becomes a problem."""
    times = Counter(entry.id for entry in catalog.entries)
    if len(times) == len(catalog.entries):
        return catalog
    first = {entry.id: entry for entry in reversed(catalog.entries)}
    twins = [
        Problem(id_, f"{count} files have this stable name: rename them") for id_, count in times.items() if count > 1
    ]
    return replace(catalog, entries=tuple(reversed(first.values())), problems=(*catalog.problems, *twins))


def open_data(
    spec: str,
    options: DataOptions | None = None,
    progress: Progress | None = None,
    listed: ImageList | None = None,
) -> DataSet:
    """Opens a data set by name, ready to train on.

    The first opening reads every file once, to find unusable ones, copies across splits, and mean and std;
    what it finds is kept in `PIXPNET_CACHE` (by default in the user's cache folder).

    Args:
        spec: `birds`, `cub:PATH`, `cars:PATH`, `imagenette:PATH` or `folder:PATH`.
        options: splits, and what to do about bad files and leaks.
        progress: told how many of how many files have been looked at.
        listed: where a run had the images (`DataSet.listed`); they are put there again, and files that came or changed
            since are left out and said (`DataSet.changes`).

    Raises:
        DataError: if the data set cannot be used as it is; the message says what to do.

    >>> data = open_data("birds")
    >>> len(data.class_names), len(data.train) + len(data.val), data.test
    (12, 2400, LockedSplit('drawn birds', 600 images))
    """
    return open_spec(parse_spec(spec), DataOptions() if options is None else options, progress, listed)


def open_spec(
    spec: DataSpec, options: DataOptions, progress: Progress | None = None, listed: ImageList | None = None
) -> DataSet:
    """Like `open_data`, for a name that has been parsed or guessed."""
    return open_catalog(catalog_of(spec, options), options, progress, listed)

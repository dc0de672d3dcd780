"""Any folder of images: `root/class/*.jpg` or `root/{train,val,test}/class/*`, and perhaps a `parts.csv`."""

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalogue import Catalogue, Entry, Split
from pixpnet.data.decode import EXTENSIONS
from pixpnet.data.errors import DataError, Problem
from pixpnet.data.parts_csv import FILE_NAME, PartsTable, read_parts
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.reader import FileReader
from pixpnet.data.sample import NO_ANNOTATION
from pixpnet.data.splits import stable_id

# What people call their split folders.
SPLIT_FOLDERS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


def folder_catalogue(root: Path) -> Catalogue:
    """Lists a folder of images.

    A class is a folder; images may lie deeper in it. If `root` holds a folder `train`, the split folders
    decide the splits and what `val` or `test` does not hold is taken from train; otherwise all images are one
    pool.

    Args:
        root: the data set's folder.

    Raises:
        DataError: if there is no class with images, or two classes differ in upper and lower case only.
    """
    root = existing_folder(root)
    found = _Found()
    top = _folders(root, root, found)
    splits = {SPLIT_FOLDERS[folder.name.lower()]: folder for folder in top if folder.name.lower() in SPLIT_FOLDERS}
    if "train" in splits:
        for split, folder in splits.items():
            _list_classes(folder, split, root, found)
    else:
        _list_classes(root, "train", root, found)
    if not found.images:
        wrong = "".join(f" {problem.where}: {problem.reason}." for problem in found.problems[:3])
        raise DataError(
            f"{root.name}: no class folders with images ({', '.join(sorted(EXTENSIONS))}).{wrong} "
            "Expected root/class/*.jpg or root/train/class/*.jpg."
        )
    class_names = _class_names(found)
    labels = {name: label for label, name in enumerate(class_names)}
    entries = tuple(
        Entry(_id(path, root), labels[name], split, path) for name, split, path in found.images if name in labels
    )
    parts = _parts(root, entries)
    return Catalogue(
        name=root.name,
        class_names=class_names,
        part_names=parts.part_names,
        point_parts=parts.point_parts,
        entries=tuple(replace(entry, annotation=parts.annotations.get(entry.id, NO_ANNOTATION)) for entry in entries),
        reader=FileReader(),
        preprocessing=Preprocessing(),
        augmentation=Augmentation(),
        statistics_known=False,
        decided=frozenset(splits) if "train" in splits else frozenset(),
        problems=(*found.problems, *parts.problems),
        ignored=tuple(found.ignored),
        root=root,
    )


def existing_folder(root: Path) -> Path:
    """The folder, or an error that says what is there instead."""
    if not root.exists():
        raise DataError(f"there is no folder {root}: check the path")
    if not root.is_dir():
        raise DataError(f"{root} is a file; a data set is a folder")
    return root


@dataclass
class _Found:
    images: list[tuple[str, Split, Path]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def _list_classes(folder: Path, split: Split, root: Path, found: _Found) -> None:
    for child in _folders(folder, root, found):
        files = _files(child, root, found)
        found.images += [(child.name, split, path) for path in files]
        if not files:
            found.problems.append(Problem(_id(child, root), "class folder without images"))


def _folders(folder: Path, root: Path, found: _Found) -> list[Path]:
    try:
        children = sorted(folder.iterdir())
        return [child for child in children if child.is_dir() and not child.name.startswith(".")]
    except OSError as error:
        found.problems.append(Problem(_id(folder, root), f"folder cannot be read: {error.strerror}"))
        return []


def _files(folder: Path, root: Path, found: _Found) -> list[Path]:
    """All images in a folder, at any depth; linked folders are followed, but never in a circle."""

    def unreadable(error: OSError) -> None:
        where = _id(Path(error.filename), root)
        found.problems.append(Problem(where, f"folder cannot be read: {error.strerror}"))

    files: list[Path] = []
    seen: set[str] = set()
    for current, folders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        place = os.path.realpath(current)
        folders[:] = [] if place in seen else sorted(name for name in folders if not name.startswith("."))
        if place in seen:
            continue
        seen.add(place)
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(current, name)
            if path.suffix.lower() in EXTENSIONS:
                files.append(path)
            else:
                found.ignored.append(_id(path, root))
    return files


def _class_names(found: _Found) -> tuple[str, ...]:
    spellings: dict[str, set[str]] = defaultdict(set)
    for name, _, _ in found.images:
        spellings[name.casefold()].add(name)
    clashes = [" and ".join(sorted(names)) for names in spellings.values() if len(names) > 1]
    if clashes:
        raise DataError(
            f"class names differ in upper and lower case only: {'; '.join(clashes)}. "
            "Many file systems cannot tell them apart: rename or merge the folders."
        )
    trained = {name for name, split, _ in found.images if split == "train"}
    for name in sorted({name for name, _, _ in found.images} - trained):
        found.problems.append(Problem(name, "class without training images"))
    return tuple(sorted(trained))


def _parts(root: Path, entries: tuple[Entry, ...]) -> PartsTable:
    path = root / FILE_NAME
    if not path.is_file():
        return PartsTable((), (), {}, ())
    return read_parts(path, [entry.id for entry in entries])


def _id(path: Path, root: Path) -> str:
    return stable_id(path.relative_to(root).as_posix())

"""Any folder of images: `root/class/*.jpg` or `root/{train,val,test}/class/*`, and perhaps a `parts.csv`."""

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalog import Catalog, Entry, Split
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


def folder_catalog(root: Path) -> Catalog:
    """Lists a folder of images.

    A class is a folder; images may lie deeper in it. If `root` holds a folder `train`, the split folders
    decide the splits, and a split that has no folder is taken from train; otherwise all images are one pool.

    Args:
        root: the data set's folder.

    Raises:
        DataError: if there is no class with images, two folders claim one split, or two classes differ in
            upper and lower case only.
    """
    root = existing_folder(root)
    scanned = _Found()
    top = _folders(root, root, scanned)
    splits = _split_folders(top, root)
    if "train" in splits:
        for split, folder in splits.items():
            _list_classes(_folders(folder, root, scanned), split, root, scanned)
        for folder in top:
            if folder not in splits.values():
                scanned.problems.append(
                    Problem(_id(folder, root), "lies beside train/ and is not used: move or remove it")
                )
    else:
        _list_classes(top, "train", root, scanned)
    if not scanned.images:
        wrong = "".join(f" {problem.where}: {problem.reason}." for problem in scanned.problems[:3])
        raise DataError(
            f"{root.name}: no class folders with images ({', '.join(sorted(EXTENSIONS))}).{wrong} "
            "Expected root/class/*.jpg or root/train/class/*.jpg."
        )
    class_names = _class_names(scanned)
    labels = {name: label for label, name in enumerate(class_names)}
    entries = tuple(
        Entry(_id(path, root), labels[name], split, path) for name, split, path in scanned.images if name in labels
    )
    parts = _parts(root, entries)
    return Catalog(
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
        problems=(*scanned.problems, *parts.problems),
        ignored=tuple(scanned.ignored),
        root=root,
    )


def existing_folder(root: Path) -> Path:
    """The folder, or an error that says what is there instead."""
    if not root.exists():
        raise DataError(f"there is no folder {root}: check the path")
    if not root.is_dir():
        raise DataError(f"{root} is a file; a data set is a folder")
    return root


def _split_folders(top: list[Path], root: Path) -> dict[Split, Path]:
    """The folders that are splits by their name."""
    splits: dict[Split, Path] = {}
    for folder in top:
        split = SPLIT_FOLDERS.get(folder.name.lower())
        if split is None:
            continue
        if split in splits:
            raise DataError(
                f"{root.name}: {splits[split].name} and {folder.name} both claim to be the {split} split: keep one"
            )
        splits[split] = folder
    if splits and "train" not in splits and len(splits) == len(top):
        raise DataError(
            f"{root.name} holds {', '.join(folder.name for folder in top)} but no train folder: "
            "add root/train/class/*.jpg, or rename the folders if they are classes"
        )
    return splits


@dataclass
class _Found:
    images: list[tuple[str, Split, Path]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def _list_classes(folders: list[Path], split: Split, root: Path, scanned: _Found) -> None:
    for child in folders:
        files = _files(child, root, scanned)
        scanned.images += [(child.name, split, path) for path in files]
        if not files:
            scanned.problems.append(Problem(_id(child, root), "class folder without images"))


def _folders(folder: Path, root: Path, scanned: _Found) -> list[Path]:
    try:
        children = sorted(folder.iterdir())
        for child in children:
            if child.is_dir() or child.name == FILE_NAME:
                continue
            if not child.name.startswith(".") and child.suffix.lower() in EXTENSIONS:
                scanned.problems.append(Problem(_shown(child, root), "image outside a class folder: move it into one"))
            else:
                _set_aside(child, root, scanned)
        return [child for child in children if child.is_dir() and not child.name.startswith(".")]
    except OSError as error:
        scanned.problems.append(Problem(_id(folder, root), f"folder cannot be read: {error.strerror}"))
        return []


def _files(folder: Path, root: Path, scanned: _Found) -> list[Path]:
    """All images in a folder, at any depth; linked folders are followed, but never in a circle."""

    def unreadable(error: OSError) -> None:
        where = _id(Path(error.filename), root)
        scanned.problems.append(Problem(where, f"folder cannot be read: {error.strerror}"))

    files: list[Path] = []
    seen: set[str] = set()
    for current, folders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        real = os.path.realpath(current)
        folders[:] = [] if real in seen else sorted(name for name in folders if not name.startswith("."))
        if real in seen:
            continue
        seen.add(real)
        for name in sorted(names):
            path = Path(current, name)
            if not _is_utf8(name):
                scanned.problems.append(Problem(_shown(path, root), "file name is not UTF-8: rename it"))
            elif name.startswith(".") or path.suffix.lower() not in EXTENSIONS:
                _set_aside(path, root, scanned)
            elif path.exists() and not path.is_file():
                scanned.problems.append(Problem(_id(path, root), "not a regular file: remove it"))
            else:
                files.append(path)
    return files


def _set_aside(path: Path, root: Path, scanned: _Found) -> None:
    """Takes note of a file that is not used; only hidden files that are no images go without saying."""
    if not path.name.startswith(".") or path.suffix.lower() in EXTENSIONS:
        scanned.ignored.append(_shown(path, root))


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: Path, root: Path) -> str:
    """A path that may hold bytes that are no text, as it can be printed."""
    return path.relative_to(root).as_posix().encode(errors="replace").decode()


def _class_names(scanned: _Found) -> tuple[str, ...]:
    spellings: dict[str, set[str]] = defaultdict(set)
    for name, _, _ in scanned.images:
        spellings[name.casefold()].add(name)
    clashes = [" and ".join(sorted(names)) for names in spellings.values() if len(names) > 1]
    if clashes:
        raise DataError(
            f"class names differ in upper and lower case only: {'; '.join(clashes)}. "
            "Many file systems cannot tell them apart: rename or merge the folders."
        )
    trained = {name for name, split, _ in scanned.images if split == "train"}
    for name in sorted({name for name, _, _ in scanned.images} - trained):
        scanned.problems.append(Problem(name, "class without training images"))
    return tuple(sorted(trained))


def _parts(root: Path, entries: tuple[Entry, ...]) -> PartsTable:
    path = root / FILE_NAME
    if not path.is_file():
        return PartsTable((), (), {}, ())
    return read_parts(path, [entry.id for entry in entries])


def _id(path: Path, root: Path) -> str:
    return stable_id(path.relative_to(root).as_posix())

"""CUB-200-2011 from its official folder: 200 kinds of birds with boxes and 15 points on 12 parts (App. J).

Left and right are one part ("left eye" and "right eye" are two points of the part "eye"): they look alike,
and augmentation turns one into the other.

Facts of the full data set that are dealt with here: 8 images that are not RGB (decoding converts them), 8
boxes that exceed their image (cut to it), 1 visible part outside its image (then not visible). Points are
given as pixel positions; the middle of that pixel is meant.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pixpnet.data import statistics
from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalog import Catalog, Entry
from pixpnet.data.confined import listed_file
from pixpnet.data.errors import DataError, Problem
from pixpnet.data.folder import existing_folder
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.reader import FileReader
from pixpnet.data.sample import Annotation
from pixpnet.data.splits import stable_id


def cub_catalog(root: Path, crop_to_box: bool = False) -> Catalog:
    """Lists CUB-200-2011, or a part of it in the same layout; ids need not be contiguous.

    Args:
        root: the folder that holds `images.txt`.
        crop_to_box: show only the birds' boxes.

    Raises:
        DataError: if a file of the layout is missing or a line of it cannot be understood.
    """
    root = existing_folder(root)
    names = {row[0]: row[1] for row in _rows(root, "images.txt", 2)}
    classes = {int(row[0]): row[1] for row in _rows(root, "classes.txt", 2)}
    class_of = {row[0]: _whole(row[1], "image_class_labels.txt") for row in _rows(root, "image_class_labels.txt", 2)}
    in_train = {
        row[0]: _whole(row[1], "train_test_split.txt", most=1) for row in _rows(root, "train_test_split.txt", 2)
    }
    boxes = {row[0]: _floats(row[1:], root, "bounding_boxes.txt") for row in _rows(root, "bounding_boxes.txt", 5)}
    points = _rows(root, "parts/parts.txt", 2)
    locations = _locations(root, [row[0] for row in points])
    labels = {number: label for label, number in enumerate(sorted(classes))}
    part_of_point = [_without_side(row[1]) for row in points]
    part_names = tuple(sorted(set(part_of_point)))
    entries: list[Entry] = []
    problems: list[Problem] = []
    for image, name in names.items():
        if image not in class_of or image not in in_train or class_of[image] not in labels:
            problems.append(Problem(name, "has no class, or no line in train_test_split.txt"))
            continue
        if image not in boxes:
            problems.append(Problem(name, "has no line in bounding_boxes.txt"))
            continue
        x, y, width, height = boxes[image]
        annotation = locations.get(image, _nothing_seen(len(points)))
        annotation = replace(annotation, bounding_box=(x, y, x + width, y + height))
        entries.append(
            Entry(
                id=stable_id(name),
                label=labels[class_of[image]],
                split="train" if in_train[image] else "test",
                path=listed_file(root / "images", name, "images.txt"),
                annotation=annotation,
            )
        )
    return Catalog(
        name="CUB-200-2011" if len(classes) == 200 else f"CUB-200-2011 ({len(classes)} classes)",
        class_names=tuple(_readable(classes[number]) for number in sorted(classes)),
        part_names=part_names,
        point_parts=tuple(part_names.index(part) for part in part_of_point),
        entries=tuple(entries),
        reader=FileReader(upright=False, crop_to_box=crop_to_box),
        preprocessing=Preprocessing(mean=statistics.CUB.mean, std=statistics.CUB.std),
        augmentation=Augmentation(),
        statistics_known=True,
        decided=frozenset({"train", "test"}),
        problems=tuple(problems),
        root=root,
        class_folders=tuple(classes[number] for number in sorted(classes)),
    )


def _locations(root: Path, points: Sequence[str]) -> dict[str, Annotation]:
    """Points and visibility of each image."""
    columns = {number: at for at, number in enumerate(points)}
    annotations: dict[str, Annotation] = {}
    for image, point, x, y, visible in _rows(root, "parts/part_locs.txt", 5):
        if point not in columns:
            raise DataError(f"parts/part_locs.txt names the part {point}, which parts/parts.txt does not have")
        annotation = annotations.setdefault(image, _nothing_seen(len(points)))
        annotation.keypoints[columns[point]] = np.add(_floats((x, y), root, "parts/part_locs.txt"), 0.5)
        annotation.visible[columns[point]] = visible == "1"
    return annotations


def _nothing_seen(points: int) -> Annotation:
    return Annotation(np.zeros((points, 2)), np.zeros(points, dtype=bool))


def _rows(root: Path, name: str, columns: int) -> list[list[str]]:
    """The lines of a file of the layout; the last column may hold spaces."""
    try:
        lines = (root / name).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8 text ({error})") from error
    except OSError as error:
        raise DataError(
            f"{root} is not a CUB-200-2011 folder: {name} cannot be read ({error.strerror}). "
            "Give the folder that holds images.txt; for other images use folder:PATH."
        ) from error
    rows = [line.split(maxsplit=columns - 1) for line in lines if line.strip()]
    for number, row in enumerate(rows, start=1):
        if len(row) != columns or not row[0].isdigit():
            raise DataError(f"{name}, line {number}: expected {columns} columns that start with an id, got {row}")
    return rows


def _floats(texts: Sequence[str], root: Path, name: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(text) for text in texts)
    except ValueError as error:
        raise DataError(f"{root.name}/{name}: {error}") from error
    if not all(map(math.isfinite, numbers)):
        raise DataError(f"{root.name}/{name}: {' '.join(texts)} are not all numbers")
    return numbers


def _whole(text: str, name: str, most: int | None = None) -> int:
    if not text.isdigit() or (most is not None and int(text) > most):
        expected = f"a number up to {most}" if most is not None else "a number"
        raise DataError(f"{name}: expected {expected}, got {text!r}")
    return int(text)


def _without_side(part: str) -> str:
    return part.removeprefix("left ").removeprefix("right ")


def _readable(name: str) -> str:
    """'001.Black_footed_Albatross' for people."""
    number, dot, rest = name.partition(".")
    return (rest if dot and number.isdigit() else name).replace("_", " ")

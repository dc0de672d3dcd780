"""Keypoints for one's own images: a file `parts.csv` beside them.

One line per visible point, with the columns `file, part, x, y` and optionally `visible` (1 or 0). `file` is
the path below the data set's folder; `x` and `y` are pixels as image viewers count them: the pixel in the top
left corner is 0, 0. A part may occur several times in an image (two wheels). What is not listed is not
visible.
"""

import csv
import math
import posixpath
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pixpnet.data.errors import DataError, Problem
from pixpnet.data.sample import Annotation
from pixpnet.data.splits import stable_id

FILE_NAME = "parts.csv"
_COLUMNS = ("file", "part", "x", "y")


@dataclass(frozen=True)
class PartsTable:
    """What a `parts.csv` says.

    Attributes:
        part_names: in alphabetical order.
        point_parts: for each point the part it belongs to; as many points as any image has of that part.
        annotations: by stable id, every image having all points.
        problems: lines that name missing files or cannot be understood.
    """

    part_names: tuple[str, ...]
    point_parts: tuple[int, ...]
    annotations: Mapping[str, Annotation]
    problems: tuple[Problem, ...]


def read_parts(path: Path, ids: Collection[str]) -> PartsTable:
    """Reads a `parts.csv`.

    Args:
        path: the file.
        ids: stable ids of the images that exist.

    Raises:
        DataError: if the file has no usable header or is not UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or ()]
            missing = [column for column in _COLUMNS if column not in rows.fieldnames]
            if missing:
                raise DataError(
                    f"{path.name}: the first line must name the columns {', '.join(_COLUMNS)}, with commas between "
                    f"them (and may name `visible`); there is no {', '.join(missing)} in: {', '.join(rows.fieldnames)}"
                )
            return _table([(rows.line_num, row) for row in rows], path.name, set(ids))
    except csv.Error as error:
        raise DataError(f"{path.name} is not a table of comma-separated values: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8 text: save it as UTF-8 ({error})") from error


def _table(rows: list[tuple[int, dict[str, str | None]]], name: str, ids: set[str]) -> PartsTable:
    problems: list[Problem] = []
    points: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for number, row in rows:
        where = f"{name}, line {number}"
        file, part = stable_id(posixpath.normpath((row["file"] or "").strip())), (row["part"] or "").strip()
        x, y = _number(row["x"]), _number(row["y"])
        visible = (row.get("visible") or "1").strip()
        if file not in ids:
            problems.append(Problem(where, f"names {file!r}, which is not among the images"))
        elif not part:
            problems.append(Problem(where, "names no part"))
        elif visible not in ("0", "1"):
            problems.append(Problem(where, f"`visible` is 0 or 1, not {visible!r}"))
        elif visible == "0":
            points[file][part] += []
        elif x is None or y is None:
            problems.append(Problem(where, f"x and y must be numbers, not {row['x']!r} and {row['y']!r}"))
        else:
            points[file][part].append((x + 0.5, y + 0.5))  # the middle of the pixel
    part_names = tuple(sorted({part for parts in points.values() for part in parts}))
    room = {part: max(1, *(len(parts[part]) for parts in points.values() if part in parts)) for part in part_names}
    point_parts = tuple(index for index, part in enumerate(part_names) for _ in range(room[part]))
    annotations = {id_: _annotation(points.get(id_, {}), part_names, room) for id_ in ids} if part_names else {}
    return PartsTable(part_names, point_parts, annotations, tuple(problems))


def _annotation(
    points: Mapping[str, list[tuple[float, float]]], part_names: tuple[str, ...], room: Mapping[str, int]
) -> Annotation:
    keypoints: list[tuple[float, float]] = []
    visible: list[bool] = []
    for part in part_names:
        seen = points.get(part, [])
        absent = room[part] - len(seen)
        keypoints += [*seen, *[(0.0, 0.0)] * absent]
        visible += [*[True] * len(seen), *[False] * absent]
    return Annotation(np.array(keypoints, dtype=np.float64), np.array(visible, dtype=bool))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None

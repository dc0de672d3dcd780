"""Which annotated parts each prototype's own region holds: `parts.json` beside the pictures of prototypes.

A prototype whose region holds the annotated beak of its training image can be called by that name. Names are for
people; no claim rests on them. A run without annotations has no such file.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from pixpnet.box import Box, hull
from pixpnet.class_names import printable
from pixpnet.records import BadRecord, refuse_mistyped, to_plain
from pixpnet.whole_file import written_whole

FILE = "parts.json"
PartNames = tuple[tuple[str, ...], ...]
# Of a file that somebody else may have written.
_LONGEST = 2**22


def parts_inside(
    boxes: Sequence[Box],
    points: Float[np.ndarray, "points 2"],
    visible: Bool[np.ndarray, " points"],
    names: Sequence[str],
) -> tuple[str, ...]:
    """The parts whose points lie in a region, the one nearest to its middle first.

    Args:
        boxes: the region, in the `pixel` frame.
        points: x and y of each annotated point, in the same frame.
        visible: which points can be seen.
        names: of the part that each point belongs to.

    >>> points = np.array([[2.0, 2.0], [5.0, 5.0], [9.0, 9.0]])
    >>> parts_inside([Box(0, 0, 8, 8)], points, np.array([True, True, True]), ["beak", "wing", "tail"])
    ('wing', 'beak')
    """
    around = hull(boxes)
    if around is None:
        return ()
    y0, x0, y1, x1 = around
    inside = [
        (float(np.hypot(x - (x0 + x1) / 2, y - (y0 + y1) / 2)), name)
        for (x, y), seen, name in zip(points.tolist(), visible.tolist(), names, strict=True)
        if seen and any(box.y0 <= y < box.y1 and box.x0 <= x < box.x1 for box in boxes)
    ]
    return tuple(dict.fromkeys(name for _, name in sorted(inside)))


def write_part_names(folder: Path, names: PartNames) -> None:
    """Writes the parts of each prototype's region, in the order of their numbers."""
    with written_whole(folder / FILE) as temporary:
        temporary.write_text(json.dumps(to_plain(names), indent=1), encoding="utf-8")


def read_part_names(folder: Path) -> PartNames:
    """What `write_part_names` wrote; nothing where there is no such file, or it is damaged: names are an extra."""
    path = folder / FILE
    try:
        if path.stat().st_size > _LONGEST:
            return ()
        names: object = json.loads(path.read_text(encoding="utf-8"))
        refuse_mistyped(PartNames, names, FILE)
    except (OSError, ValueError, RecursionError, BadRecord):
        return ()
    assert isinstance(names, list)
    return tuple(tuple(map(printable, own)) for own in names)

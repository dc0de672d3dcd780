"""Where a prototype comes from: the training image, the cell, and the exact pixels that the cell saw."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite

from pixpnet.box import Box, hull
from pixpnet.fields import Field
from pixpnet.parts import Comparison
from pixpnet.records import ADDED_LATER

# A distance of 0 may come out a little below it, as 1 - cosine does.
_ROUNDING = 1e-3
_RULES = ("image", "patch", "none")
# Of a source image in pixels; larger files are not decoded.
_LARGEST_SIDE = 1e8
Matrix = tuple[float, float, float, float, float, float, float, float, float]


@dataclass(frozen=True)
class Origin:
    """The patch of a training image that a prototype is.

    Attributes:
        prototype: which one.
        label: the class of the image: one that the prototype speaks for, where it speaks for any.
        image: stable id of the training image.
        row: of the patch's top left cell.
        col: of the patch's top left cell.
        boxes: the exact field of the patch in the `pixel` frame, as disjoint boxes; none where it sees only padding.
        to_source: from the `pixel` frame to the `source` frame of the image, a 3 x 3 matrix row by row.
        distance: how far the learnt prototype was from the patch when the patch took its place.
        unique: what none of its rivals (others of its class, or of its pool, in its grid) shares with it: its image,
            its patch, or nothing.
        grid: whose cell it is.
        places: where in the grid its parts were read (`parts.comparison.Places`), where that depends on the image.
    """

    prototype: int
    label: int
    image: str
    row: int
    col: int
    boxes: tuple[Box, ...]
    to_source: Matrix
    distance: float
    unique: str
    grid: int = field(default=0, metadata=ADDED_LATER)
    places: tuple[tuple[float, float], ...] = field(default=(), metadata=ADDED_LATER)

    @property
    def hull(self) -> Box | None:
        """The smallest box around the field; None where it is empty."""
        return hull(self.boxes)


def check_origins(origins: Sequence[Origin], fields: Sequence[Field], comparisons: Sequence[Comparison]) -> None:
    """Refuses origins that cannot be: what is shown of a prototype must be what its cell sees.

    Args:
        origins: of a model's prototypes.
        fields: what each patch that is compared with a prototype sees, for each grid.
        comparisons: of each grid, which say what a patch sees and how small their measure can be.

    Raises:
        ValueError: with the first that cannot be, and why.
    """
    for origin in origins:
        where = f"the origin of prototype {origin.prototype}"
        if not 0 <= origin.grid < len(fields):
            raise ValueError(f"{where} is a cell of grid {origin.grid}, and there are {len(fields)}")
        seen_by = fields[origin.grid]
        rows, cols = seen_by.shape[-2:]
        if not (0 <= origin.row < rows and 0 <= origin.col < cols):
            raise ValueError(f"{where} is cell {origin.row}, {origin.col} of a grid of {rows} x {cols}")
        comparison = comparisons[origin.grid]
        seen = comparison.region((origin.row, origin.col), seen_by, origin.places)
        if sorted(origin.boxes) != sorted(seen):
            raise ValueError(
                f"{where} is said to see {_shown(origin.boxes)}, and its cell {origin.row}, {origin.col} sees "
                f"{_shown(seen)}"
            )
        least = comparison.measure.range(comparison.prototypes[0].numel())[0]
        if not (isfinite(origin.distance) and origin.distance >= least - _ROUNDING):
            raise ValueError(f"{where} is {origin.distance} away from it, and the least is {least:g}")
        if origin.unique not in _RULES:
            raise ValueError(f"{where} has the rule {origin.unique!r}, there are {', '.join(_RULES)}")
        _check_matrix(origin.to_source, where)


def _check_matrix(matrix: Matrix, where: str) -> None:
    """Preprocessing shrinks, enlarges and crops; it does not mirror, tilt or lead to a point."""
    a, b, x, c, d, y, *last = matrix
    if last != [0.0, 0.0, 1.0] or not (a * d - b * c > 0 and max(map(abs, (a, b, c, d, x, y))) < _LARGEST_SIDE):
        raise ValueError(f"{where} leads back to its image by {list(matrix)}, which no preprocessing does")


def _shown(boxes: Sequence[Box]) -> str:
    return ", ".join(str(tuple(box)) for box in boxes[:2]) + (" ..." if len(boxes) > 2 else "") or "nothing"


def picture_name(prototype: int, count: int) -> str:
    """The name, without its ending, of a prototype's pictures in a run's folder `prototypes`.

    >>> picture_name(7, 120)
    '007'
    """
    return f"{prototype:0{len(str(count))}d}"

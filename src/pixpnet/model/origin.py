"""Where a prototype comes from: the training image, the cell, and the exact pixels that the cell saw."""

from dataclasses import dataclass

from pixpnet.box import Box, hull

Matrix = tuple[float, float, float, float, float, float, float, float, float]


@dataclass(frozen=True)
class Origin:
    """The patch of a training image that a prototype is.

    Attributes:
        prototype: which one.
        label: its class.
        image: stable id of the training image.
        row: of the patch's top left cell.
        col: of the patch's top left cell.
        boxes: the exact field of the patch in the `pixel` frame, as disjoint boxes; none where it sees only padding.
        to_source: from the `pixel` frame to the `source` frame of the image, a 3 x 3 matrix row by row.
        distance: how far the learnt prototype was from the patch when the patch took its place.
        unique: what no other prototype of the class shares with it: its image, its patch, or nothing.
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

    @property
    def hull(self) -> Box | None:
        """The smallest box around the field; None where it is empty."""
        return hull(self.boxes)


def picture_name(prototype: int, count: int) -> str:
    """The name, without its ending, of a prototype's pictures in a run's folder `prototypes`.

    >>> picture_name(7, 120)
    '007'
    """
    return f"{prototype:0{len(str(count))}d}"

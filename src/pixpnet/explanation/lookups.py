"""What explanations ask of a model whatever the image: pictures of prototypes, regions of cells, what a grid can see.

Beside a small network, looking these up again for every image takes longer than all the rest of an explanation. They
are remembered with what they are about (a folder as it was last changed, a `Field`), and forgotten with it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pixpnet.box import Box
from pixpnet.explanation.record import Sight
from pixpnet.fields import Field
from pixpnet.model import Grid, PixPNet, picture_name
from pixpnet.model.part_names import read_part_names
from pixpnet.parts.comparison import Places


class Pictures(NamedTuple):
    """The files that show a prototype, where there are any, and the annotated parts on them."""

    crop: str | None = None
    picture: str | None = None
    parts: tuple[str, ...] = ()


class Region(NamedTuple):
    """The pixels that a patch sees, as disjoint boxes, and their share of the image."""

    boxes: tuple[Box, ...]
    share: float


def pictures_of(model: PixPNet) -> tuple[Pictures, ...]:
    """The pictures of each prototype, in the order of their numbers."""
    count = len(model.labels)
    if model.pictures is None:
        return _no_pictures(count)
    try:
        changed = model.pictures.stat().st_mtime_ns
    except OSError:
        return _no_pictures(count)
    return _listed(model.pictures, changed, count)


@lru_cache(maxsize=8)
def _no_pictures(count: int) -> tuple[Pictures, ...]:
    return (Pictures(),) * count


@lru_cache(maxsize=8)
def _listed(folder: Path, changed: int, count: int) -> tuple[Pictures, ...]:
    """Lists a folder, again when it changes: asking for each file would cost more than all terms."""
    if not folder.is_dir():
        return _no_pictures(count)
    names, parts = frozenset(file.name for file in folder.iterdir()), read_part_names(folder)

    def file(name: str) -> str | None:
        return f"{folder}/{name}" if name in names else None

    return tuple(
        Pictures(
            file(f"{picture_name(number, count)}.png"),
            file(f"{picture_name(number, count)}.jpg"),
            parts[number] if number < len(parts) else (),
        )
        for number in range(count)
    )


class _KnownRegions:
    """What was worked out already; threads write to it while others read, so nobody goes through it."""

    def __init__(self) -> None:
        self.by_cell: dict[tuple[int, int], Region] = {}


@dataclass(frozen=True)
class Seen:
    """A grid, and what each of its patches sees of images of one size."""

    grid: Grid
    field: Field
    _regions: _KnownRegions

    def region(self, cell: tuple[int, int], places: Places) -> Region:
        """What the patch at a cell sees; remembered unless it depends on the image."""
        region = None if places else self._regions.by_cell.get(cell)
        if region is None:
            boxes = self.grid.comparison.region(cell, self.field, places)
            area = sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in boxes)
            region = Region(boxes, area / math.prod(self.field.space))
            if not places:
                self._regions.by_cell[cell] = region
        return region

    def sight(self, model: PixPNet) -> Sight:
        """What the grid's cells can see of images of this size."""
        sight = _SIGHTS.get(self.field)
        if sight is None:
            sight = _SIGHTS[self.field] = self._sight(model.grid_layers[self.grid.number])
        return sight

    def _sight(self, layer: str) -> Sight:
        _, rows, cols = self.field.shape
        return Sight(
            cells=(rows, cols),
            mean_fraction=self.field.mean_fraction_union,
            max_fraction=self.field.max_fraction,
            everything=self.field.fraction_that_sees_everything,
            layer=layer,
            note=self.grid.comparison.moves,
        )


def seen_by(model: PixPNet, size: tuple[int, int]) -> tuple[Seen, ...]:
    """What the patches of each grid see of images of this height and width."""
    fields = model.fields_at(size)
    return tuple(
        Seen(grid, field, _REGIONS.setdefault(field, _KnownRegions()))
        for grid, field in zip(model.grids, fields, strict=True)
    )


# A field belongs to one grid of one model (`PixPNet.fields_at`), and never changes.
_REGIONS: "WeakKeyDictionary[Field, _KnownRegions]" = WeakKeyDictionary()
_SIGHTS: "WeakKeyDictionary[Field, Sight]" = WeakKeyDictionary()

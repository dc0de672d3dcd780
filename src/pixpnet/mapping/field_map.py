"""The mapping by exact receptive fields (Sec. 3, App. D, Alg. 2): similarities painted on what their cells see.

A map is the maximum over cells of similarity x Gaussian over the boxes of the cell's field (`gaussian.py`), on a
background of zeros. The region is the exact field of the cell that speaks for the prototype, holes included; it is
empty where the cell sees only padding.

Negative similarities, which no distance of the paper gives but one's own may, need more than Alg. 2 says: against zeros
they vanish, and times a Gaussian they would *rise* towards the border of the field. So a map fades towards its own
background b, which is 0, or twice the lowest similarity where that is negative: b + max of (s - b) x Gaussian. The
centre of a field keeps the similarity itself, pixels that no cell sees lie below all that are seen, and without
negative similarities this is Alg. 2 to the letter.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.box import Box
from pixpnet.fields import Field
from pixpnet.mapping.gaussian import kernel
from pixpnet.mapping.scene import GridScene, Heatmaps, PixelMapping, Region, Scene, grid_by_grid
from pixpnet.mapping.separable import SeparablePainter


def by_field(scene: Scene, gaussian: bool = True) -> Heatmaps:
    """Maps and regions of a scene by the exact fields of the model's cells.

    Args:
        scene: an image and prototypes.
        gaussian: pixels in the centre of a field count more than those at its border; without, all count alike.
    """
    return grid_by_grid(scene, lambda part: _painted(part, scene.field_of(part), gaussian))


by_flat_field: PixelMapping = partial(by_field, gaussian=False)


def _painted(part: GridScene, seen: Field, gaussian: bool) -> Heatmaps:
    known = _KNOWN.setdefault(seen, _Known())
    cells = [(row, col) for row, col in part.cells.tolist()]
    maps = part.similarity_maps.detach()
    background = 2 * maps.flatten(1).amin(dim=1).clamp(max=0)[:, None, None]
    negative = bool((background < 0).any())
    painter: Painter
    if part.part_places is None:
        painter, regions = known.painter(seen, gaussian, maps), [known.region(part, seen, cell) for cell in cells]
    else:  # another image, other fields
        painter, regions = BoxPainter.of_image(part, seen, gaussian), [part.region(cell, seen) for cell in cells]
    painted = painter.paint(maps - background if negative else maps)
    if negative:
        painted += background
    return Heatmaps(painted, tuple(regions))


@dataclass(frozen=True)
class BoxPainter:
    """Alg. 2 box by box, for fields that are no products and for other devices; several prototypes at once."""

    boxes: tuple[tuple[int, int, Box], ...]
    size: tuple[int, int]
    gaussian: bool

    @classmethod
    def of(cls, seen: Field, gaussian: bool) -> "BoxPainter":
        """The painter of any field with rows and columns."""
        rows, cols = (size for dim, size in enumerate(seen.shape) if dim != seen.channel_dim)
        cells = ((row, col) for row in range(rows) for col in range(cols))
        boxes = tuple((row, col, Box(*box)) for row, col in cells for box in seen.boxes(row, col))
        height, width = seen.space
        return cls(boxes, (height, width), gaussian)

    @classmethod
    def of_image(cls, part: GridScene, seen: Field, gaussian: bool) -> "BoxPainter":
        """The painter of what patches see of one image."""
        rows, cols = part.similarity_maps.shape[-2:]
        cells = ((row, col) for row in range(rows) for col in range(cols))
        boxes = tuple((*cell, box) for cell in cells for box in part.region(cell, seen))
        height, width = seen.space
        return cls(boxes, (height, width), gaussian)

    def paint(self, maps: Float[Tensor, "protos rows cols"]) -> Float[Tensor, "protos height width"]:
        """Maxima over cells of similarity x Gaussian; similarities are 0 or more."""
        painted = maps.new_zeros(len(maps), *self.size)
        # A few at a time, so that what is being painted stays in the processor's cache.
        for part, similarities in zip(painted.split(8), maps.split(8), strict=True):
            for row, col, (y0, x0, y1, x1) in self.boxes:
                values = similarities[:, row, col, None, None]
                if self.gaussian:
                    values = values * kernel(y1 - y0, x1 - x0).to(maps)
                box = part[:, y0:y1, x0:x1]
                torch.maximum(box, values, out=box)
        return painted


Painter = SeparablePainter | BoxPainter


@dataclass(frozen=True)
class _Known:
    """What was worked out about one field: geometry costs more than painting, and images of one size share it."""

    painters: dict[tuple[bool, torch.dtype, torch.device], Painter] = dataclasses.field(default_factory=dict)
    regions: dict[tuple[int, int], Region] = dataclasses.field(default_factory=dict)

    def painter(self, seen: Field, gaussian: bool, like: Tensor) -> Painter:
        key = (gaussian, like.dtype, like.device)
        if key not in self.painters:
            separable = SeparablePainter.of(seen, gaussian, like) if like.device.type == "cpu" else None
            self.painters[key] = separable or BoxPainter.of(seen, gaussian)
        return self.painters[key]

    def region(self, part: GridScene, seen: Field, cell: tuple[int, int]) -> Region:
        if cell not in self.regions:
            self.regions[cell] = part.region(cell, seen)
        return self.regions[cell]


# Fields live as long as their model, and what is known about them as long as they. Each belongs to one grid.
_KNOWN: WeakKeyDictionary[Field, _Known] = WeakKeyDictionary()

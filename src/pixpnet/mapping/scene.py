"""What every mapping from cells to pixels gets, and what it gives: similarity maps in, heat maps and regions out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.box import Box
from pixpnet.fields import Field
from pixpnet.model import Grid, PixPNet
from pixpnet.parts.comparison import as_places

Region = tuple[Box, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class GridScene:
    """The prototypes of a scene that look at one grid; their maps have one size.

    Attributes:
        grid: what they look at.
        places: where each of them stands among the scene's prototypes, in rising order.
        similarity_maps: their similarity to every patch; a patch is named by its top left cell.
        cells: row and column of the patch that speaks for each.
        part_places: where the parts of the patch at each cell are read, where that depends on the image; else None.
    """

    grid: Grid
    places: tuple[int, ...]
    similarity_maps: Float[Tensor, "protos rows cols"]
    cells: Int64[Tensor, "protos 2"]
    part_places: Float[Tensor, "rows cols parts 2"] | None = None

    def region(self, cell: tuple[int, int], field: Field) -> Region:
        """What the patch at a cell sees of the image, exactly."""
        places = () if self.part_places is None else as_places(self.part_places[cell[0], cell[1]])
        return self.grid.comparison.region(cell, field, places)


@dataclass(frozen=True)
class Scene:
    """One image and the prototypes that are asked for.

    Attributes:
        model: in eval mode.
        image: normalised, in the network's pixels.
        prototypes: their numbers.
        grids: the same prototypes, grid by grid; a grid that none of them looks at is not there.
        generator: for a mapping that draws.
    """

    model: PixPNet
    image: Float[Tensor, "3 height width"]
    prototypes: tuple[int, ...]
    grids: tuple[GridScene, ...]
    generator: torch.Generator | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self.image.shape[-2], self.image.shape[-1]

    @property
    def similarity_maps(self) -> tuple[Float[Tensor, "_rows _cols"], ...]:
        """The similarity of each prototype to every patch of its grid, in the order of the prototypes."""
        return in_order(self.grids, [part.similarity_maps.unbind() for part in self.grids])

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """Row and column, in its own grid, of the patch that speaks for each prototype."""
        return in_order(self.grids, [[(row, col) for row, col in part.cells.tolist()] for part in self.grids])

    def field_of(self, part: GridScene) -> Field:
        """What each patch of a grid sees of the image."""
        return self.model.fields_at(self.size)[part.grid.number]

    def regions_of(self, part: GridScene) -> tuple[Region, ...]:
        """What the patches that speak for the prototypes of a grid see, exactly."""
        field = self.field_of(part)
        return tuple(part.region((row, col), field) for row, col in part.cells.tolist())

    @property
    def regions(self) -> tuple[Region, ...]:
        """What the patch that speaks for each prototype sees, exactly, in the order of the prototypes."""
        return in_order(self.grids, [self.regions_of(part) for part in self.grids])


@dataclass(frozen=True)
class Heatmaps:
    """Where prototypes are found, in the network's pixels.

    Attributes:
        maps: how much each pixel matters to each prototype; the order of pixels is what counts.
        regions: the pixels that are claimed for each prototype, as disjoint boxes; none for an empty field.
    """

    maps: Float[Tensor, "protos height width"]
    regions: tuple[Region, ...]


PixelMapping = Callable[[Scene], Heatmaps]


def scene(
    model: PixPNet,
    image: Float[Tensor, "3 height width"],
    prototypes: Sequence[int],
    generator: torch.Generator | None = None,
) -> Scene:
    """One forward pass, and what it says about some prototypes."""
    with torch.no_grad():
        matches = model(image[None]).matches
    parts = []
    for grid in model.grids:
        places = tuple(index for index, prototype in enumerate(prototypes) if prototype in grid.prototypes)
        if not places:
            continue
        chosen = torch.tensor([prototypes[index] for index in places], device=image.device)
        compared = matches.grids[grid.number]
        similarities = grid.comparison.similarity(compared.distance_maps[0, chosen - grid.first])
        read = None if compared.places is None else compared.places[0]
        parts.append(GridScene(grid, places, similarities, matches.cells[0, chosen], read))
    return Scene(model, image, tuple(prototypes), tuple(parts), generator)


def grid_by_grid(scene: Scene, mapping: Callable[[GridScene], Heatmaps]) -> Heatmaps:
    """The maps of all prototypes of a scene, from those of each of its grids."""
    parts = [mapping(part) for part in scene.grids]
    if len(parts) == 1:
        return parts[0]
    maps = scene.image.new_zeros(len(scene.prototypes), *scene.size)
    for part, painted in zip(scene.grids, parts, strict=True):
        maps[list(part.places)] = painted.maps.to(maps)
    return Heatmaps(maps, in_order(scene.grids, [painted.regions for painted in parts]))


def in_order(grids: Sequence[GridScene], values: Sequence[Sequence[T]]) -> tuple[T, ...]:
    """What each grid says of its prototypes, in the order of the scene's prototypes."""
    placed = [pair for part, own in zip(grids, values, strict=True) for pair in zip(part.places, own, strict=True)]
    return tuple(value for _, value in sorted(placed, key=lambda pair: pair[0]))

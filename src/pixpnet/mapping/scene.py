"""What every mapping from cells to pixels gets, and what it gives: similarity maps in, heat maps and regions out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.box import Box
from pixpnet.model import PixPNet


@dataclass(frozen=True)
class Scene:
    """One image and the prototypes that are asked for, in one order throughout.

    Attributes:
        model: in eval mode.
        image: normalised, in the network's pixels.
        prototypes: their numbers.
        similarity_maps: their similarity to every patch; a patch is named by its top left cell.
        best_cells: row and column of the most similar patch of each.
        generator: for a mapping that draws.
    """

    model: PixPNet
    image: Float[Tensor, "3 height width"]
    prototypes: tuple[int, ...]
    similarity_maps: Float[Tensor, "protos rows cols"]
    best_cells: Int64[Tensor, "protos 2"]
    generator: torch.Generator | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self.image.shape[-2], self.image.shape[-1]


@dataclass(frozen=True)
class Heatmaps:
    """Where prototypes are found, in the network's pixels.

    Attributes:
        maps: how much each pixel matters to each prototype; the order of pixels is what counts.
        regions: the pixels that are claimed for each prototype, as disjoint boxes; none for an empty field.
    """

    maps: Float[Tensor, "protos height width"]
    regions: tuple[tuple[Box, ...], ...]


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
    chosen = torch.as_tensor(prototypes, dtype=torch.long, device=image.device)
    distances = matches.distance_maps[0, chosen]
    similarities = matches.similarity(distances, matches.epsilon)
    return Scene(model, image, tuple(prototypes), similarities, matches.best_cells[0, chosen], generator)

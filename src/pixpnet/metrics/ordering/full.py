"""Distance maps of chosen steps of a relevance ordering by whole forward passes."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.model import Grid, PixPNet
from pixpnet.parts import Comparison


def full_distance_maps(
    model: PixPNet,
    start: Float[Tensor, "3 height width"],
    image: Float[Tensor, "3 height width"],
    order: Int64[Tensor, " pixels"],
    prototypes: Int64[Tensor, " protos"],
    steps: Int64[Tensor, " steps"],
    batch: int = 8,
) -> Iterator[Float[Tensor, "batch protos rows cols"]]:
    """The distance maps after some numbers of steps, a batch of them at a time.

    Args:
        model: in eval mode.
        start: the image before the first step.
        image: where the pixels come from.
        order: the pixels (row by row) in the order in which they are put back.
        prototypes: their numbers; all look at one grid.
        steps: after how many pixels to look.
        batch: how many passes at once.

    Raises:
        ValueError: if prototypes look at several grids.
    """
    grid, chosen = of_one_grid(model, prototypes)
    moment = moment_of_each_pixel(order, image)
    with torch.no_grad():
        for some in steps.split(batch):
            back = moment < some[:, None, None]
            embeddings = model.embed(torch.where(back[:, None], image, start))[grid.number]
            yield distances_to(grid.comparison, embeddings, chosen)


def moment_of_each_pixel(
    order: Int64[Tensor, " pixels"], image: Float[Tensor, "3 height width"]
) -> Int64[Tensor, "height width"]:
    """After how many others each pixel of an image is put back, as a picture."""
    moment = torch.empty_like(order)
    moment[order] = torch.arange(len(order), device=order.device)
    return moment.reshape(image.shape[1:])


def of_one_grid(
    model: PixPNet, prototypes: Int64[Tensor, " protos"]
) -> tuple[Grid, Float[Tensor, "protos dim kernel_rows kernel_cols"]]:
    """The grid that some prototypes look at, and the prototypes themselves.

    Raises:
        ValueError: if they look at several grids, whose maps differ in size.
    """
    numbers = prototypes.tolist()
    grid = next((grid for grid in model.grids if all(number in grid.prototypes for number in numbers)), None)
    if grid is None:
        raise ValueError(f"prototypes {numbers} look at several grids, whose maps differ in size: ask grid by grid")
    return grid, grid.comparison.prototypes[prototypes - grid.first]


def distances_to(
    comparison: Comparison,
    embeddings: Float[Tensor, "batch dim rows cols"],
    prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"],
) -> Float[Tensor, "batch protos positions_down positions_across"]:
    """The measure between cells and some prototypes alone, in double precision.

    The similarity has its pole at distance 0. There a distance in float32 is nothing but rounding, while embeddings in
    float32 still say where they are: an error e of their direction is one of e^2 / 2 in the distance.
    """
    return comparison.maps_to(embeddings.double(), prototypes.double())

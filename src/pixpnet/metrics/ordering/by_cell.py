"""Distance maps of chosen steps of a relevance ordering where cells can be had one by one, as those of windows can.

A pixel that is put back changes only the cells whose fields hold it. From one step to the next only those are computed
again, each anew from the image of that step, so no error builds up; all others keep the values that they had. What runs
before windows are cut runs once for each image in which any cell is wanted.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pixpnet.fields import Field
from pixpnet.metrics.ordering.full import distances_to, moment_of_each_pixel, of_one_grid
from pixpnet.model import Grid, PixPNet


def can_go_by_cell(model: PixPNet, grid: Grid) -> bool:
    """Whether cells of a grid can be computed by themselves, and a prototype reads one of them."""
    return model.backbone.cells_alone and grid.comparison.kernel == (1, 1)


def cellwise_distance_maps(
    model: PixPNet,
    start: Float[Tensor, "3 height width"],
    image: Float[Tensor, "3 height width"],
    order: Int64[Tensor, " pixels"],
    prototypes: Int64[Tensor, " protos"],
    steps: Int64[Tensor, " steps"],
    batch: int = 8,
) -> Iterator[Float[Tensor, "batch protos rows cols"]]:
    """What `full_distance_maps` gives, for a network whose cells can be computed by themselves (`can_go_by_cell`).

    Args:
        model: in eval mode.
        start: the image before the first step.
        image: where the pixels come from.
        order: the pixels (row by row) in the order in which they are put back.
        prototypes: their numbers; all look at one grid.
        steps: after how many pixels to look; the nearer they are to each other, the less is computed.
        batch: how many images at once.

    Raises:
        ValueError: if prototypes look at several grids.
    """
    grid, chosen = of_one_grid(model, prototypes)
    height, width = image.shape[1:]
    reach = _Reach(model.fields_at((height, width))[grid.number], image.device)
    moment = moment_of_each_pixel(order, image)
    with torch.no_grad():
        cells: Tensor | None = None
        before: Tensor | None = None
        for some in steps.to(moment.device).split(batch):
            back = moment < some[:, None, None]
            earlier = back[:1] if before is None else before
            wanted = reach.cells_that_see(back ^ torch.cat([earlier, back[:-1]]))
            if cells is None:
                wanted[0] = True
            before = back[-1:]
            images = torch.where(back[:, None], image, start)
            computed = model.embed_cells(images, grid.number, wanted)
            if cells is None:
                cells = computed.new_zeros(wanted[0].numel(), computed.shape[1])
            moments = []
            for changed, rows in zip(wanted.flatten(1), computed.split(wanted.sum(dim=(1, 2)).tolist()), strict=True):
                cells = cells.clone()
                cells[changed] = rows
                moments.append(cells)
            embeddings = torch.stack(moments).transpose(1, 2).unflatten(2, tuple(wanted.shape[1:]))
            yield distances_to(grid.comparison, embeddings, chosen)


class _Reach:
    """Which cells see any of some pixels, by the hulls of their fields: perhaps one too many, never one too few."""

    def __init__(self, field: Field, device: torch.device) -> None:
        rows, cols = field.shape[-2:]
        hulls = [field.hull(row, col) or (0, 0, 0, 0) for row in range(rows) for col in range(cols)]
        self._shape = rows, cols
        self._ends = torch.tensor(hulls, device=device).T

    def cells_that_see(self, pixels: Bool[Tensor, "batch height width"]) -> Bool[Tensor, "batch rows cols"]:
        sums = torch.nn.functional.pad(pixels.int().cumsum(dim=1).cumsum(dim=2), (1, 0, 1, 0))
        y0, x0, y1, x1 = self._ends
        inside = sums[:, y1, x1] - sums[:, y0, x1] - sums[:, y1, x0] + sums[:, y0, x0]
        seen: Tensor = (inside > 0).unflatten(1, self._shape)
        return seen

"""A control that knows nothing: whatever a metric says about it is what the metric gives away for free."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pixpnet.box import Box
from pixpnet.mapping.scene import Heatmaps, Scene


def by_chance(scene: Scene) -> Heatmaps:
    """Uniform noise; each region is the exact field that the honest one is, moved to a random place within the image.

    So a region has the size and shape of an honest one and differs in its place alone. A field as large as the image
    stays where it is, and an empty one stays empty.

    Raises:
        ValueError: if the scene has no generator.
    """
    generator = scene.generator
    if generator is None:
        raise ValueError(
            "a random map is drawn from a generator and none came: pass generator=torch.Generator().manual_seed(0)"
        )
    count = len(scene.prototypes)
    maps = torch.rand(count, *scene.size, generator=generator, device=generator.device)
    places = torch.rand(count, 2, generator=generator, device=generator.device)
    regions = [moved(region, offset, scene.size) for region, offset in zip(scene.regions, places, strict=True)]
    return Heatmaps(maps.to(scene.image), tuple(regions))


def moved(boxes: Sequence[Box], offset: Tensor, size: tuple[int, int]) -> tuple[Box, ...]:
    """The boxes with their hull at a place (down, across) between one end of the image (0) and the other (1).

    >>> moved([Box(0, 0, 2, 2)], torch.tensor([0.0, 0.99]), (8, 8))
    (Box(y0=0, x0=6, y1=2, x1=8),)
    """
    if not boxes:
        return ()
    starts_down, starts_across, stops_down, stops_across = zip(*boxes, strict=True)
    top, left = min(starts_down), min(starts_across)
    room = torch.tensor([size[0] - (max(stops_down) - top), size[1] - (max(stops_across) - left)])
    # One more place than there is room: a hull with room for 1 pixel may stand at 0 or at 1.
    down, across = torch.minimum((offset.cpu() * (room + 1)).long(), room).tolist()
    down, across = down - top, across - left
    return tuple(Box(y0 + down, x0 + across, y1 + down, x1 + across) for y0, x0, y1, x1 in boxes)

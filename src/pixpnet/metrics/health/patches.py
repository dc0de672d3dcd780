"""The training patch of each prototype, with what the data set knows about the image it comes from."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from pixpnet.data import DataSet
from pixpnet.metrics.owners import owners_of
from pixpnet.metrics.part_hits import Region, part_hits
from pixpnet.model import PixPNet
from pixpnet.model.origin_images import origin_images, refuse_misplaced


@dataclass(frozen=True)
class Patch:
    """One prototype's origin, seen again.

    Attributes:
        prototype: its number.
        label: the class that it is listed under; -1 for none.
        owners: the classes that it speaks for.
        region: the exact field of its patch.
        visible: which parts its image shows.
        hit: which of them lie in the region.
        object_share: share of the region's pixels that show the object; None without masks, and for an empty region.
        masks: whether the data set has masks.
    """

    prototype: int
    label: int
    owners: tuple[int, ...]
    region: Region
    visible: Bool[Tensor, " parts"]
    hit: Bool[Tensor, " parts"]
    object_share: float | None
    masks: bool


def patches(model: PixPNet, data_set: DataSet, tick: Callable[[], None]) -> list[Patch]:
    """Looks at the origin of every prototype that has one in the data set's training images.

    Args:
        model: with its origins.
        data_set: what it was trained on.
        tick: called after each image.

    Raises:
        ValueError: if an image is not shown as it was when the prototype was taken from it.
    """
    result: list[Patch] = []
    labels, owners = model.labels.tolist(), owners_of(model)
    for image in origin_images(model.origins or (), data_set):
        sample, origins = image.read(model, data_set), image.origins
        refuse_misplaced(origins, sample)
        hits = part_hits([origin.boxes for origin in origins], sample.keypoints, sample.visible, data_set.point_parts)
        shown = None if sample.masks is None else sample.masks.as_subclass(Tensor).any(dim=0)
        result += [
            Patch(
                prototype=origin.prototype,
                label=labels[origin.prototype],
                owners=owners[origin.prototype],
                region=origin.boxes,
                visible=hits.visible,
                hit=hit,
                object_share=None if shown is None else object_share(origin.boxes, shown),
                masks=shown is not None,
            )
            for origin, hit in zip(origins, hits.hit, strict=True)
        ]
        tick()
    return sorted(result, key=lambda patch: patch.prototype)


def images_of(model: PixPNet, data_set: DataSet) -> int:
    """How many images `patches` will look at."""
    return len(origin_images(model.origins or (), data_set))


def object_share(region: Region, shown: Bool[Tensor, "height width"]) -> float | None:
    """The share of a region's pixels that show something; None for an empty region.

    >>> import torch
    >>> from pixpnet.box import Box
    >>> object_share((Box(0, 0, 2, 2),), torch.tensor([[True, False], [False, False]]))
    0.25
    """
    area = sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in region)
    if not area:
        return None
    return sum(int(shown[y0:y1, x0:x1].sum()) for y0, x0, y1, x1 in region) / area

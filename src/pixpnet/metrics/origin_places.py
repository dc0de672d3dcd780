"""Where prototypes come from: is the middle of a prototype's patch on the object, and near one of its parts?

The middle is that of the hull of the patch's exact field, in the training image that the patch was taken from, as the
network sees it. Beside each share stands what the same region gets at random places within the same image: an object
that fills its image is hit by anything. No forward pass is needed, only the images that prototypes come from.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pixpnet.box import hull
from pixpnet.data import DataSet, Sample
from pixpnet.metrics.answers import KnownBy, known_by
from pixpnet.metrics.bootstrap import DefinedMean, class_clusters, defined_mean
from pixpnet.metrics.draws import generator_for
from pixpnet.metrics.part_hits import PUBLISHED_IMAGE_SIDE, Region
from pixpnet.metrics.regions import object_mask
from pixpnet.model import PixPNet
from pixpnet.model.origin_images import origin_images, refuse_misplaced

RADIUS = 16
"""How near a part is near, in pixels of an image of 224 x 224."""
_RANDOM_PLACES = 100


@dataclass(frozen=True)
class PrototypePlaces:
    """Shares of prototypes, 0-1; intervals draw whole classes again.

    Undefined is a prototype without an origin in the training images, with an empty field, or whose image shows no
    object (or no part).

    Attributes:
        on_object: the middle lies on the object's bounding box (on its masks, where there are no boxes).
        random_on_object: the same at random places.
        near_part: the middle lies within `radius` of a visible part's point.
        random_near_part: the same at random places.
        radius: in pixels: 16 at 224, scaled with the image.
        object_known_by: what the object's pixels were taken from.
    """

    on_object: DefinedMean
    random_on_object: DefinedMean
    near_part: DefinedMean
    random_near_part: DefinedMean
    radius: float
    object_known_by: KnownBy


def prototype_places(
    model: PixPNet, data_set: DataSet, *, seed: int = 0, tick: Callable[[], None] | None = None
) -> PrototypePlaces:
    """Looks at the image that each prototype comes from.

    Args:
        model: with origins; without, everything is undefined.
        data_set: what it was trained on, opened as it was then.
        seed: of random places and intervals.
        tick: called after each image (`health.patches.images_of` says how many there are).

    Raises:
        ValueError: if an image is not shown as it was when the prototype was taken from it.
    """
    radius = RADIUS * model.preprocessing.size / PUBLISHED_IMAGE_SIDE
    count = model.num_prototypes
    values: list[list[float | None]] = [[None] * count for _ in range(4)]
    object_known_by: KnownBy = "nothing"
    for image in origin_images(model.origins or (), data_set):
        sample = image.read(model, data_set)
        refuse_misplaced(image.origins, sample)
        if object_mask(sample) is not None:
            object_known_by = known_by(sample)
        for origin in image.origins:
            places = torch.rand(_RANDOM_PLACES, 2, generator=generator_for(seed, "prototype place", origin.prototype))
            centers = _centers(origin.boxes, places, sample.size)
            if centers is not None:
                for shares, hits in zip((values[:2], values[2:]), _hits(centers, sample, radius), strict=True):
                    if hits is not None:
                        shares[0][origin.prototype] = float(hits[0])
                        shares[1][origin.prototype] = float(hits[1:].double().mean())
        if tick is not None:
            tick()
    classes = class_clusters(model.labels.tolist())
    on_object, random_on_object, near_part, random_near_part = (
        defined_mean(column, classes, seed) for column in values
    )
    return PrototypePlaces(on_object, random_on_object, near_part, random_near_part, radius, object_known_by)


def _centers(
    region: Region, places: Float[Tensor, "places 2"], size: tuple[int, int]
) -> Float[Tensor, "centres 2"] | None:
    """The middle (x, y) of a region, then its middles with the hull at random places; None for an empty region."""
    around = hull(region)
    if around is None:
        return None
    sides = torch.tensor([around.y1 - around.y0, around.x1 - around.x0])
    room = torch.tensor(size) - sides
    starts = torch.minimum((places * (room + 1)).long(), room)
    corners = torch.cat([torch.tensor([[around.y0, around.x0]]), starts])
    return (corners + sides / 2).flip(1)


def _hits(
    centers: Float[Tensor, "centres 2"], sample: Sample, radius: float
) -> tuple[Bool[Tensor, " centres"] | None, Bool[Tensor, " centres"] | None]:
    """Which centres lie on the object, and which near a visible part; None where that cannot be said."""
    shown = object_mask(sample)
    columns, rows = centers.long().T
    on_object = None if shown is None else shown[rows, columns]
    points = sample.keypoints.as_subclass(Tensor)[sample.visible]
    near_part = (torch.cdist(centers, points.to(centers)) <= radius).any(dim=1) if len(points) else None
    return on_object, near_part

"""Pictures of prototypes: what each one's cell saw of its training image, and that image as the network saw it.

Where the data set has annotated parts, `parts.json` says which of them each prototype's region holds.
"""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from pixpnet.data import DataSet, to_uint8
from pixpnet.model import Origin, PixPNet, picture_name
from pixpnet.model.origin_images import origin_images
from pixpnet.model.part_names import parts_inside, write_part_names
from pixpnet.progress import Progress
from pixpnet.whole_file import written_whole

# Of the whole image, which is for people; the field itself is kept without loss.
_QUALITY = 92


def write_crops(model: PixPNet, data: DataSet, folder: Path, progress: Progress | None = None) -> None:
    """Writes two pictures of each prototype, so that a run can be looked at where its data set is not at hand.

    `000.png` is the exact field of its origin, the rest transparent; `000.jpg` is the whole training image in the
    network's pixels. Their names have as many digits as the number of prototypes (`picture_name`). `parts.json` names
    the annotated parts, where there are any.

    Raises:
        ValueError: if the model's prototypes are not patches of images of the data set.
    """
    if model.origins is None:
        raise ValueError("the prototypes of this model are not patches yet, so there is nothing to show")
    folder.mkdir(exist_ok=True)
    images = origin_images(model.origins, data)
    if sum(len(image.origins) for image in images) < len(model.origins):
        raise ValueError("some prototypes come from no training image of this data set, so they cannot be shown")
    point_names = [data.part_names[part] for part in data.point_parts]
    parts: list[tuple[str, ...]] = [()] * len(model.origins)
    for done, image in enumerate(images, start=1):
        sample = image.read(model, data)
        pixels = to_uint8(sample.image.as_subclass(Tensor), model.preprocessing)
        for origin in image.origins:
            name = picture_name(origin.prototype, len(model.origins))
            points = sample.keypoints.as_subclass(Tensor).numpy()
            parts[origin.prototype] = parts_inside(origin.boxes, points, sample.visible.numpy(), point_names)
            with written_whole(folder / f"{name}.png") as temporary:
                crop(pixels, origin).save(temporary, format="png")
            with written_whole(folder / f"{name}.jpg") as temporary:
                Image.fromarray(pixels).save(temporary, format="jpeg", quality=_QUALITY)
        if progress is not None:
            progress("pictures of prototypes", done, len(images))
    if point_names:
        write_part_names(folder, tuple(parts))


def crop(pixels: UInt8[np.ndarray, "height width 3"], origin: Origin) -> Image.Image:
    """The hull of an origin's field; pixels of the hull that are not in the field are transparent."""
    hull = origin.hull
    if hull is None:
        return Image.new("RGBA", (1, 1))
    seen = np.zeros(pixels.shape[:2], np.uint8)
    for y0, x0, y1, x1 in origin.boxes:
        seen[y0:y1, x0:x1] = 255
    y0, x0, y1, x1 = hull
    return Image.fromarray(np.dstack([pixels, seen])[y0:y1, x0:x1], "RGBA")

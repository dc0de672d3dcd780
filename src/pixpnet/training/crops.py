"""Pictures of prototypes: what each one's cell saw of its training image."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from pixpnet.data import DataSet, Preprocessing, preprocess
from pixpnet.data.scan import Progress
from pixpnet.model import Origin, PixPNet
from pixpnet.whole_file import written_whole


def write_crops(model: PixPNet, data: DataSet, folder: Path, progress: Progress | None = None) -> None:
    """Writes `000.png`, `001.png`, ... : for each prototype the exact field of its origin, the rest transparent.

    The names have as many digits as the number of prototypes.

    Raises:
        ValueError: if the model's prototypes are not patches.
    """
    if model.origins is None:
        raise ValueError("the prototypes of this model are not patches yet, so there is nothing to show")
    folder.mkdir(exist_ok=True)
    entries = {entry.id: entry for entry in data.train}
    by_image: dict[str, list[Origin]] = defaultdict(list)
    for origin in model.origins:
        by_image[origin.image].append(origin)
    digits = len(str(len(model.origins)))
    for done, (image, origins) in enumerate(by_image.items(), start=1):
        sample = preprocess(data.reader(entries[image]), model.preprocessing)
        pixels = to_uint8(sample.image.as_subclass(Tensor), model.preprocessing)
        for origin in origins:
            with written_whole(folder / f"{origin.prototype:0{digits}d}.png") as temporary:
                crop(pixels, origin).save(temporary, format="png")
        if progress is not None:
            progress(done, len(by_image))


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


def to_uint8(
    image: Float[Tensor, "3 height width"], preprocessing: Preprocessing
) -> UInt8[np.ndarray, "height width 3"]:
    """A normalised image as a person sees it."""
    shape = (3, 1, 1)
    mean, std = (torch.tensor(values).reshape(shape) for values in (preprocessing.mean, preprocessing.std))
    shown: UInt8[np.ndarray, "height width 3"] = (
        ((image.cpu() * std + mean) * 255).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    )
    return shown

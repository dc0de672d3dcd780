"""Pictures for the page: encoded in memory, and small ones remembered."""

import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from pixpnet.colors import VERMILION
from pixpnet.data import to_uint8
from pixpnet.mapping import Heatmaps, heatmaps
from pixpnet.model import PixPNet, picture_name
from pixpnet.views.explorer.images import Asked
from pixpnet.views.pictures import training_pixels

THUMBNAIL = 160
_QUALITY = 85
_REMEMBERED_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Encoded:
    """A picture file in memory."""

    data: bytes
    media_type: str


def png(pixels: UInt8[np.ndarray, "height width channels"]) -> Encoded:
    """Pixels without loss."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, format="png", compress_level=3)
    return Encoded(file.getvalue(), "image/png")


def thumbnail(pixels: UInt8[np.ndarray, "height width 3"], side: int = THUMBNAIL) -> Encoded:
    """A small picture, for lists."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, format="jpeg", quality=_QUALITY)
    return Encoded(file.getvalue(), "image/jpeg")


def sample_pixels(asked: Asked, model: PixPNet) -> UInt8[np.ndarray, "height width 3"]:
    """The image as the network sees it, before anybody asked why."""
    return to_uint8(asked.sample.image.as_subclass(Tensor), model.preprocessing)


def training_picture(model: PixPNet, prototype: int) -> Encoded:
    """The training image that a prototype is from, in the network's pixels; grey where there is no picture of it.

    Raises:
        LookupError: if there is no such prototype.
    """
    crop, picture = picture_files(model, prototype)
    origin = None if model.origins is None else model.origins[prototype]
    side = model.preprocessing.size
    if picture is not None:
        return Encoded(picture.read_bytes(), "image/jpeg")
    return png(training_pixels(origin, crop, None, (side, side)))


def picture_files(model: PixPNet, prototype: int) -> tuple[Path | None, Path | None]:
    """The files that show a prototype: what its cell saw, and the training image around it.

    Raises:
        LookupError: if there is no such prototype.
    """
    if not 0 <= prototype < model.num_prototypes:
        raise LookupError(f"there is no prototype {prototype}: they are numbered 0 to {model.num_prototypes - 1}")
    if model.pictures is None:
        return None, None
    stem = picture_name(prototype, model.num_prototypes)
    crop, picture = model.pictures / f"{stem}.png", model.pictures / f"{stem}.jpg"
    return crop if crop.is_file() else None, picture if picture.is_file() else None


def heat_overlay(heat: Float[Tensor, "height width"]) -> Encoded:
    """A heat map to lay over the image: the warmer, the less can be seen through it."""
    values = heat.float().cpu().numpy()
    low, high = float(values.min()), float(values.max())
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    red, green, blue = (int(VERMILION[start : start + 2], 16) for start in (1, 3, 5))
    layer = np.empty((*values.shape, 4), np.uint8)
    layer[..., :3] = red, green, blue
    layer[..., 3] = np.round(200 * share**2)
    return png(layer)


def upsampled(model: PixPNet, asked: Asked, prototype: int) -> Heatmaps:
    """What the upsampling of its similarity map would claim for a prototype."""
    return heatmaps(model, asked.sample.image.as_subclass(Tensor).to(model.device), [prototype], "upsampling")


class Shelf:
    """Small pictures that were made once and may be asked for again, within a budget of bytes."""

    def __init__(self, budget: int = _REMEMBERED_BYTES) -> None:
        self._pictures: OrderedDict[str, Encoded] = OrderedDict()
        self._budget, self._bytes = budget, 0
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Encoded]) -> Encoded:
        """A picture, made where it is not on the shelf."""
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
                return self._pictures[key]
        picture = make()
        with self._lock:
            if key not in self._pictures:
                self._pictures[key] = picture
                self._bytes += len(picture.data)
                while self._bytes > self._budget and len(self._pictures) > 1:
                    self._bytes -= len(self._pictures.popitem(last=False)[1].data)
        return picture

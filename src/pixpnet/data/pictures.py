"""Pictures from wherever a person has them: files, bytes, PIL images, arrays and tensors become samples."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Shaped
from PIL import Image, ImageOps
from torch import Tensor

from pixpnet.data.decode import decode
from pixpnet.data.errors import ImageError
from pixpnet.data.reader import UNKNOWN, read_sample
from pixpnet.data.sample import NO_ANNOTATION, Sample, source_sample

Picture = str | Path | bytes | Image.Image | Shaped[np.ndarray, "..."] | Shaped[Tensor, "..."] | Sample
"""What can be looked at: a file, the bytes of one, a PIL image, an array (rows, columns, RGB) or tensor (RGB, rows,
columns) of whole numbers from 0 to 255, or a sample."""


def as_sample(picture: Picture, name: str = "picture") -> Sample:
    """A picture as a sample that is not preprocessed yet (a sample is given back as it is).

    Args:
        picture: wherever it is.
        name: what to call it, where it is no file.

    Raises:
        ImageError: if it cannot be read.
        TypeError: if it is no picture; the message says what was expected.

    >>> as_sample(np.zeros((4, 6, 3), np.uint8)).size
    (4, 6)
    """
    if isinstance(picture, Sample):
        return picture
    if isinstance(picture, (str, Path)):
        return read_sample(picture)
    return source_sample(_pixels(picture, name), UNKNOWN, name, NO_ANNOTATION, masks=None)


def _pixels(picture: object, name: str) -> Shaped[np.ndarray, "height width 3"]:
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return decode(bytes(picture), upright=True)
    if isinstance(picture, Image.Image):
        try:
            return np.array(ImageOps.exif_transpose(picture).convert("RGB"))
        except (OSError, ValueError, SyntaxError) as error:
            raise ImageError(f"{name} cannot be read: {error}") from error
    if isinstance(picture, Tensor):
        if picture.ndim == 3 and picture.shape[0] in (1, 3) and picture.dtype == torch.uint8:
            return _rgb(picture.detach().cpu().permute(1, 2, 0).numpy())
        raise TypeError(
            f"{name}: a tensor is a picture as uint8 of shape (3, height, width), got {picture.dtype} of "
            f"{tuple(picture.shape)}: "
            + (
                "give a batch as a list, list(x)"
                if picture.ndim == 4
                else "for 0 to 1 (x * 255).round().to(torch.uint8)"
            )
        )
    if isinstance(picture, np.ndarray):
        if picture.dtype == np.uint8 and (picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] in (1, 3))):
            return _rgb(picture if picture.ndim == 3 else picture[:, :, None])
        raise TypeError(
            f"{name}: an array is a picture as uint8 of shape (height, width, 3), got {picture.dtype} of "
            f"{picture.shape}: "
            + (
                "give a batch as a list, list(x)"
                if picture.ndim == 4
                else "for 0 to 1 (x * 255).round().astype(np.uint8)"
            )
        )
    raise TypeError(
        f"{name}: a picture is a path, bytes, a PIL image, a uint8 array or tensor, or a sample, got "
        f"{type(picture).__name__}"
    )


def _rgb(pixels: Shaped[np.ndarray, "height width channels"]) -> Shaped[np.ndarray, "height width 3"]:
    if not pixels.size:
        raise ImageError(f"a picture of {pixels.shape[0]} x {pixels.shape[1]} pixels shows nothing")
    return np.array(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))

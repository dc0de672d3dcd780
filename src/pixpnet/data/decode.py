"""Image files to RGB pixels: ordinary JPEGs by OpenCV (the fast way), everything else by Pillow.

Every image comes out as height x width x 3 uint8 or not at all: greyscale, palette, CMYK and 16-bit files are
converted, transparency is laid on white, and truncated, animated, oversized or foreign files raise
`ImageError` with the reason.
"""

import io
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from pixpnet.data.errors import ImageError
from pixpnet.data.intact import refuse_damaged
from pixpnet.data.resample import Pixels

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm"})
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "PPM")
# Pillow's own limit for decompression bombs: a quarter of a gigabyte once decoded.
MAX_PIXELS = 89_478_485

_WHAT_PILLOW_RAISES = (
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, LookupError, OverflowError, AttributeError),
    *(struct.error, zlib.error),
)


def read_image(path: Path, upright: bool, strict: bool = False) -> Pixels:
    """Decodes a file.

    Args:
        path: the file.
        upright: turn the image as its EXIF orientation asks. Data sets whose annotations were made on the
            stored pixels (CUB-200-2011, Stanford Cars) need False.
        strict: look first whether a JPEG is whole (`pixpnet.data.intact`), which decoders do not say. It takes about
            half of the time again, and files of a data set are looked at once, when it is opened.

    Raises:
        ImageError: with the reason, if the file cannot be read or is not one ordinary picture.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImageError(f"cannot be read: {error.strerror}") from error
    if strict:
        refuse_damaged(data)
    return decode(data, upright)


def decode(data: bytes, upright: bool, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Decodes the content of a file; see `read_image`.

    Args:
        data: of the file.
        upright: see `read_image`.
        max_pixels: a picture with more is refused before it is decoded.
    """
    if not data:
        raise ImageError("empty file (0 bytes)")
    frame = _jpeg_frame(data)
    if frame is not None:
        _refuse_bomb(frame.width, frame.height, max_pixels)
        # Without its end marker a file is cut short, which OpenCV before version 5 fills up with grey.
        if frame.plain and data[-64:].rstrip(b"\0").endswith(b"\xff\xd9"):
            flags = cv2.IMREAD_COLOR_RGB | (0 if upright else cv2.IMREAD_IGNORE_ORIENTATION)
            pixels = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), flags)
            if pixels is not None:
                return np.asarray(pixels)
    return _decode_with_pillow(data, upright, max_pixels)


class _JpegFrame(NamedTuple):
    height: int
    width: int
    plain: bool  # 8 bits, greyscale or three channels: what OpenCV and Pillow decode alike


def _jpeg_frame(data: bytes) -> _JpegFrame | None:
    """The start-of-frame header of a JPEG file, or None if there is none."""
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            bits, height, width, channels = struct.unpack_from(">BHHB", data, at + 4)
            return _JpegFrame(height, width, plain=bits == 8 and channels in (1, 3))
        at += 1 if marker == 0xFF else 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _decode_with_pillow(data: bytes, upright: bool, max_pixels: int) -> Pixels:
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _refuse_bomb(*image.size, max_pixels)
            frames = getattr(image, "n_frames", 1)  # only the formats that can be animated have it
            if frames > 1 and image.format != "MPO":  # cameras put previews beside the JPEG
                raise ImageError(f"animated or with several pages ({frames} frames): save one as a picture")
            image.load()
            return _to_rgb(ImageOps.exif_transpose(image) if upright else image)
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError(f"decompression bomb: {error}") from error
    except UnidentifiedImageError as error:
        raise ImageError(f"not an image of a known kind ({', '.join(FORMATS)})") from error
    except _WHAT_PILLOW_RAISES as error:
        raise ImageError(f"damaged or truncated: {error}") from error


def _to_rgb(image: Image.Image) -> Pixels:
    if image.mode.startswith("I;16"):
        values = np.asarray(image)
        return np.repeat((values >> 8).astype(np.uint8)[..., None], 3, axis=2)
    if image.mode in ("I", "F"):
        raise ImageError(f"32-bit pixels (mode {image.mode}) have no agreed range: save it with 8 or 16 bits")
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque)
    return np.array(image.convert("RGB"))


def _refuse_bomb(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise ImageError(f"decompression bomb: {width} x {height} pixels, at most {max_pixels} are read")

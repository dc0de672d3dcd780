"""Every kind of file that a folder of images holds in practice, made on the spot."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pixpnet.data import ImageError
from pixpnet.data.decode import MAX_PIXELS, decode, read_image

PLANES = np.broadcast_arrays(np.arange(64)[:, None] * 4, np.arange(48) * 5, 77)
GRADIENT = np.stack(PLANES, axis=2).astype(np.uint8)


def saved(image: Image.Image, kind: str, **settings: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def picture(mode: str = "RGB") -> Image.Image:
    return Image.fromarray(GRADIENT).convert(mode)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "TIFF", "GIF", "WEBP", "PPM"])
def test_ordinary_files_decode_as_pillow_does(kind: str) -> None:
    data = saved(picture(), kind)
    np.testing.assert_array_equal(decode(data, upright=True), np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


def test_real_jpegs_decode_as_pillow_does(cub12: Path) -> None:
    for path in sorted(cub12.glob("images/*/*.jpg"))[::70]:
        with Image.open(path) as image:
            np.testing.assert_array_equal(read_image(path, upright=False), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_grayscale_gets_three_equal_channels(kind: str) -> None:
    pixels = decode(saved(picture("L"), kind), upright=True)
    assert pixels.shape == (64, 48, 3)
    assert (pixels == pixels[..., :1]).all()


def test_palette_colors_are_looked_up() -> None:
    image = Image.new("P", (4, 3), 1)
    image.putpalette([0, 0, 0, 10, 200, 30])
    assert (decode(saved(image, "PNG"), upright=True) == [10, 200, 30]).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_laid_on_white(mode: str) -> None:
    image = Image.new("RGBA", (6, 5), (200, 0, 0, 0)).convert(mode)
    if mode == "P":
        image = Image.new("P", (6, 5), 0)
        image.putpalette([200, 0, 0])
    data = saved(image, "PNG", **({"transparency": 0} if mode == "P" else {}))
    assert (decode(data, upright=True) == 255).all()


def test_cmyk_keeps_its_colors() -> None:
    data = saved(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95)
    red, green, blue = decode(data, upright=True)[8, 8]
    assert red > 200 and green < 60 and blue < 60


def test_sixteen_bits_become_the_upper_eight() -> None:
    values = np.array([[0, 255, 256], [0x8000, 0xFEFF, 0xFFFF]], dtype=np.uint16)
    pixels = decode(saved(Image.fromarray(values), "PNG"), upright=True)
    assert pixels[..., 0].tolist() == [[0, 0, 1], [128, 254, 255]]
    assert (pixels == pixels[..., :1]).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_exif_orientation_is_followed_or_left_alone_as_asked(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(picture(), kind, exif=exif)
    stored = decode(data, upright=False)
    assert stored.shape == (64, 48, 3)
    turns = [lambda a: a, np.fliplr, lambda a: np.rot90(a, 2), np.flipud, lambda a: a.transpose(1, 0, 2)]
    turns += [lambda a: np.rot90(a, 3), lambda a: np.rot90(a, 2).transpose(1, 0, 2), np.rot90]
    np.testing.assert_array_equal(decode(data, upright=True), turns[orientation - 1](stored))


def bomb() -> bytes:
    """A PNG that claims to be enormous."""
    header = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    data = zlib.compress(b"\0" * 1000)
    body = b"IDAT" + data
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        + struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    )  # fmt: skip


def jpeg_bomb() -> bytes:
    """A JPEG that claims to be enormous."""
    data = bytearray(saved(picture(), "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 60_000, 60_000)
    return bytes(data)


def animation(kind: str) -> bytes:
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "green", "blue")]
    return saved(frames[0], kind, save_all=True, append_images=frames[1:])


BAD = {
    "truncated jpeg": (saved(picture(), "JPEG")[:-200], "truncated"),
    "truncated png": (saved(picture(), "PNG")[:-60], "truncated"),
    "cut in the header": (saved(picture(), "JPEG")[:30], "truncated|not an image"),
    "zero bytes": (b"", "empty file"),
    "text": (b"this is not a picture", "not an image"),
    "html error page": (b"<html>404 not found</html>", "not an image"),
    "animated gif": (animation("GIF"), "animated.*3 frames"),
    "animated webp": (animation("WEBP"), "animated.*3 frames"),
    "animated png": (animation("PNG"), "animated.*3 frames"),
    "pages of a tiff": (animation("TIFF"), "several pages"),
    "png bomb": (bomb(), "bomb"),
    "jpeg bomb": (jpeg_bomb(), "bomb"),
    "32 bits": (saved(Image.fromarray(np.ones((4, 4), dtype=np.float32)), "TIFF"), "32-bit"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused_with_its_reason(kind: str, tmp_path: Path) -> None:
    data, reason = BAD[kind]
    path = tmp_path / "bad.jpg"
    path.write_bytes(data)
    with pytest.raises(ImageError, match=reason):
        read_image(path, upright=True)


def test_a_missing_file_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot be read: No such file"):
        read_image(tmp_path / "none.jpg", upright=True)


def test_a_jpeg_with_rubbish_behind_it_is_still_read() -> None:
    data = saved(picture(), "JPEG")
    np.testing.assert_array_equal(decode(data + b"\0" * 40, True), decode(data, True))
    np.testing.assert_array_equal(decode(data + b"trailing text" * 9, True), decode(data, True))


def test_the_limit_is_pillows() -> None:
    assert MAX_PIXELS == Image.MAX_IMAGE_PIXELS

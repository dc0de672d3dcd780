"""Damaged pictures are refused by name, and no good one is."""

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pixpnet.data import BadFilesError, DataOptions, DataWarning, ImageError, check, guess_spec, open_data, read_sample
from pixpnet.data.decode import read_image


def photograph(size: tuple[int, int] = (301, 203), seed: int = 0) -> Image.Image:
    """Smooth shapes with some noise, as cameras make them."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
    noisy = np.asarray(coarse).astype(int) + rng.integers(-12, 13, (size[1], size[0], 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def saved(image: Image.Image, kind: str = "JPEG", **settings: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def first_data(jpeg: bytes) -> int:
    """Where the entropy-coded data of the first scan begin."""
    at = 2
    while jpeg[at + 1] != 0xDA:
        at += 2 + struct.unpack_from(">H", jpeg, at + 2)[0]
    return at + 2 + struct.unpack_from(">H", jpeg, at + 2)[0]


def cut_and_closed(jpeg: bytes, share: float = 0.6) -> bytes:
    start = first_data(jpeg)
    return jpeg[: start + int((len(jpeg) - start) * share)].rstrip(b"\xff") + b"\xff\xd9"


def with_garbage(jpeg: bytes, seed: int, length: int = 400) -> bytes:
    """Other bytes in the middle of the data, none of them a marker."""
    middle = (first_data(jpeg) + len(jpeg)) // 2
    garbage = np.random.default_rng(seed).integers(0, 255, length, dtype=np.uint8).tobytes()
    return jpeg[:middle] + garbage + jpeg[middle + length :]


def lying(jpeg: bytes, height: int, width: int) -> bytes:
    data = bytearray(jpeg)
    frame = next(jpeg.index(marker) for marker in (b"\xff\xc0", b"\xff\xc2") if marker in jpeg)
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def reason(data: bytes, folder: Path) -> str | None:
    """Why a file is refused; None if it is not."""
    path = folder / "picture.jpg"
    path.write_bytes(data)
    try:
        read_image(path, upright=True, strict=True)
    except ImageError as error:
        return str(error)
    return None


EXIF = Image.Exif()
EXIF[0x0112] = 6
ICON = Image.new("RGB", (64, 48), (255, 128, 0))
GOOD: dict[str, bytes] = {
    "ordinary": saved(photograph()),
    "finest": saved(photograph(), quality=100, subsampling=0),
    "coarsest": saved(photograph(), quality=1),
    "half the colour": saved(photograph(), subsampling=1),
    "optimised": saved(photograph(), optimize=True),
    "progressive": saved(photograph(), progressive=True),
    "progressive grey": saved(photograph().convert("L"), progressive=True),
    "grey": saved(photograph().convert("L")),
    "CMYK": saved(photograph().convert("CMYK")),
    "turned": saved(photograph(), exif=EXIF),
    "with restarts": saved(photograph(), restart_marker_rows=1),
    "with restarts in rows": saved(photograph(), restart_marker_blocks=4),
    "grey with restarts": saved(photograph().convert("L"), restart_marker_blocks=4),
    "progressive with restarts": saved(photograph(), progressive=True, restart_marker_rows=1),
    "with a preview": saved(photograph(), exif=b"Exif\0\0" + saved(ICON)),
    "with zeros behind": saved(photograph()) + b"\0" * 30,
    "with text behind": saved(photograph()) + b"text" * 30,
    "filled up with zeros": saved(photograph())[:-2] + b"\0" * 6 + b"\xff\xd9",
    "filled up with ones": saved(photograph())[:-2] + b"\xff" * 6 + b"\xff\xd9",
    **{
        f"plain {value} {settings} {size}": saved(
            Image.new(mode, size, value if mode == "L" else (value,) * 3), **settings
        )
        for value in (0, 128, 255)
        for mode in ("L", "RGB")
        for settings in ({}, {"optimize": True}, {"progressive": True})
        for size in ((1, 1), (5, 300), (640, 480))
    },
}
DAMAGED: dict[str, bytes] = {
    **{
        f"{name}, cut and closed": cut_and_closed(GOOD[name])
        for name in (
            "ordinary",
            "finest",
            "half the colour",
            "optimised",
            "progressive",
            "grey",
            "CMYK",
            "with restarts",
        )
    },
    "progressive, only its first scans": cut_and_closed(GOOD["progressive"], 0.1),
    "nearly whole": cut_and_closed(GOOD["ordinary"], 0.97),
    "plain, cut and closed": cut_and_closed(saved(Image.new("RGB", (640, 480), (128, 128, 128)))),
    **{f"garbage {seed}": with_garbage(GOOD["ordinary"], seed) for seed in range(5)},
    **{f"garbage between restarts {seed}": with_garbage(GOOD["with restarts in rows"], seed) for seed in range(5)},
    "restarts, the rest is garbage": with_garbage(GOOD["with restarts"], 0, len(GOOD["with restarts"]) // 2 - 400),
    "restarts in another order": GOOD["with restarts"].replace(b"\xff\xd2", b"\xff\xd5"),
    "restarts for fewer rows": lying(GOOD["with restarts"], 240, 301),
    "garbage in grey": with_garbage(GOOD["grey"], 0),
    "a lying header": lying(saved(ICON), 9000, 9900),
    "a progressive lying header": lying(saved(ICON, progressive=True), 9000, 9900),
    "a slightly lying header": lying(GOOD["ordinary"], 240, 301),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_whole_picture_is_read(name: str, tmp_path: Path) -> None:
    assert reason(GOOD[name], tmp_path) is None


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_picture_is_refused(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert (reason(DAMAGED[name], tmp_path) or "").startswith("damaged")
    assert "Corrupt JPEG" not in capfd.readouterr().err  # decoders do not babble before it is refused


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_pictures_of_other_kinds_that_are_cut_short_are_refused(kind: str, tmp_path: Path) -> None:
    data = saved(photograph(), kind)
    assert reason(data, tmp_path) is None
    assert reason(data[: len(data) // 2], tmp_path) is not None


def test_no_photograph_of_cub_is_refused(cub12: Path) -> None:
    for path in sorted(cub12.glob("images/*/*.jpg"))[::5]:
        read_image(path, upright=False, strict=True)


@pytest.fixture
def folder(tmp_path: Path, save_noise: Callable[..., Path]) -> Path:
    """Ten good pictures of each of two classes, and a damaged one."""
    for number in range(20):
        save_noise(tmp_path / "pool" / ("jay", "wren")[number % 2] / f"{number}.png", number)
    (tmp_path / "pool" / "jay" / "bad.jpg").write_bytes(DAMAGED["ordinary, cut and closed"])
    return tmp_path / "pool"


def test_a_damaged_picture_stops_or_is_left_out_of_a_data_set_and_is_named(folder: Path) -> None:
    with pytest.raises(BadFilesError, match=r"jay/bad.jpg: damaged"):
        open_data(f"folder:{folder}")
    with pytest.warns(DataWarning, match=r"jay/bad.jpg: damaged"):
        data = open_data(f"folder:{folder}", DataOptions(on_bad="skip"))
    assert len(data.train) + len(data.val) + len(data.test) == 20
    assert [problem.where for problem in check(guess_spec(str(folder))).problems] == ["jay/bad.jpg"]


def test_a_damaged_picture_is_not_answered(folder: Path) -> None:
    with pytest.raises(ImageError, match="damaged"):
        read_sample(folder / "jay" / "bad.jpg")

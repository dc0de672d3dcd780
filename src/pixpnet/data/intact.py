"""Whether a JPEG file holds the whole picture that its header promises.

Decoders fill up what is missing with middle grey and go on: what libjpeg has to say about corrupt data goes to nobody.
So the file is asked in another way, by decoding it once more with more rows than it has and without its last few bytes,
each block of 8 x 8 to one pixel, which costs little. The filling must then begin in the last unit of the picture (a
unit, or MCU, is the smallest piece that is coded). Where it begins behind it, the decoder lost its way.

Where it begins before it, data may be missing, or the last units are so plain that they take no more than those bytes.
That is told apart by writing other bits behind all of the data: they change the decoded picture exactly if the decoder
had to go on reading there.

Progressive files are checked in that second way, scan by scan; and whether all of their coefficients have been sent.
Files with restart markers, at which decoders find their way again, are checked in that way from marker to marker; and
whether all of the markers are there, in their order.
Garbage that happens to be a valid picture of the right length cannot be found by anyone.
"""

import io
import struct
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image

from pixpnet.data.errors import ImageError

_SEQUENTIAL, _PROGRESSIVE = (0xC0, 0xC1), (0xC2,)
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_START_OF_SCAN, _END_OF_IMAGE, _RESTART_INTERVAL = 0xDA, 0xD9, 0xDD
_FIRST_RESTART, _RESTARTS = 0xD0, 8
# What may follow 0xFF within entropy-coded data: a stuffed zero, a fill byte, a restart. Anything else ends them.
_GOES_ON = np.isin(np.arange(256), [0x00, 0xFF, *range(0xD0, 0xD8)])
_STANDING_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_MORE_ROWS = 1
# Bytes at the end that the check goes without. Fewer than these are let pass: some encoders leave a few behind.
_HELD_BACK = 3
_MOST_LINES = 65500
_GRAY = 128
_OTHER_BITS = bytes(range(0x35, 0xD5, 7)) * 4
# A symbol is one bit at least; a block has two of them, and in the first scan of a progressive file one.
_LEAST_BITS = {"sequential": 2, "progressive": 1}


class _Scan(NamedTuple):
    """One scan: where its data lie, and which coefficients of which components it brings."""

    start: int
    end: int
    components: tuple[int, ...]
    first: int
    last: int
    low_bit: int


class _Jpeg(NamedTuple):
    """What the headers of a file say."""

    kind: int
    frame: int
    height: int
    width: int
    sampling: dict[int, tuple[int, int]]
    scans: tuple[_Scan, ...]
    end: int
    interval: int  # units between restart markers; 0 without these

    @property
    def tallest(self) -> int:
        """Blocks in a column of the tallest component's part of a unit (MCU)."""
        return max(rows for _, rows in self.sampling.values())

    @property
    def widest(self) -> int:
        """Blocks in a row of the widest component's part of a unit (MCU)."""
        return max(cols for cols, _ in self.sampling.values())

    @property
    def unit_rows(self) -> int:
        """Rows of units."""
        return -(-self.height // (8 * self.tallest))

    @property
    def unit_cols(self) -> int:
        """Columns of units."""
        return -(-self.width // (8 * self.widest))


def refuse_damaged(data: bytes) -> None:
    """Looks whether the content of a file is a JPEG that lacks data or has too much of it.

    Files of other kinds pass: their decoders say themselves what is wrong. So do files that are cut off before their
    end marker.

    Raises:
        ImageError: if the picture is not whole.
    """
    jpeg = _headers(data)
    if jpeg is None or jpeg.kind not in (*_SEQUENTIAL, *_PROGRESSIVE):
        return
    _refuse_more_pixels_than_data(jpeg)
    if jpeg.interval and jpeg.kind in _SEQUENTIAL and len(jpeg.scans) == 1:
        _refuse_wrong_restarts(data, jpeg)
    elif jpeg.kind in _SEQUENTIAL and len(jpeg.scans) == 1 and len(jpeg.sampling) in (1, 3):
        filled = _filling(data, jpeg)
        if filled is not None:
            if _goes_on(filled, jpeg):
                raise ImageError("damaged: its image data go on behind the end of the picture")
            if not _ends_early(filled, jpeg):
                return
    elif jpeg.kind in _PROGRESSIVE:
        _refuse_missing_scans(jpeg)
    if _reads_behind_the_data(data, jpeg):
        raise ImageError("damaged or truncated: its image data end before the picture does")


def _headers(data: bytes) -> _Jpeg | None:
    """Reads all markers up to the end of the image; None if it is no JPEG, or cut off or damaged between markers."""
    if data[:2] != b"\xff\xd8":
        return None
    kind = frame = height = width = interval = 0
    sampling: dict[int, tuple[int, int]] = {}
    scans: list[_Scan] = []
    at = 2
    try:
        while True:
            if data[at] != 0xFF:
                return None
            marker = data[at + 1]
            if marker == 0xFF:
                at += 1
                continue
            if marker == _END_OF_IMAGE:
                if not (sampling and scans):
                    return None
                return _Jpeg(kind, frame, height, width, sampling, tuple(scans), at, interval)
            if marker in _STANDING_ALONE:
                at += 2
                continue
            (length,) = struct.unpack_from(">H", data, at + 2)
            if marker in _FRAMES:
                kind, frame = marker, at
                _, height, width, count = struct.unpack_from(">BHHB", data, at + 4)
                places = range(at + 10, at + 10 + 3 * count, 3)
                sampling = {data[k]: (data[k + 1] >> 4, data[k + 1] & 15) for k in places}
            elif marker == _RESTART_INTERVAL:
                (interval,) = struct.unpack_from(">H", data, at + 4)
            at += 2 + length
            if marker == _START_OF_SCAN:
                end = _end_of_data(data, at)
                if end is None:
                    return None
                count = data[at - length + 2]
                components = tuple(data[at - length + 3 + 2 * k] for k in range(count))
                first, last, bits = data[at - 3], data[at - 2], data[at - 1]
                scans.append(_Scan(at, end, components, first, last, bits & 15))
                at = end
    except (IndexError, struct.error):
        return None


def _end_of_data(data: bytes, start: int) -> int | None:
    """Where the entropy-coded data that begin here end: at a marker; None if there is none."""
    values = np.frombuffer(data, dtype=np.uint8, offset=start)
    candidates = np.flatnonzero(values[:-1] == 0xFF)
    markers = candidates[~_GOES_ON[values[candidates + 1]]]
    return start + int(markers[0]) if markers.size else None


def _refuse_more_pixels_than_data(jpeg: _Jpeg) -> None:
    blocks = jpeg.unit_rows * jpeg.unit_cols * sum(cols * rows for cols, rows in jpeg.sampling.values())
    held = sum(scan.end - scan.start for scan in jpeg.scans)
    if blocks * _LEAST_BITS["sequential" if jpeg.kind in _SEQUENTIAL else "progressive"] > 8 * held:
        raise ImageError(
            f"damaged: its header promises {jpeg.width} x {jpeg.height} pixels, which its {held} bytes of image data "
            "cannot hold"
        )


def _restarts(data: bytes, scan: _Scan) -> list[int]:
    """Where the restart markers of a scan are."""
    values = np.frombuffer(data, dtype=np.uint8)[scan.start : scan.end]
    pairs = (values[:-1] == 0xFF) & (values[1:] >= _FIRST_RESTART) & (values[1:] < _FIRST_RESTART + _RESTARTS)
    return [scan.start + int(offset) for offset in np.flatnonzero(pairs)]


def _refuse_wrong_restarts(data: bytes, jpeg: _Jpeg) -> None:
    (scan,) = jpeg.scans
    places = _restarts(data, scan)
    units = jpeg.unit_rows * jpeg.unit_cols
    if len(jpeg.sampling) == 1:  # a unit is a block then, whatever the header says of its sampling
        units = -(-jpeg.height // 8) * -(-jpeg.width // 8)
    expected = -(-units // jpeg.interval) - 1
    # Some encoders write one more behind the last unit.
    in_order = all(data[offset + 1] == _FIRST_RESTART + n % _RESTARTS for n, offset in enumerate(places))
    if not in_order or len(places) not in (expected, expected + 1):
        raise ImageError(
            f"damaged: it has {len(places)} restart markers{'' if in_order else ' out of order'}, and a picture of its "
            f"size {expected}"
        )


def _refuse_missing_scans(jpeg: _Jpeg) -> None:
    complete = {
        (component, coefficient)
        for scan in jpeg.scans
        for component in scan.components
        for coefficient in range(scan.first, scan.last + 1)
        if scan.low_bit == 0
    }
    # Few encoders leave out what is zero in the whole picture, but the means of blocks are always there.
    missing = [component for component in jpeg.sampling if (component, 0) not in complete]
    if missing or not any(coefficient for _, coefficient in complete):
        raise ImageError("damaged or truncated: scans of this progressive file are missing")


def _filling(data: bytes, jpeg: _Jpeg) -> Bool[np.ndarray, "rows cols"] | None:
    """Which units are nothing but the decoder's filling, with more rows than the picture has."""
    lines = (jpeg.unit_rows + _MORE_ROWS) * jpeg.tallest * 8
    if lines > _MOST_LINES:
        return None
    (scan,) = jpeg.scans
    content = data[scan.start : scan.end].rstrip(b"\0\xff")  # some encoders fill up with zeros or ones
    content = content[:-_HELD_BACK].rstrip(b"\xff")  # no half of a stuffed byte
    taller = bytearray(data[: scan.start] + content + b"\xff\xd9")
    struct.pack_into(">H", taller, jpeg.frame + 5, lines)
    try:
        with Image.open(io.BytesIO(taller), formats=("JPEG",)) as image:
            image.draft("L", (1, 1))  # as small as can be: each block becomes its mean
            image.load()
            means = np.asarray(image)
    except (OSError, SyntaxError, ValueError):
        return None
    rows, cols = lines // 8, -(-jpeg.width // 8)
    if means.shape != (rows, cols):
        return None
    wide = np.full((rows, jpeg.unit_cols * jpeg.widest), _GRAY, dtype=np.uint8)
    wide[:, :cols] = means
    units: UInt8[np.ndarray, "rows tall cols wide"] = wide.reshape(
        rows // jpeg.tallest, jpeg.tallest, jpeg.unit_cols, jpeg.widest
    )
    return np.asarray((units == _GRAY).all(axis=(1, 3)))


def _goes_on(filled: Bool[np.ndarray, "rows cols"], jpeg: _Jpeg) -> bool:
    """Whether there are data left behind the last unit, although some bytes were held back."""
    return not bool(filled[jpeg.unit_rows, 0])


def _ends_early(filled: Bool[np.ndarray, "rows cols"], jpeg: _Jpeg) -> bool:
    """Whether data may be missing: the last unit has none, or so few that all of them were held back."""
    return bool(filled[jpeg.unit_rows - 1, -1])


def _reads_behind_the_data(data: bytes, jpeg: _Jpeg) -> bool:
    pieces, at = [], 0
    for scan in jpeg.scans:
        for end in (*(_restarts(data, scan) if jpeg.interval else ()), scan.end):
            pieces += [data[at:end], _OTHER_BITS]
            at = end
    longer = b"".join([*pieces, data[at : jpeg.end + 2]])
    return not np.array_equal(_decoded(data[: jpeg.end + 2]), _decoded(longer))


def _decoded(data: bytes) -> UInt8[np.ndarray, "..."]:
    """Silently, which OpenCV does not."""
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
            image.load()
            return np.asarray(image)
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageError(f"damaged or truncated: {error}") from error

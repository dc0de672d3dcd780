"""One pass over all files: which can be read, their size, a hash of their pixels and their channel sums.

The bad files, the leaks and the normalisation statistics of a data set all follow from it. Its results are
kept in a cache folder and belong to a file as long as its size and time of change stay, so the second opening
of a data set costs one `stat` per file.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from jaxtyping import Int64, UInt8

from pixpnet.data.catalog import Catalog, Entry, Reader
from pixpnet.data.errors import DataWarning, ImageError
from pixpnet.data.reader import FileReader
from pixpnet.data.resample import pixels_of
from pixpnet.data.sample import Sample
from pixpnet.whole_file import written_whole

Progress = Callable[[int, int], None]

_VERSION = 2
# Resized to the paper's 510 pixels, anything longer would fill the memory.
_LONGEST = 40
_EXACT_IN_FLOAT = 2**24  # OpenCV counts in float32


@dataclass(frozen=True)
class FileFacts:
    """What one pass learns about an image.

    Attributes:
        reason: why it cannot be used; None if it can.
        height: in pixels, 0 if it cannot be read.
        width: in pixels.
        digest: hash of size and pixels, so copies are found whatever their name or metadata.
        sums: of each channel's values, 0-255.
        squares: of each channel's squared values.
    """

    reason: str | None
    height: int = 0
    width: int = 0
    digest: str = ""
    sums: tuple[int, int, int] = (0, 0, 0)
    squares: tuple[int, int, int] = (0, 0, 0)


def scan(catalog: Catalog, progress: Progress | None = None) -> dict[str, FileFacts]:
    """Looks at every image of a data set once.

    Args:
        catalog: what to look at.
        progress: told how many of how many images are done, after each.

    Returns:
        facts by stable id.
    """
    cache = _cache_file(catalog)
    known = {} if cache is None else _load(cache)
    stamps = {entry.id: _stamp(entry) for entry in catalog.entries}
    facts: dict[str, FileFacts] = {}
    fresh: list[Entry] = []
    for entry in catalog.entries:
        stamp, remembered = stamps[entry.id], known.get(entry.id)
        if stamp is not None and remembered is not None and remembered[0] == stamp:
            facts[entry.id] = remembered[1]
        else:
            fresh.append(entry)
    done = len(facts)
    if progress is not None:
        progress(done, len(catalog.entries))
    # Decoding, hashing and counting all leave the interpreter lock, so threads are enough.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        looks = pool.map(lambda entry: _look(entry, _of_whole_files(catalog.reader)), fresh)
        for entry, result in zip(fresh, looks, strict=True):
            facts[entry.id] = result
            done += 1
            if progress is not None:
                progress(done, len(catalog.entries))
    if cache is not None and fresh:
        # What could not be read is tried again: a permission or a newer decoder changes no time stamp.
        _save(
            cache, {i: (stamps[i], fact) for i, fact in facts.items() if stamps[i] is not None and fact.reason is None}
        )
    return facts


def facts_of(sample: Sample) -> FileFacts:
    """What there is to know about a decoded image."""
    pixels = np.ascontiguousarray(pixels_of(sample))
    height, width = pixels.shape[:2]
    values = np.arange(256, dtype=np.int64)
    sums, squares = [], []
    for plane in cv2.split(pixels):
        counts = _histogram(plane)
        sums.append(int(counts @ values))
        squares.append(int(counts @ values**2))
    return FileFacts(None, height, width, _digest(pixels), _three(sums), _three(squares))


def pixels_digest(sample: Sample) -> str:
    """The hash by which copies of an image are found: of its size and its pixels."""
    return _digest(np.ascontiguousarray(pixels_of(sample)))


def _digest(pixels: UInt8[np.ndarray, "height width 3"]) -> str:
    height, width = pixels.shape[:2]
    digest = hashlib.sha256(f"{height}x{width}".encode())  # processors do that themselves
    digest.update(pixels.data)
    return digest.hexdigest()[:32]


def cache_folder() -> Path:
    """Where results are kept: `PIXPNET_CACHE`, or `pixpnet` in the user's cache folder."""
    chosen = os.environ.get("PIXPNET_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pixpnet"


def _histogram(plane: UInt8[np.ndarray, "height width"]) -> Int64[np.ndarray, "256"]:
    if plane.size > _EXACT_IN_FLOAT:
        return np.bincount(plane.ravel(), minlength=256)
    return np.asarray(cv2.calcHist([plane], [0], None, [256], [0, 256])).ravel().astype(np.int64)


def _look(entry: Entry, reader: Reader) -> FileFacts:
    try:
        return looked_at(reader(entry))
    except ImageError as error:
        return FileFacts(error.reason)


def looked_at(sample: Sample) -> FileFacts:
    """What there is to know about a decoded image, and why it cannot be used, if so."""
    facts = facts_of(sample)
    if max(facts.height, facts.width) > _LONGEST * min(facts.height, facts.width):
        return FileFacts(f"{facts.height} x {facts.width} pixels: a strip, not a picture; crop it")
    return facts


def _of_whole_files(reader: Reader) -> Reader:
    """A copy is a copy whatever box is drawn on it, so files are looked at whole; and closely, for once."""
    return replace(reader, crop_to_box=False, strict=True) if isinstance(reader, FileReader) else reader


def _stamp(entry: Entry) -> list[int] | None:
    if entry.path is None:
        return None
    try:
        status = entry.path.stat()
    except OSError:
        return None  # reading it will give the reason
    # With the time of the last change of its name or owner too: archives give all of their files one time, and pictures
    # without compression have one size, so that two of them could change places.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _cache_file(catalog: Catalog) -> Path | None:
    if catalog.root is None:
        return None
    key = f"{catalog.root.resolve()}\0{_of_whole_files(catalog.reader)!r}"
    return cache_folder() / f"scan-{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}.json"


def _load(cache: Path) -> dict[str, tuple[list[int], FileFacts]]:
    """What an earlier scan found; nothing if the file is missing, of another version or damaged."""
    try:
        content = json.loads(cache.read_text(encoding="utf-8"))
        if content["version"] != _VERSION:
            return {}
        return {id_: (stamp, _facts_from(values)) for id_, (stamp, values) in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _facts_from(values: dict[str, Any]) -> FileFacts:
    return FileFacts(**{**values, "sums": _three(values["sums"]), "squares": _three(values["squares"])})


def _save(cache: Path, files: dict[str, tuple[list[int] | None, FileFacts]]) -> None:
    """Writes the file whole or not at all."""
    content = {
        "version": _VERSION,
        "files": {id_: (stamp, asdict(facts)) for id_, (stamp, facts) in files.items()},
    }
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(cache) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        warnings.warn(
            f"the scan is not kept and will be repeated: {error}. Set PIXPNET_CACHE to a writable folder.",
            DataWarning,
            stacklevel=2,
        )


def _three(values: Sequence[int]) -> tuple[int, int, int]:
    first, second, third = values
    return int(first), int(second), int(third)

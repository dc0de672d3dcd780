"""One pass over all files: which can be read, their size, a hash of their pixels and their channel sums.

The bad files, the leaks and the normalisation statistics of a data set all follow from it. Its results are
kept in a cache folder and belong to a file as long as its size and time of change stay, so the second opening
of a data set costs one `stat` per file. `scan_store.py` keeps them, also those of a scan that was interrupted.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from jaxtyping import Int64, UInt8

from pixpnet.data.catalog import Catalog, Entry, Reader
from pixpnet.data.errors import ImageError
from pixpnet.data.reader import FileReader
from pixpnet.data.resample import pixels_of
from pixpnet.data.sample import Sample
from pixpnet.data.scan_store import FileFacts, ScanStore, Stamp, three
from pixpnet.progress import Progress

# Resized to the paper's 510 pixels, anything longer would fill the memory.
_LONGEST = 40
_TASK = "looking at the images"
_EXACT_IN_FLOAT = 2**24  # OpenCV counts in float32


def scan(catalog: Catalog, progress: Progress | None = None) -> dict[str, FileFacts]:
    """Looks at every image of a data set once.

    Args:
        catalog: what to look at.
        progress: told how many of how many images are done, after each.

    Returns:
        facts by stable id.
    """
    path = _cache_file(catalog)
    if path is None:
        return _looked_at(catalog, {}, {}, None, progress)
    store, total = ScanStore(path), len(catalog.entries)
    with store.exclusively(None if progress is None else lambda done: progress(_TASK, min(done, total), total)):
        known = store.load()
        stamps = {entry.id: _stamp(entry) for entry in catalog.entries}
        fresh = [entry for entry in catalog.entries if _known(entry, stamps, known) is None]
        if not fresh:
            return _looked_at(catalog, stamps, known, None, progress)
        with store.journal() as add:
            facts = _looked_at(catalog, stamps, known, add, progress)
        held = ((id_, stamps[id_], fact) for id_, fact in facts.items())
        # What could not be read is tried again: a permission or a newer decoder changes no time stamp.
        store.save({i: (stamp, fact) for i, stamp, fact in held if stamp is not None and fact.reason is None})
    return facts


def _known(
    entry: Entry, stamps: Mapping[str, Stamp | None], known: Mapping[str, tuple[Stamp, FileFacts]]
) -> FileFacts | None:
    """What an earlier scan found of an image, where its file is still the same."""
    stamp, remembered = stamps.get(entry.id), known.get(entry.id)
    return remembered[1] if stamp is not None and remembered is not None and remembered[0] == stamp else None


def _looked_at(
    catalog: Catalog,
    stamps: Mapping[str, Stamp | None],
    known: Mapping[str, tuple[Stamp, FileFacts]],
    add: Callable[[str, Stamp, FileFacts], None] | None,
    progress: Progress | None,
) -> dict[str, FileFacts]:
    """Facts of all images, of which those that are not known are looked at and noted one by one."""
    given = {entry.id: _known(entry, stamps, known) for entry in catalog.entries}
    facts = {id_: fact for id_, fact in given.items() if fact is not None}
    fresh = [entry for entry in catalog.entries if entry.id not in facts]
    done = len(facts)
    if progress is not None:
        progress(_TASK, done, len(catalog.entries))
    # Decoding, hashing and counting all leave the interpreter lock, so threads are enough.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        looks = pool.map(lambda entry: _look(entry, _of_whole_files(catalog.reader)), fresh)
        for entry, result in zip(fresh, looks, strict=True):
            facts[entry.id] = result
            stamp = stamps.get(entry.id)
            if add is not None and stamp is not None and result.reason is None:
                add(entry.id, stamp, result)
            done += 1
            if progress is not None:
                progress(_TASK, done, len(catalog.entries))
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
    return FileFacts(None, height, width, _digest(pixels), three(sums), three(squares))


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

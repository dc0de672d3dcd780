"""Memory that steps of learning use again, instead of giving it back to the system and asking for it anew.

On Linux the C library returns every large block to the system as soon as it is freed, and the next one comes as pages
that are filled with zeros one by one when they are first touched. A training step frees and allocates the same hundreds
of megabytes again and again: with a backbone that learns those pages were an eighth of its time, and with 50,000
prototypes half of it. The price is that the process keeps what it once had until learning is over (a seventh more at
the peak, because blocks do not fit as exactly).
"""

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

# Parameters of mallopt(3), with the values that the C library comes to by itself where blocks of all sizes are used.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_USUAL = {_TRIM_THRESHOLD: 2**26, _MMAP_THRESHOLD: 2**25}
# Nothing is given back, and only blocks of a gigabyte and more have pages of their own.
_REUSING = {_TRIM_THRESHOLD: -1, _MMAP_THRESHOLD: 2**30}
_LOCK = threading.Lock()
_inside = 0


@contextmanager
def reusing_memory() -> Iterator[None]:
    """While it lasts, freed memory is kept for what is allocated next; it changes no result.

    Any number of threads may be inside. Where the C library is not glibc nothing changes.
    """
    global _inside  # the C library has one setting for the whole process
    library = _c_library()
    if library is None:
        yield
        return
    with _LOCK:
        if not _inside:
            _set(library, _REUSING)
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside:
                _set(library, _USUAL)
                library.malloc_trim(0)


class _Allocator(NamedTuple):
    """What glibc has for its settings: mallopt(3) and malloc_trim(3)."""

    mallopt: Callable[[int, int], object]
    malloc_trim: Callable[[int], object]


def _c_library() -> _Allocator | None:
    """Of the C library, where it is glibc."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    try:
        return _Allocator(library.mallopt, library.malloc_trim)
    except AttributeError:
        return None


def _set(library: _Allocator, values: dict[int, int]) -> None:
    for parameter, value in values.items():
        library.mallopt(parameter, value)

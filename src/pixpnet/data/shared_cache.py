"""Decoded images that the processes of one loader share: in one file of a bounded size, each image once.

Worker processes have memories of their own, so a cache in memory holds every image once for each of them, and each
worker reads every image itself before it is of any use. A file is shared: what one worker decoded the others find, its
pages are in memory once, and the system may drop them when memory is needed for something else.

The file begins with a table of slots; a slot says where the content for one image lies, and which version of the
image's file it was made of. Content is written first and the slot marked as ready last, so a process that is killed in
between leaves a slot that nobody reads. All of it goes through reads and writes at positions, not through mapped
memory, where a full disk would kill a process instead of telling it.
"""

import hashlib
import os
import shutil
import struct
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pixpnet.file_lock import lock, try_lock, unlock

PREFIX = "pixpnet-images-"
_HEADER = struct.Struct("<q")  # where free space begins
_SLOT = struct.Struct("<q16s5q")  # state, key, where the content lies, its bytes, the image file's three numbers
_TABLE = 64  # where the table begins
_FREE, _WRITING, _READY = 0, 1, 2
_PROBES = 32  # slots that a key may be in
_LEAST_ROOM = 0.1  # of the disk, left to others

Stamp = tuple[int, int, int]
NO_STAMP: Stamp = (0, 0, 0)


class _Slot(NamedTuple):
    state: int
    key: bytes
    at: int
    size: int
    stamp: Stamp

    def packed(self) -> bytes:
        return _SLOT.pack(self.state, self.key, self.at, self.size, *self.stamp)


class SharedCache:
    """Contents by key, in a file that belongs to the process which made it and is removed with it.

    It can be handed to other processes, forked or spawned; they share the file.

    >>> cache = SharedCache(budget=1000)
    >>> cache.add("jay", (1, 1, 1), b"pixels")
    True
    >>> cache.find("jay", (1, 1, 1)), cache.find("jay", (1, 1, 2)), cache.find("wren", (1, 1, 1))
    (b'pixels', None, None)
    """

    def __init__(self, budget: int, capacity: int = 2**17, folder: Path | None = None) -> None:
        """Makes the file, and removes those of processes that were killed.

        Args:
            budget: bytes of content, at most; less where the disk has less room.
            capacity: how many contents may be held.
            folder: where temporary files go; the system's by default.
        """
        parent = Path(tempfile.gettempdir()) if folder is None else folder
        _sweep(parent)
        self.capacity = capacity
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._first = _TABLE + capacity * _SLOT.size
        disk = shutil.disk_usage(parent)
        self.budget = max(0, min(budget, disk.free - int(_LEAST_ROOM * disk.total) - self._first))
        self._descriptors: dict[int, int] = {}
        self._within = threading.Lock()
        file = self._file()
        os.truncate(file, self._first)
        os.pwrite(file, _HEADER.pack(self._first), 0)
        # Says that somebody is using it; the system frees it however that ends.
        self._alive = os.open(self._folder / "alive", os.O_CREAT | os.O_RDWR)
        lock(self._alive)
        self._end = weakref.finalize(self, _remove, self._folder, self._descriptors, self._alive, os.getpid())

    @property
    def used(self) -> int:
        """Bytes of content."""
        return int(_HEADER.unpack(os.pread(self._file(), _HEADER.size, 0))[0]) - self._first

    def close(self) -> None:
        """Removes the file, where this process made it."""
        if hasattr(self, "_end"):
            self._end()

    def find(self, key: str, stamp: Stamp) -> bytes | None:
        """The content that was made of this version of an image's file; None if there is none."""
        digest = _digest(key)
        for number in self._places(digest):
            slot = self._read(number)
            if slot.state == _FREE and slot.key == bytes(16):
                return None
            if slot.key == digest:
                if slot.state != _READY or slot.stamp != stamp:
                    return None
                content = os.pread(self._file(), slot.size, slot.at)
                return content if len(content) == slot.size else None
        return None

    def add(self, key: str, stamp: Stamp, content: bytes) -> bool:
        """Takes a content, unless it is there, is being written, or there is no room; says whether it did."""
        digest = _digest(key)
        with self._exclusively():
            taken = self._reserve(digest, stamp, len(content))
        if taken is None:
            return False
        number, slot = taken
        try:
            written = os.pwrite(self._file(), content, slot.at)
        except OSError:
            return False  # the disk is full: the slot stays one that nobody reads
        if written != len(content):
            return False
        with self._exclusively():
            self._write(number, slot._replace(state=_READY))
        return True

    def _reserve(self, digest: bytes, stamp: Stamp, size: int) -> tuple[int, _Slot] | None:
        at = int(_HEADER.unpack(os.pread(self._file(), _HEADER.size, 0))[0])
        if at + size - self._first > self.budget:
            return None
        for number in self._places(digest):
            slot = self._read(number)
            if slot.key not in (digest, bytes(16)):
                continue
            if slot.key == digest and slot.stamp == stamp:
                return None
            mine = _Slot(_WRITING, digest, at, size, stamp)
            os.pwrite(self._file(), struct.pack("<q", _WRITING), self._where(number))  # nobody reads it from here on
            self._write(number, mine)
            os.pwrite(self._file(), _HEADER.pack(at + size), 0)
            return number, mine
        return None

    def _places(self, digest: bytes) -> Iterator[int]:
        first = int.from_bytes(digest[:8], "little")
        return ((first + step) % self.capacity for step in range(min(_PROBES, self.capacity)))

    def _where(self, number: int) -> int:
        return _TABLE + number * _SLOT.size

    def _read(self, number: int) -> _Slot:
        state, key, at, size, *stamp = _SLOT.unpack(os.pread(self._file(), _SLOT.size, self._where(number)))
        return _Slot(state, key, at, size, (stamp[0], stamp[1], stamp[2]))

    def _write(self, number: int, slot: _Slot) -> None:
        os.pwrite(self._file(), slot.packed(), self._where(number))

    def _file(self) -> int:
        """Each process opens the file itself: one that was forked would share the lock of its parent."""
        process = os.getpid()
        if process not in self._descriptors:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            self._descriptors[process] = os.open(self._folder / "images", flags, 0o600)
        return self._descriptors[process]

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        with self._within:
            lock(self._file())
            try:
                yield
            finally:
                unlock(self._file())

    def __getstate__(self) -> dict[str, object]:
        """What another process needs to open the file."""
        return {"capacity": self.capacity, "budget": self.budget, "_folder": self._folder, "_first": self._first}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _descriptors={}, _within=threading.Lock())


def stamp_of(path: Path | None) -> Stamp | None:
    """Which version of a file this is, as its size and times say; None if there is no such file."""
    if path is None:
        return NO_STAMP
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _remove(folder: Path, descriptors: dict[int, int], alive: int, owner: int) -> None:
    if os.getpid() != owner:
        return  # a process that was forked off the owner
    for descriptor in (*descriptors.values(), alive):
        os.close(descriptor)
    descriptors.clear()
    shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Removes what killed processes left; whoever lives holds a lock."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            with (folder / "alive").open("r+") as file:
                if try_lock(file):
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, of another user, or just being made

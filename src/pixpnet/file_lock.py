"""Locks on open files, which the system frees however a process ends. There are such on Linux and macOS.

Windows locks ranges of bytes against reading too, and frees them at some later time; nobody has run what is here there,
so it is refused instead of guessed. Only what several processes may do at once takes a lock (training, searching,
measuring), so that fields, predictions and explanations do without; a scan of images goes on without one.
"""

from pathlib import Path
from typing import IO

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


class NoFileLocks(OSError):
    """A system without the locks that training, scanning, searching and measuring need."""


def lock(file: IO[str] | int) -> None:
    """Waits for the lock of an open file, and takes it; closing the file frees it.

    Raises:
        NoFileLocks: on Windows.
        OSError: on a file system without locks.
    """
    _flock(file, "LOCK_EX")


def try_lock(file: IO[str] | int) -> bool:
    """Takes the lock of an open file unless another process has it; says whether it did.

    Raises:
        NoFileLocks: on Windows.
        OSError: on a file system without locks.
    """
    try:
        _flock(file, "LOCK_EX", "LOCK_NB")
    except BlockingIOError:
        return False
    return True


def unlock(file: IO[str] | int) -> None:
    """Frees the lock of a file that stays open."""
    _flock(file, "LOCK_UN")


def read_lines(path: Path) -> bytes:
    """The content of a file to which others add lines under its lock.

    A file grows page by page, so who reads while another one writes may see half a line. A last line that is cut off is
    therefore read again under the lock; where none can be had (Windows, some file systems) it stays as it was seen.

    Raises:
        OSError: if the file cannot be read.
    """
    content = path.read_bytes()
    if not content or content.endswith(b"\n"):
        return content
    with path.open("rb") as file:
        try:
            lock(file.fileno())
        except OSError:
            return content
        return file.read()


def _flock(file: IO[str] | int, *flags: str) -> None:
    if fcntl is None:
        raise NoFileLocks(
            "this needs locks on files as Linux and macOS have them: on Windows, run it in WSL "
            "(fields, predict and explain do without)"
        )
    fcntl.flock(file, sum(getattr(fcntl, flag) for flag in flags))

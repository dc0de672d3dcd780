"""Files that are there whole or not at all, and that are files."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when all went well, and vanishes when not.

    The bytes are on the disk before the name is, so that a crash leaves the old file or the new one.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False) as file:
        temporary = Path(file.name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def read_text(path: Path, largest: int) -> str:
    """The text of a small file, which is not waited for where it is a pipe, nor read for ever where it is a device.

    Raises:
        FileNotFoundError: if there is none.
        OSError, ValueError: if it is no regular file, larger than so many bytes, or no UTF-8; with the reason.
    """
    refuse_irregular(path)
    size = path.stat().st_size
    if size > largest:
        raise ValueError(f"it has {size} bytes, at most {largest} are read")
    return path.read_text(encoding="utf-8")


def refuse_irregular(path: Path) -> None:
    """Refuses folders, pipes, sockets and devices: opening one may wait for ever, reading one may never end.

    Raises:
        FileNotFoundError: if there is nothing.
        IrregularFile: with what it is.
    """
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe (FIFO)",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(mode), "something else")
    raise IrregularFile(f"{kind}, not a regular file: save it to a file first")


class IrregularFile(OSError):
    """A path that is no regular file; the message says what it is."""

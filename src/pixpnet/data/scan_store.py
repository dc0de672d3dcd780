"""What a scan found, on disk: a file that is written whole when all files were looked at, and a journal until then.

The journal gets a line for each image as soon as it was looked at, so a scan that is interrupted, or killed, keeps what
it has; a line that was cut short counts for nothing. One process at a time scans: the others wait for it and read what
it found. The system frees the lock of a process that dies, and the next one goes on with its journal.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from pixpnet.data.errors import DataWarning
from pixpnet.file_lock import lock, try_lock
from pixpnet.whole_file import written_whole

_VERSION = 2
_LINES_AT_ONCE = 32  # that a kill may cost
_LOOK_AGAIN = 0.2  # seconds between two looks at whether another process is done

Stamp = list[int]


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


class ScanStore:
    """The results of the scans of one data set.

    Example:
        with store.exclusively(waiting):
            known = store.load()
            with store.journal() as add:
                add("jay/1.jpg", stamp, facts)
            store.save({**known, "jay/1.jpg": (stamp, facts)})
    """

    def __init__(self, path: Path) -> None:
        """Names the file; nothing is opened."""
        self.path = path
        self._journal = path.with_suffix(".journal")
        self._lock = path.with_suffix(".lock")

    @contextmanager
    def exclusively(self, waiting: Callable[[int], None] | None = None) -> Iterator[None]:
        """No two processes are inside at a time; where nothing can be written, each works for itself.

        Args:
            waiting: told now and then how many images another process has looked at.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self._lock.open("a")
        except OSError:
            yield  # saving says that nothing is kept
            return
        with file:
            if waiting is None:
                _wait_for(file)
            else:
                lines = _Lines(self._journal)
                while not _locked(file):
                    waiting(lines.count())
                    time.sleep(_LOOK_AGAIN)
            yield

    def load(self) -> dict[str, tuple[Stamp, FileFacts]]:
        """What earlier scans found, whole or interrupted; nothing of files that are missing, other or damaged."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            whole = {} if content["version"] != _VERSION else content["files"]
            known = {id_: (stamp, _facts_from(values)) for id_, (stamp, values) in whole.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            known = {}
        return known | self._journalled()

    @contextmanager
    def journal(self) -> Iterator[Callable[[str, Stamp, FileFacts], None]]:
        """A function that takes note of one image after the other."""
        try:
            # What a kill cut short in the last line must not run into the next one.
            file = self._journal.open("a", encoding="utf-8")
            file.write("\n" + json.dumps({"version": _VERSION}) + "\n")
        except OSError:
            yield lambda id_, stamp, facts: None
            return
        count = 0

        def add(id_: str, stamp: Stamp, facts: FileFacts) -> None:
            nonlocal count
            count += 1
            file.write(json.dumps({"id": id_, "stamp": stamp, "facts": asdict(facts)}) + "\n")
            if count % _LINES_AT_ONCE == 0:
                file.flush()

        with file:
            yield add

    def save(self, files: Mapping[str, tuple[Stamp, FileFacts]]) -> None:
        """Writes the file whole or not at all, and ends the journal."""
        content = {
            "version": _VERSION,
            "files": {id_: (stamp, asdict(facts)) for id_, (stamp, facts) in files.items()},
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(self.path) as temporary:
                temporary.write_text(json.dumps(content), encoding="utf-8")
            self._journal.unlink(missing_ok=True)
        except OSError as error:
            warnings.warn(
                f"the scan is not kept and will be repeated: {error}. Set PIXPNET_CACHE to a writable folder.",
                DataWarning,
                stacklevel=3,
            )

    def _journalled(self) -> dict[str, tuple[Stamp, FileFacts]]:
        known: dict[str, tuple[Stamp, FileFacts]] = {}
        readable = False
        try:
            lines = self._journal.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return {}
        for line in lines:
            try:
                content = json.loads(line)
                if "version" in content:
                    readable = content["version"] == _VERSION
                elif readable:
                    known[content["id"]] = (content["stamp"], _facts_from(content["facts"]))
            except (ValueError, KeyError, TypeError):
                continue  # cut short
        return known


class _Lines:
    """How many images a journal names that another process is writing; what was read once is not read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = self._images = 0

    def count(self) -> int:
        """Reads what was added since the last call."""
        try:
            size = self._path.stat().st_size
            if size < self._read:  # another journal
                self._read = self._images = 0
            if size > self._read:
                with self._path.open("rb") as file:
                    file.seek(self._read)
                    added = file.read(size - self._read)
                whole = added[: added.rfind(b"\n") + 1]
                self._read += len(whole)
                self._images += sum(line.startswith(b'{"id"') for line in whole.splitlines())
        except OSError:
            pass  # the other process is done, or has not begun
        return self._images


def three(values: Any) -> tuple[int, int, int]:
    """Numbers of the three channels."""
    first, second, third = values
    return int(first), int(second), int(third)


def _facts_from(values: dict[str, Any]) -> FileFacts:
    return FileFacts(**{**values, "sums": three(values["sums"]), "squares": three(values["squares"])})


def _wait_for(file: IO[str]) -> None:
    try:
        lock(file)
    except OSError:
        return  # a file system without locks: each process works for itself


def _locked(file: IO[str]) -> bool:
    try:
        return try_lock(file)
    except OSError:
        return True  # a file system without locks: each process works for itself

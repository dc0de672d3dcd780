"""A file to which somebody is adding a line at this moment."""

import fcntl
import threading
from pathlib import Path

import pytest


class HeldLock:
    """Half a line of a log whose writer holds the lock; it is completed when somebody waits for the lock."""

    def __init__(self, path: Path, whole: bytes) -> None:
        self._path, self._whole = path, whole
        path.write_bytes(whole[:-20])
        self._writer = path.open("ab", buffering=0)
        fcntl.flock(self._writer, fcntl.LOCK_EX)
        self.waited = 0

    def lock(self, file: int) -> None:
        """In the place of `file_lock.lock`: who asks sees that it is held, and gets it once the line is whole."""
        self.waited += 1
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        completing = threading.Thread(target=self._complete)
        completing.start()
        fcntl.flock(file, fcntl.LOCK_EX)
        completing.join()

    def _complete(self) -> None:
        self._writer.write(self._whole[-20:])
        self._writer.close()  # which frees the lock

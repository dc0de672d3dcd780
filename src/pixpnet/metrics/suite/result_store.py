"""Results on disk, one line of JSON for each, so that a measurement goes on where it was stopped.

A file belongs to one model and one way of measuring: its name is a hash of both. What does not change a single result
(how many samples, which mappings) is not part of that, so asking for more later reuses what is there.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from pixpnet.file_lock import try_lock
from pixpnet.records import from_plain, to_plain

T = TypeVar("T")
Key = tuple[str, ...]


class ResultStore:
    """Results by key; `put` is on the disk when it returns.

    Attributes:
        path: of the file.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        digest = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=8).hexdigest()
        self.path = folder / f"results-{digest}.jsonl"
        self._about = about
        self._values: dict[Key, Any] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> "ResultStore":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+", encoding="utf-8")
        try:
            if not try_lock(self._file):
                raise ValueError(f"{self.path} is being written by another process: wait for it to end")
            self._read()
        except ValueError:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None  # it was entered
        self._file.close()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, kind: type[T], *key: str) -> T | None:
        """What was kept under a key, if anything.

        Raises:
            ValueError: if that is something else.
        """
        if key not in self._values:
            return None
        try:
            return from_plain(kind, self._values[key], f"{key}")
        except ValueError as error:
            raise self._damaged(error) from error

    def put(self, value: object, *key: str) -> None:
        """Keeps a result."""
        self._values[key] = to_plain(value)
        self._write({"key": list(key), "value": self._values[key]})

    def _read(self) -> None:
        assert self._file is not None  # only called when it was entered
        written = self.path.read_bytes()
        whole = written.rfind(b"\n") + 1
        if whole < len(written):  # a process that was killed had begun to write this line
            os.truncate(self.path, whole)
        lines = written[:whole].split(b"\n")[:-1]
        if not lines:
            self._write({"about": self._about})
            return
        try:
            if json.loads(lines[0]) != json.loads(json.dumps({"about": self._about})):
                raise ValueError("its first line does not say what it is about")
            for line in lines[1:]:
                record = json.loads(line)
                self._values[tuple(record["key"])] = record["value"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(f"{self.path} is damaged: {error}: delete it to measure anew")

    def _write(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None  # only called when it was entered
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

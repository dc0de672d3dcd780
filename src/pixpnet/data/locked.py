"""The test split, closed until a model is fixed; every opening is written down.

Test accuracy that was looked at while choosing is not a test. So a data set does not have its test images
lying about: `LockedSplit.open` is the one way to them, and it takes a recorder.
"""

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pixpnet.data.catalog import Entry
from pixpnet.data.errors import DataError
from pixpnet.data.listed import ImageList


@dataclass(frozen=True)
class Opening:
    """One opening of a test split.

    Attributes:
        data: name of the data set.
        reason: why it was opened, in the caller's words.
        images: how many images it holds.
        fingerprint: hash of their stable ids, so that two runs can be seen to have used the same ones.
    """

    data: str
    reason: str
    images: int
    fingerprint: str


Recorder = Callable[[Opening], None]


class LockedSplit:
    """Test images that can be counted by anyone and had only by name and record.

    >>> openings = []
    >>> split = LockedSplit("jays", ())
    >>> split
    LockedSplit('jays', 0 images)
    """

    def __init__(self, name: str, entries: tuple[Entry, ...], why_empty: str = "") -> None:
        self._name = name
        self._why_empty = why_empty or f"{name} has no test split: add a folder `test`, or set test_fraction above 0"
        self.__entries = entries

    def __len__(self) -> int:
        return len(self.__entries)

    def __repr__(self) -> str:
        return f"LockedSplit({self._name!r}, {len(self)} images)"

    def open(self, recorder: Recorder, reason: str) -> tuple[Entry, ...]:
        """The test entries, after the recorder has taken note.

        Args:
            recorder: called first; if it raises, the split stays closed.
            reason: why, in words, e.g. "final evaluation".

        Raises:
            DataError: if the data set has no test split.
        """
        if not self.__entries:
            raise DataError(self._why_empty)
        if not reason.strip():
            raise ValueError("opening the test split needs a reason, e.g. reason='final evaluation'")
        ids = "\n".join(sorted(entry.id for entry in self.__entries))
        fingerprint = hashlib.blake2b(ids.encode(), digest_size=8).hexdigest()
        recorder(Opening(self._name, reason, len(self), fingerprint))
        return self.__entries

    def without(self, digests: Collection[str], why_empty: str) -> "LockedSplit":
        """The same split, as closed as before, without some pictures.

        Args:
            digests: of their pixels.
            why_empty: what to say to whoever opens it if nothing is left.
        """
        left = tuple(entry for entry in self.__entries if entry.digest not in digests)
        return LockedSplit(self._name, left, why_empty if self.__entries and not left else self._why_empty)

    def listed(self, class_names: tuple[str, ...]) -> ImageList:
        """Names and digests of the images, for a run to keep; the images themselves stay closed."""
        return ImageList.of([("test", self.__entries)], class_names)


def record_in(path: Path, model: Callable[[], str] | None = None) -> Recorder:
    """A recorder that appends one line of JSON, with the time, for each opening to a file.

    Args:
        path: of the file.
        model: says which model the images are opened for, as it is at that moment; that is on the line as well, so
            that anyone can see later whether the model was changed afterwards.
    """

    def recorder(opening: Opening) -> None:
        record = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **asdict(opening)}
        line = json.dumps(record if model is None else {**record, "model": model()})
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return recorder

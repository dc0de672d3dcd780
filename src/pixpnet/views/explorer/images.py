"""The images that a person may ask about: those that were given to the page, and those of the run's data set.

An id is looked up in a table and never becomes a path. Validation and training images are offered; test images are not,
because whoever looks at them while mending a model has no test any more (`pixpnet.data.locked`).
"""

import asyncio
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from pixpnet.data import DataSet, Entry, ImageError, Sample
from pixpnet.explanation.explaining import as_the_network_sees
from pixpnet.model import PixPNet
from pixpnet.training import Run
from pixpnet.training.kept_scores import read_scores

OfferedSplit = Literal["val", "train"]
SPLITS: dict[OfferedSplit, str] = {"val": "validation", "train": "training"}
REMEMBERED_BYTES = 256 * 2**20
"""Of uploaded pictures, as the network sees them: 150 of 384 x 384, 440 of 224 x 224."""
OPENING_SECONDS = 30.0
"""That a request waits for the data set, right after the start."""


class UnknownImage(LookupError):
    """There is no such image, or it is forgotten; the message says what to do."""


@dataclass(frozen=True)
class Asked:
    """An image to be asked about.

    Attributes:
        id: by which the page knows it.
        name: for people.
        split: "upload", or the split of the data set that it is in.
        truth: its class, where that is known.
        sample: as the network sees it.
    """

    id: str
    name: str
    split: str
    truth: str | None
    sample: Sample


@dataclass(frozen=True)
class Listed:
    """An image of the data set, before it is read.

    Attributes:
        id: by which the page knows it.
        entry: in the data set.
        split: that it is in.
        logits: what the run's model answered when it was evaluated; None where that was not kept.
        largest_score: of any prototype then; None where that was not kept.
    """

    id: str
    entry: Entry
    split: OfferedSplit
    logits: Tensor | None
    largest_score: float | None


class Images:
    """The images of one explorer; any thread may ask.

    Args:
        run: whose data set is offered.
        model: that will be asked.
        moved_to: where the data set is now, if it is not where it was.
        budget: bytes of uploaded pictures that are remembered; those that nobody asked about for longest go first.
    """

    def __init__(self, run: Run, model: PixPNet, moved_to: str | None = None, budget: int = REMEMBERED_BYTES) -> None:
        self._run, self._model, self._moved_to, self._budget = run, model, moved_to, budget
        self._uploads: OrderedDict[str, Asked] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._opened, self._closed = threading.Event(), threading.Event()
        self._data: DataSet | None = None
        self._listed: dict[OfferedSplit, tuple[Listed, ...]] = {}
        self._by_id: dict[str, Listed] = {}
        self._why_not = ""

    def open_data(self) -> None:
        """Opens the data set; whoever wants its images waits for that."""
        try:
            data = self._run.data(self._unless_closed, self._moved_to)
            answers = self._kept_answers()
            offered: dict[OfferedSplit, tuple[Entry, ...]] = {"val": data.val, "train": data.train}
            for split, entries in offered.items():
                self._listed[split] = tuple(
                    Listed(
                        entry_id(split, entry.id),
                        entry,
                        split,
                        *(answers.get(entry.id, (None, None)) if split == "val" else (None, None)),
                    )
                    for entry in entries
                )
            self._by_id = {listed.id: listed for split in self._listed.values() for listed in split}
            self._data = data
        except (ValueError, LookupError, OSError) as error:  # DataError and RunError are such
            self._why_not = str(error)
        finally:
            self._opened.set()

    def close(self) -> None:
        """Whoever opens the data set stops at the next file."""
        self._closed.set()

    def _unless_closed(self, task: str, done: int, total: int) -> None:
        if self._closed.is_set():
            raise InterruptedError("the explorer is closed")

    def _kept_answers(self) -> dict[str, tuple[Tensor, float]]:
        """Logits and the largest score of each validation image when the model was evaluated, by the image's name."""
        scores = read_scores(self._run).get("val")
        names = [line.file for line in self._run.read_answers() or () if line.split == "val"]
        if scores is None or len(names) != len(scores):
            return {}
        return dict(zip(names, zip(scores.logits, scores.largest_scores.tolist(), strict=True), strict=True))

    @property
    def opened(self) -> bool:
        """Whether the data set has been opened, or it is known why it cannot be."""
        return self._opened.is_set()

    async def until_opened(self, seconds: float = OPENING_SECONDS) -> None:
        """Waits until the data set has been opened, though not for ever; no thread stands still meanwhile."""
        end = time.monotonic() + seconds
        while not self.opened and time.monotonic() < end:
            await asyncio.sleep(0.02)

    @property
    def why_not(self) -> str:
        """Why there are no images of the data set; empty where there are, or they are still being opened."""
        return self._why_not

    def data(self) -> DataSet:
        """The run's data set, when it is open.

        Raises:
            UnknownImage: if it is not at hand.
        """
        self._opened.wait()
        if self._data is None:
            raise UnknownImage(f"the data set of this run is not at hand: {self._why_not}")
        return self._data

    def listed(self, split: OfferedSplit) -> tuple[Listed, ...]:
        """The images of a split, in the order of the data set."""
        self._opened.wait()
        return self._listed.get(split, ())

    def add(self, image_id: str, name: str, read: Callable[[], Sample]) -> Asked:
        """Takes in an uploaded picture; one that is there already is not read again, and has its new name from now on.

        Args:
            image_id: made of its content.
            name: for people.
            read: gives the picture, as it was decoded.
        """
        with self._lock:
            if image_id in self._uploads:
                self._uploads[image_id] = renamed = replace(self._uploads[image_id], name=name)
                self._uploads.move_to_end(image_id)
                return renamed
        asked = Asked(image_id, name, "upload", None, as_the_network_sees(self._model, read()))
        with self._lock:
            if image_id not in self._uploads:
                self._uploads[image_id] = asked
                self._bytes += _bytes(asked)
                while self._bytes > self._budget and len(self._uploads) > 1:
                    self._bytes -= _bytes(self._uploads.popitem(last=False)[1])
        return asked

    def get(self, image_id: str) -> Asked:
        """An image, by its id.

        Raises:
            UnknownImage: if there is none, or it cannot be read.
        """
        with self._lock:
            if image_id in self._uploads:
                self._uploads.move_to_end(image_id)
                return self._uploads[image_id]
        if image_id.startswith("upload-"):
            raise UnknownImage("this picture is not in memory any more: give it to the page again")
        listed = self.find(image_id)
        return Asked(
            listed.id,
            listed.entry.id,
            listed.split,
            self._model.class_names[listed.entry.label],
            as_the_network_sees(self._model, self.read(listed)),
        )

    def find(self, image_id: str) -> Listed:
        """An image of the data set, by its id.

        Raises:
            UnknownImage: if there is none.
        """
        if not self.opened:
            raise UnknownImage("the data set is still being opened: try again in a moment")
        self.data()
        if image_id not in self._by_id:
            raise UnknownImage("there is no such image among the validation and training images of this run")
        return self._by_id[image_id]

    def has(self, image_id: str) -> bool:
        """Whether there is such an image of the data set, as far as it is open."""
        return image_id in self._by_id

    def read(self, listed: Listed) -> Sample:
        """An image of the data set as it is in its file.

        Raises:
            UnknownImage: if the file cannot be read.
        """
        try:
            return self.data().reader(listed.entry)
        except (ImageError, OSError) as error:
            raise UnknownImage(f"{listed.entry.id} cannot be read: {error}") from error


def entry_id(split: str, image: str) -> str:
    """By which the page knows an image of the data set: neither a path nor a name can be read from it."""
    return f"{split}-{hashlib.blake2b(image.encode('utf-8', 'surrogateescape'), digest_size=8).hexdigest()}"


def _bytes(asked: Asked) -> int:
    return asked.sample.image.nbytes

"""Reads entries from files, optionally cropped to the object's box and kept in memory within a budget."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from pixpnet.data import homography
from pixpnet.data.catalog import Entry, Reader
from pixpnet.data.decode import read_image
from pixpnet.data.errors import ImageError
from pixpnet.data.resample import Pixels
from pixpnet.data.sample import Sample, box_in, inside, keypoints_in, source_sample
from pixpnet.data.shared_cache import SharedCache, Stamp, stamp_of
from pixpnet.data.shared_reader import SharedReader
from pixpnet.whole_file import IrregularFile, refuse_irregular

UNKNOWN = -1


@dataclass(frozen=True)
class FileReader:
    """Reads image files.

    Attributes:
        upright: turn images as their EXIF orientation asks; see `read_image`.
        crop_to_box: show only the object's box; `to_source` still leads to the whole file.
        strict: look whether files are whole; see `read_image`.
    """

    upright: bool = True
    crop_to_box: bool = False
    strict: bool = False

    def __call__(self, entry: Entry) -> Sample:
        """Reads an entry; see `pixpnet.data.catalog.Reader`."""
        if entry.path is None:
            raise ValueError(f"{entry.id} has no file to read")
        try:
            refuse_irregular(entry.path)
        except IrregularFile as error:
            raise ImageError(str(error)) from error
        except OSError:
            pass  # the reading says what is wrong
        pixels = read_image(entry.path, self.upright, self.strict)
        sample = source_sample(pixels, entry.label, entry.id, entry.annotation, masks=None)
        return _cropped_to_box(sample, pixels) if self.crop_to_box else sample


def read_sample(path: Path | str) -> Sample:
    """Reads one image that belongs to no data set, such as one to be explained; its label is -1.

    Raises:
        ImageError: with the reason, if it cannot be read.
    """
    path = Path(path)
    return FileReader(strict=True)(Entry(path.name, UNKNOWN, "test", path))


@dataclass
class CachedReader:
    """Keeps what another reader read, until a budget is full; what came first stays.

    An epoch visits every image once in random order, so replacing old images by new ones would never find
    anything; a fixed part of the data set always hits.

    Attributes:
        reader: where samples come from.
        budget: bytes of decoded images that may be kept. An image whose file has changed since is read anew.
    """

    reader: Reader
    budget: int
    used: int = 0
    _samples: dict[str, tuple[Stamp, Sample]] = field(default_factory=dict, repr=False)

    def __call__(self, entry: Entry) -> Sample:
        """Reads an entry; see `pixpnet.data.catalog.Reader`."""
        stamp = stamp_of(entry.path)
        if stamp is None:
            return self.reader(entry)  # which says what is wrong
        if entry.id in self._samples:
            version, sample = self._samples[entry.id]
            if version == stamp:
                return sample
            del self._samples[entry.id]
            self.used -= _bytes(sample)
        sample = self.reader(entry)
        if self.used + _bytes(sample) <= self.budget:
            self._samples[entry.id] = stamp, sample
            self.used += _bytes(sample)
        return sample

    def __getstate__(self) -> dict[str, object]:
        """What is pickled, as for worker processes that are spawned, starts with an empty cache."""
        return {"reader": self.reader, "budget": self.budget, "used": 0, "_samples": {}}


def cached(reader: Reader, budget: int, num_workers: int) -> Reader:
    """A reader that keeps what it read: in memory, or, where several processes read, in a file that they share.

    Args:
        reader: where samples come from.
        budget: bytes of decoded images that may be kept, by all processes together.
        num_workers: processes that read beside the main one.
    """
    return SharedReader(reader, SharedCache(budget)) if num_workers else CachedReader(reader, budget)


def _bytes(sample: Sample) -> int:
    return sample.image.nbytes + (0 if sample.masks is None else sample.masks.nbytes)


@dataclass(frozen=True)
class WithoutMasks:
    """Reads images without the masks of their parts, which cost more to carry along than the image itself."""

    reader: Reader

    def __call__(self, entry: Entry) -> Sample:
        """Reads an entry; see `pixpnet.data.catalog.Reader`."""
        return replace(self.reader(entry), masks=None)


def _cropped_to_box(sample: Sample, pixels: Pixels) -> Sample:
    box = sample.box
    if box is None or box.y0 >= box.y1 or box.x0 >= box.x1:
        raise ImageError("has no box to crop to, or one outside the image")
    crop = np.ascontiguousarray(pixels[box.y0 : box.y1, box.x0 : box.x1])
    size = crop.shape[0], crop.shape[1]
    points = sample.keypoints.numpy().astype(np.float64) - np.array([box.x0, box.y0])
    return replace(
        sample,
        image=type(sample.image)(torch.from_numpy(crop).permute(2, 0, 1)),
        to_source=torch.from_numpy(homography.translation(box.x0, box.y0)),
        keypoints=keypoints_in(points, size),
        visible=sample.visible & torch.from_numpy(inside(points, size)),
        bounding_box=box_in((0.0, 0.0, float(size[1]), float(size[0])), size),
    )

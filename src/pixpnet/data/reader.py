"""Reads entries from files, optionally cropped to the object's box."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from pixpnet.data import homography
from pixpnet.data.catalog import Entry, Reader
from pixpnet.data.decode import read_image
from pixpnet.data.errors import ImageError
from pixpnet.data.resample import Pixels, as_image
from pixpnet.data.sample import Sample, box_in, inside, keypoints_in, source_sample
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


@dataclass(frozen=True)
class WithoutMasks:
    """Reads images without the masks of their parts, which cost more to carry along than the image itself."""

    reader: Reader

    def __call__(self, entry: Entry) -> Sample:
        """Reads an entry; see `pixpnet.data.catalog.Reader`."""
        return replace(self.reader(entry), masks=None)


@dataclass(frozen=True)
class CroppedToBox:
    """Reads images cropped to the object's box, whatever reads them; masks are left out."""

    reader: Reader

    def __call__(self, entry: Entry) -> Sample:
        """Reads an entry; see `pixpnet.data.catalog.Reader`.

        Raises:
            ImageError: if it has no box, or one outside the image.
        """
        sample = replace(self.reader(entry), masks=None)
        return _cropped_to_box(sample, sample.image.as_subclass(torch.Tensor).permute(1, 2, 0).numpy())


def _cropped_to_box(sample: Sample, pixels: Pixels) -> Sample:
    box = sample.box
    if box is None or box.y0 >= box.y1 or box.x0 >= box.x1:
        raise ImageError("has no box to crop to, or one outside the image")
    crop = np.ascontiguousarray(pixels[box.y0 : box.y1, box.x0 : box.x1])
    size = crop.shape[0], crop.shape[1]
    points = sample.keypoints.numpy().astype(np.float64) - np.array([box.x0, box.y0])
    return replace(
        sample,
        image=as_image(crop),
        to_source=sample.to_source @ torch.from_numpy(homography.translation(box.x0, box.y0)),
        keypoints=keypoints_in(points, size),
        visible=sample.visible & torch.from_numpy(inside(points, size)),
        bounding_box=box_in((0.0, 0.0, float(size[1]), float(size[0])), size),
    )

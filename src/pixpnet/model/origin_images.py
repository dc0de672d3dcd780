"""Going back to the training images that prototypes were taken from: one reader for all who look at them again."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from pixpnet.data import DataSet, Entry, Sample, preprocess
from pixpnet.model.network import PixPNet
from pixpnet.model.origin import Origin

# Of the matrix that leads back to the file's pixels. It is computed in double precision from sizes alone, so an image
# that is cut and scaled in the same way gives the same one but for the last digits.
TOLERANCE = 1e-6


class OriginImage(NamedTuple):
    """A training image, and the origins that lie in it."""

    entry: Entry
    origins: tuple[Origin, ...]

    def read(self, model: PixPNet, data: DataSet) -> Sample:
        """The image as the network sees it."""
        return preprocess(data.reader(self.entry), model.preprocessing)


def origin_images(origins: Iterable[Origin], data: DataSet) -> tuple[OriginImage, ...]:
    """The training images that origins lie in, in the order in which they are first named; others are left out."""
    entries = {entry.id: entry for entry in data.train}
    by_image: dict[str, list[Origin]] = {}
    for origin in origins:
        if origin.image in entries:
            by_image.setdefault(origin.image, []).append(origin)
    return tuple(OriginImage(entries[image], tuple(held)) for image, held in by_image.items())


def misplaced(origins: Iterable[Origin], sample: Sample) -> Iterator[Origin]:
    """The origins whose image is not cut and scaled as it was when prototypes were taken from it."""
    to_source: Tensor = sample.to_source.double().flatten()
    for origin in origins:
        # `not <=`: NaN is no way back.
        if not (to_source - torch.tensor(origin.to_source, dtype=torch.float64)).abs().max() <= TOLERANCE:
            yield origin


def refuse_misplaced(origins: Iterable[Origin], sample: Sample) -> None:
    """Refuses an image in which the regions of origins would be looked for in the wrong place.

    Raises:
        ValueError: if it is one.
    """
    for origin in misplaced(origins, sample):
        raise ValueError(
            f"{origin.image} is not cut and scaled as it was when prototype {origin.prototype} was taken from it, so "
            "its region would be looked for in the wrong place: open the data set with the run's own options"
        )

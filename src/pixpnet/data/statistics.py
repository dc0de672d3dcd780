"""Mean and standard deviation of each channel, from integer sums: exact, in one pass and in any order."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pixpnet.data.errors import DataError
from pixpnet.data.preprocessing import Channels
from pixpnet.data.scan import FileFacts


@dataclass(frozen=True)
class Statistics:
    """Of each channel over all pixels of some images, 0-1."""

    mean: Channels
    std: Channels


# App. E and FACTS: as published for the full data sets.
CUB = Statistics((0.4862, 0.5005, 0.4334), (0.2321, 0.2277, 0.2665))
CARS = Statistics((0.4708, 0.4602, 0.4550), (0.2891, 0.2882, 0.2967))


def statistics_of(facts: Iterable[FileFacts]) -> Statistics:
    """Statistics over all pixels of the images that these facts describe; unusable images do not count."""
    usable = [fact for fact in facts if fact.reason is None]
    pixels = sum(fact.height * fact.width for fact in usable)
    if pixels == 0:
        raise DataError("there is no readable image to compute mean and std of")
    means, stds = [], []
    for channel in range(3):
        total = sum(fact.sums[channel] for fact in usable)
        squares = sum(fact.squares[channel] for fact in usable)
        means.append(total / pixels / 255)
        # The difference of two integers, so there is nothing to cancel.
        stds.append(math.sqrt((squares * pixels - total * total) / pixels**2) / 255)
    return Statistics((means[0], means[1], means[2]), (stds[0], stds[1], stds[2]))

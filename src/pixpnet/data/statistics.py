"""Mean and standard deviation of each channel, from the sums of each image, in one pass and in any order.

Every image counts the same, whatever its size, so that one huge picture cannot stand for a whole data set: mean and
mean square are taken over the pixels of an image first, then over images.
"""

import math
import operator
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pixpnet.data.errors import DataError
from pixpnet.data.preprocessing import Channels
from pixpnet.data.scan_store import FileFacts


@dataclass(frozen=True)
class Statistics:
    """Of each channel over some images, 0-1."""

    mean: Channels
    std: Channels


# App. E and FACTS: as published for the full data sets.
CUB = Statistics((0.4862, 0.5005, 0.4334), (0.2321, 0.2277, 0.2665))
CARS = Statistics((0.4708, 0.4602, 0.4550), (0.2891, 0.2882, 0.2967))


def statistics_of(facts: Iterable[FileFacts]) -> Statistics:
    """Statistics over the images that these facts describe, each with the same weight; unusable ones do not count."""
    usable = [fact for fact in facts if fact.reason is None]
    if not usable:
        raise DataError("there is no readable image to compute mean and std of")
    moments = [_of_one_size(group) for group in _by_size(usable)]
    weights = [moment.images / len(usable) for moment in moments]
    means, stds = [], []
    for channel in range(3):
        own = [moment.mean[channel] for moment in moments]
        mean = own[0] if len(own) == 1 else math.fsum(map(operator.mul, weights, own))
        # Within images of one size, and between sizes: no difference of large numbers, and 0 where all are the same.
        spread = [moment.variance[channel] + (moment.mean[channel] - mean) ** 2 for moment in moments]
        variance = spread[0] if len(own) == 1 else math.fsum(map(operator.mul, weights, spread))
        means.append(mean / 255)
        stds.append(math.sqrt(variance) / 255)
    return Statistics((means[0], means[1], means[2]), (stds[0], stds[1], stds[2]))


class _Moments(NamedTuple):
    """Mean and variance of each channel over images of one size, 0-255."""

    images: int
    mean: tuple[float, ...]
    variance: tuple[float, ...]


def _by_size(facts: list[FileFacts]) -> list[list[FileFacts]]:
    groups: dict[int, list[FileFacts]] = defaultdict(list)
    for fact in facts:
        groups[fact.height * fact.width].append(fact)
    return [groups[size] for size in sorted(groups)]


def _of_one_size(facts: list[FileFacts]) -> _Moments:
    pixels = len(facts) * facts[0].height * facts[0].width
    totals = [sum(fact.sums[channel] for fact in facts) for channel in range(3)]
    squares = [sum(fact.squares[channel] for fact in facts) for channel in range(3)]
    # The difference of two integers, so there is nothing to cancel.
    variances = ((square * pixels - total * total) / pixels**2 for total, square in zip(totals, squares, strict=True))
    return _Moments(len(facts), tuple(total / pixels for total in totals), tuple(variances))

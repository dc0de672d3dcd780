"""Which prototypes recur from seed to seed: the same part of the same training image, whatever the network began with.

Two prototypes of runs with different seeds are one when they are of the same class, come from the same training image,
and the exact regions that their cells saw there overlap by at least half (intersection over union). Each prototype of
one run is matched with at most one of another, the largest overlap first. Beside it stands what chance would do: the
same, with the other run's prototypes put on random training images of their classes.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np

from pixpnet.box import Box, union_area
from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.model import Origin
from pixpnet.model.file import origins_in
from pixpnet.training import Run

OVERLAP = 0.5
_CHANCES = 20


@dataclass(frozen=True)
class Recurring:
    """How many prototypes recur between runs that differ in their seed.

    Attributes:
        runs: their folders.
        share: of the prototypes of a run, those that another one has too: mean over all pairs of runs, with an interval
            that draws whole classes again.
        in_all: share of the prototypes of a run that all other runs have, likewise.
        same_image: share of the prototypes of a run whose training image another one uses for the class too.
        by_chance: the share that random training images would give; None where a run keeps no list of its images.
        prototypes: of all runs together.
    """

    runs: tuple[str, ...]
    share: Estimate | None
    in_all: Estimate | None
    same_image: Estimate | None
    by_chance: float | None
    prototypes: int


def recurring(runs: Sequence[Path | str], seed: int = 0) -> Recurring | None:
    """Matches the prototypes of runs that differ in their seed; None where prototypes are no patches.

    Args:
        runs: folders of at least two runs of the same settings.
        seed: of the interval and of chance.

    Raises:
        ValueError: if there are fewer than two.
    """
    if len(runs) < 2:
        raise ValueError(f"prototypes recur between runs, and {len(runs)} came: name at least two")
    folders = [Path(run) for run in runs]
    origins = [origins_in(folder) for folder in folders]
    if any(of_run is None for of_run in origins):
        return None
    known = [of_run for of_run in origins if of_run is not None]
    shares: list[float] = []
    everywhere: list[float] = []
    same: list[float] = []
    classes: list[int] = []
    for number, mine in enumerate(known):
        others = [theirs for other, theirs in enumerate(known) if other != number]
        matched = [matches(mine, theirs) for theirs in others]
        shared = [{(origin.label, origin.image) for origin in theirs} for theirs in others]
        for index, origin in enumerate(mine):
            hits = [index in pairs for pairs in matched]
            shares.append(float(np.mean(hits)))
            everywhere.append(float(all(hits)))
            same.append(float(np.mean([(origin.label, origin.image) in images for images in shared])))
            classes.append(origin.label)
    return Recurring(
        runs=tuple(map(str, folders)),
        share=bootstrap_mean(shares, classes, seed),
        in_all=bootstrap_mean(everywhere, classes, seed),
        same_image=bootstrap_mean(same, classes, seed),
        by_chance=_chance(known, [_training_images(folder) for folder in folders], seed),
        prototypes=len(shares),
    )


def matches(mine: Sequence[Origin], theirs: Sequence[Origin]) -> dict[int, int]:
    """Which prototypes of one run are which of another, by their places in the two lists."""
    places: dict[tuple[int, str], list[int]] = defaultdict(list)
    for index, origin in enumerate(theirs):
        places[origin.label, origin.image].append(index)
    pairs = sorted(
        (
            (-overlap, one, other)
            for one, origin in enumerate(mine)
            for other in places[origin.label, origin.image]
            if (overlap := overlap_of(origin.boxes, theirs[other].boxes)) >= OVERLAP
        ),
    )
    result: dict[int, int] = {}
    taken: set[int] = set()
    for _, one, other in pairs:
        if one not in result and other not in taken:
            result[one] = other
            taken.add(other)
    return result


def overlap_of(one: Sequence[Box], other: Sequence[Box]) -> float:
    """Intersection over union of two regions, each of disjoint boxes; two empty ones do not overlap.

    >>> overlap_of([Box(0, 0, 2, 2)], [Box(0, 1, 2, 3)])
    0.3333333333333333
    """
    together = union_area([*one, *other])
    return (union_area(one) + union_area(other) - together) / together if together else 0.0


def _training_images(folder: Path) -> Mapping[str, list[str]] | None:
    """The training images of each class, by its name."""
    listed = Run(folder).read_images()
    if listed is None:
        return None
    images: dict[str, list[str]] = defaultdict(list)
    for image in listed.images:
        if image.split == "train":
            images[image.class_name].append(image.id)
    return images


def _chance(
    known: Sequence[Sequence[Origin]], images: Sequence[Mapping[str, list[str]] | None], seed: int
) -> float | None:
    """The share that would recur if the prototypes of the other run came from random images of their classes."""
    if any(of_run is None for of_run in images):
        return None
    random = np.random.default_rng(seed)
    shares = []
    for one, other in permutations(range(len(known)), 2):
        lists = images[other]
        assert lists is not None
        class_of = {image: name for name, of_class in lists.items() for image in of_class}
        for _ in range(_CHANCES):
            left = {name: list(random.permutation(of_class)) for name, of_class in lists.items()}
            moved = [
                replace(origin, image=str(left[class_of[origin.image]].pop()))
                if left[class_of[origin.image]]
                else origin
                for origin in known[other]
            ]
            shares.append(len(matches(known[one], moved)) / len(known[one]))
    return float(np.mean(shares))

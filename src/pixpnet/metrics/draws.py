"""Random draws that depend on a seed and on what they are for, and on nothing else."""

import hashlib
from collections.abc import Sequence

import torch


def generator_for(seed: int, *purpose: object) -> torch.Generator:
    """A generator for one purpose, so that no draw depends on how many others were made before it.

    >>> one, same, other = (generator_for(0, "noise", id_).initial_seed() for id_ in ("jay", "jay", "wren"))
    >>> one == same, one == other
    (True, False)
    """
    digest = hashlib.blake2b(repr((seed, *purpose)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def drawn_classes(labels: Sequence[int], count: int, seed: int) -> list[int]:
    """Draws whole classes, with at most `count` images in all; a larger draw begins with the smaller one.

    How often a prototype finds one part says nothing when it is asked about one image of its class, so a class is
    drawn with all of its images or not at all. The first class is drawn even if it has more images than `count`.

    Args:
        labels: the class of each image.
        count: how many images are wanted.
        seed: of the order of the classes.

    Returns:
        the places of the drawn images in `labels`, class by class.

    Example:
        >>> [len(drawn_classes([0, 1, 1, 0, 1, 0], count, seed=0)) for count in (1, 3, 5, 6)]
        [3, 3, 3, 6]
    """
    members: dict[int, list[int]] = {label: [] for label in sorted(set(labels))}
    for index, label in enumerate(labels):
        members[label].append(index)
    groups = list(members.values())
    drawn: list[int] = []
    for number in torch.randperm(len(groups), generator=generator_for(seed, "classes")).tolist():
        if drawn and len(drawn) + len(groups[number]) > count:
            break  # and not the next one that would fit: a larger draw would not begin with this one
        drawn += groups[number]
    return drawn

"""Fewer prototypes: some are dropped (ProtoPNet's pruning) or merged into others (ProtoPShare), and the rest stay.

What is left are prototypes as they were, patches of training images where they were that; the weights of the head for
those that were merged are added up, and one that took in others speaks for the classes of all. Like member files, it
imports torch inside functions only.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

    from pixpnet.model import PixPNet
    from pixpnet.training.learner import Learner

Groups = Sequence[tuple[int, ...]]
"""Prototypes by their numbers: the first of each group stays, and the others are merged into it; others are dropped."""


def shrink(learner: "Learner", groups: Groups) -> None:
    """`keep_groups`, with what the training loop remembers of prototypes."""
    taken_from = learner.taken_from
    keep_groups(learner.model, groups)
    if taken_from:
        learner.taken_from = tuple(taken_from[group[0]] for group in groups)


def keep_groups(model: "PixPNet", groups: Groups) -> None:
    """Makes a network one of fewer prototypes.

    Args:
        model: whose architecture has `owners`, with a linear head.
        groups: what is left, in the order of numbers; each group within one grid, and every grid keeps a prototype.

    Raises:
        ValueError: if the groups are not such groups.
    """
    import torch

    from pixpnet.parts import Linear

    head, firsts = model.head, [group[0] for group in groups]
    assert isinstance(head, Linear)
    grids = model.grids
    counts = [sum(first in grid.prototypes for first in firsts) for grid in grids]
    if 0 in counts or firsts != sorted(firsts):
        raise ValueError(f"groups are in order and leave every grid a prototype, got {counts} for the grids")
    sets = [tuple(sorted({label for one in group for label in model.ownership.owners(one)})) for group in groups]
    starts = [sum(counts[:number]) for number in range(len(counts))]
    owners = tuple(tuple(sets[start : start + count]) for start, count in zip(starts, counts, strict=True))
    with torch.no_grad():
        vectors = [grid.comparison.prototypes.detach().clone() for grid in grids]
        weights = torch.stack([head.weight[:, list(group)].sum(dim=1) for group in groups], dim=1)
        origins, first_of = model.origins, [grid.first for grid in grids]
        model.rebuild(replace(model.architecture, owners=owners))
        for grid, own, before, start, count in zip(model.grids, vectors, first_of, starts, counts, strict=True):
            grid.comparison.prototypes.copy_(own[[first - before for first in firsts[start : start + count]]])
        assert isinstance(model.head, Linear)
        model.head.weight.copy_(weights)
    if origins is not None:
        model.origins = tuple(replace(origins[first], prototype=number) for number, first in enumerate(firsts))


def pruned_groups(
    distances: "Float[Tensor, 'images protos']",
    labels: "Int64[Tensor, ' images']",
    owners: Sequence[tuple[int, ...]],
    nearest: int,
    least: int,
    grids: Sequence[Collection[int]] = (),
) -> list[tuple[int, ...]]:
    """ProtoPNet's pruning: which prototypes stay.

    A prototype goes if fewer than `least` of the `nearest` images that come nearest to it are of its class. A class, or
    a grid, that would lose all keeps the one with most; of equals the first.

    Args:
        distances: of each training image's nearest patch to each prototype.
        labels: of the images.
        owners: the classes that each prototype speaks for.
        nearest: how many images are looked at.
        least: how many of them must be of the prototype's class.
        grids: the numbers of the prototypes of each grid.
    """
    near = distances.double().argsort(dim=0, stable=True)[:nearest]
    right = [sum(int(labels[image]) in classes for image in near[:, j].tolist()) for j, classes in enumerate(owners)]
    stay = {j for j, count in enumerate(right) if count >= least}
    labels_spoken_for = {label for classes in owners for label in classes}
    by_class = [[j for j, classes in enumerate(owners) if label in classes] for label in sorted(labels_spoken_for)]
    for together in (*by_class, *grids):
        if not stay.intersection(together):
            stay.add(max(together, key=lambda j: (right[j], -j)))
    return [(j,) for j in sorted(stay)]


def merged_groups(
    answers: "Float[Tensor, 'protos numbers']", share: float, grid_of: Sequence[int]
) -> list[tuple[int, ...]]:
    """ProtoPShare's merging: which prototypes take in which.

    The distance of two is the squared length of the difference of their answers, infinite between grids. As many as
    `share` says have a nearest other one within the threshold. Then, in the order of numbers, each that is still there
    takes in all others that are within it: there is no transitive closure, so the order matters.

    Args:
        answers: of each prototype: its distances to all training images, or the prototype itself.
        share: of the prototypes; at least one.
        grid_of: which grid each looks at.

    >>> import torch
    >>> merged_groups(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 0.5, [0, 0, 0, 0])
    [(0, 1), (2,), (3,)]
    """
    import torch

    count = len(answers)
    # In double precision and as differences: nearly equal ones must not cancel.
    distances = torch.cdist(answers.double(), answers.double(), compute_mode="donot_use_mm_for_euclid_dist").square()
    grids = torch.tensor(list(grid_of))
    distances[grids[:, None] != grids] = float("inf")
    distances.fill_diagonal_(float("inf"))
    smallest = distances.min(dim=1).values
    threshold = smallest.sort().values[min(count, max(1, round(share * count))) - 1]
    if not torch.isfinite(threshold):
        return [(number,) for number in range(count)]
    near = distances <= threshold
    left = torch.ones(count, dtype=torch.bool)
    groups: list[tuple[int, ...]] = []
    for number in range(count):
        if not left[number]:
            continue
        taken = (near[number] & left).nonzero().flatten().tolist()
        left[taken] = False
        groups.append((number, *taken))
    return groups

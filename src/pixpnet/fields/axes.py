"""How a tensor's axes divide into atoms, and how to regroup them when the tensor is reshaped.

A flattened axis of 14 x 14 tokens still has rows and columns in it. We remember that: each axis of a tensor
is a row-major product of *atoms* (sizes of at least 2; an axis of size 1 has none). Merging axes then only
regroups atoms, and a reduction over the merged axis is a reduction over each atom in turn, so that rows and
columns stay separate sets through flatten, windows and heads.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

Atoms = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Edit:
    """Replaces the ``count`` atoms from position ``start`` by ``sizes`` with the same product."""

    start: int
    count: int
    sizes: tuple[int, ...]


def atoms_of(shape: tuple[int, ...]) -> Atoms:
    """One atom for each axis that is not of size 1.

    >>> atoms_of((1, 64, 7))
    ((), (64,), (7,))
    """
    return tuple((size,) if size != 1 else () for size in shape)


def regroup(flat: tuple[int, ...], shape: tuple[int, ...]) -> tuple[list[Edit], Atoms]:
    """What to do to the atoms of one shape to make them the atoms of another.

    Walks both from the left, in blocks whose products agree. Within a block an atom may be split where the
    new axes ask for it; where the boundaries do not divide each other the block is fused first.

    >>> regroup((7, 7), (49,))
    ([], ((7, 7),))
    >>> regroup((6, 4), (8, 3))
    ([Edit(start=0, count=2, sizes=(8, 3))], ((8,), (3,)))
    """
    edits: list[Edit] = []
    groups: dict[int, tuple[int, ...]] = {}
    axes = [k for k, size in enumerate(shape) if size != 1]
    position = 0  # among the atoms as they are after the edits so far
    taken = 0  # among `flat`
    while axes:
        block_axes, block_atoms = [axes.pop(0)], [flat[taken]]
        taken += 1
        while prod(block_atoms) != prod(shape[k] for k in block_axes):
            if prod(block_atoms) < prod(shape[k] for k in block_axes):
                block_atoms.append(flat[taken])
                taken += 1
            else:
                block_axes.append(axes.pop(0))
        wanted = [shape[k] for k in block_axes]
        refined = refine(tuple(block_atoms), tuple(wanted)) or tuple(wanted)
        if refined != tuple(block_atoms):
            edits.append(Edit(position, len(block_atoms), refined))
        rest = list(refined)
        for k in block_axes:
            group: list[int] = []
            while prod(group) < shape[k]:
                group.append(rest.pop(0))
            groups[k] = tuple(group)
        position += len(refined)
    return edits, tuple(groups.get(k, ()) for k in range(len(shape)))


def refine(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """The coarsest atoms that both groupings of one product are made of; None where there are none.

    >>> refine((6, 4), (3, 8))
    (3, 2, 4)
    >>> refine((6, 4), (8, 3)) is None
    True
    """
    if left == right:
        return left
    cuts = sorted(_tails(left) | _tails(right), reverse=True)
    if any(larger % smaller for larger, smaller in pairwise(cuts)):
        return None
    return tuple(larger // smaller for larger, smaller in pairwise(cuts))


def _tails(sizes: tuple[int, ...]) -> set[int]:
    """The products of all the sizes from each position on: where a row-major index can be divided."""
    return {prod(sizes[k:]) for k in range(len(sizes) + 1)}

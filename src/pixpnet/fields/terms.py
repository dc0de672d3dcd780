"""Terms: the pieces whose union is the field of every element of a tensor.

A term holds, for each element of a tensor, one product of sets: rows x columns for images (one set for each
axis of the input space, see ``bits``), present where its mask is true. Its arrays are indexed by the *atoms*
of the tensor's axes (see ``sources``) and have size 1 along every atom that they do not depend on. A
convolution reads a product of taps, and ``(Ky x Kx)(Y x X) = KyY x KxX``, so a term stays a term as long as
no atom carries two sets at once; where one does, ``split`` takes it apart, exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pixpnet.fields import bits
from pixpnet.shapes import Bool, Int

Mask = Bool[np.ndarray, "..."]
# For each output position the input positions it reads; -1 stands for none.
Taps = Int[np.ndarray, "out taps"]


@dataclass(frozen=True, eq=False)
class SourceTerm:
    """A product of sets for every element of a tensor, present where ``mask`` is true."""

    sets: tuple[bits.Sets, ...]
    mask: Mask

    def varies(self, axis: int) -> bool:
        """Whether anything in the term depends on the atom at ``axis``."""
        return self.mask.shape[axis] > 1 or any(sets.shape[axis] > 1 for sets in self.sets)

    def is_empty(self) -> bool:
        """Whether no element has any pixel from this term."""
        return not self.mask.any() or not all(sets.any() for sets in self.sets)

    def covers(self, other: "SourceTerm") -> bool:
        """Whether this term holds every pixel of ``other``; a false answer may also mean "in parts"."""
        return not (other.mask & ~self.mask).any() and all(
            theirs is ours or bits.is_subset(theirs, ours) for theirs, ours in zip(other.sets, self.sets, strict=True)
        )


def take(term: SourceTerm, axis: int, taps: Taps) -> list[SourceTerm]:
    """Lets output position i along ``axis`` read the input positions ``taps[i]``."""
    present = taps >= 0
    if taps.shape[1] == 1:
        return [_move(term, axis, taps, present)]
    pieces = []
    for piece in _one_carrier(term, axis):
        if piece.varies(axis):
            pieces.append(_changed(piece, axis, lambda a: _flatten_constant(_gather(a, axis, taps, present), axis)))
        else:
            reads = np.asarray(present.any(1))
            pieces.append(
                piece if reads.all() else SourceTerm(piece.sets, piece.mask & _along(axis, reads, piece.mask.ndim))
            )
    return pieces


def _move(term: SourceTerm, axis: int, taps: Taps, present: Bool[np.ndarray, "out one"]) -> SourceTerm:
    """``take`` with at most one tap each: elements move, nothing is united, so nothing need be split."""
    varying = [array for array in (*term.sets, term.mask) if array.shape[axis] > 1]
    sets = tuple(_gather(s, axis, taps, present) if s.shape[axis] > 1 else s for s in term.sets)
    mask = term.mask
    if mask.shape[axis] > 1:
        mask = _gather(mask, axis, taps, present)
    elif not varying and not present.all():
        mask = mask & _along(axis, present[:, 0], mask.ndim)
    return SourceTerm(sets, mask)


def _along(axis: int, flags: Bool[np.ndarray, " out"], ndim: int) -> Mask:
    return flags.reshape([-1 if k == axis else 1 for k in range(ndim)])


def unite_along(term: SourceTerm, axis: int) -> list[SourceTerm]:
    """Lets every position along ``axis`` read all of them; the result does not depend on ``axis``."""
    return [
        _changed(piece, axis, lambda array: np.bitwise_or.reduce(array, axis=axis, keepdims=True))
        for piece in _one_carrier(term, axis)
    ]


def accumulate_along(term: SourceTerm, axis: int) -> list[SourceTerm]:
    """Lets every position along ``axis`` read all positions up to its own."""
    return [
        _changed(piece, axis, lambda array: np.bitwise_or.accumulate(array, axis=axis))
        for piece in _one_carrier(term, axis)
    ]


def _changed(piece: SourceTerm, axis: int, change: Callable[[np.ndarray], np.ndarray]) -> SourceTerm:
    """Changes the one array of a term that depends on ``axis``, if there is one."""
    arrays = [change(array) if array.shape[axis] > 1 else array for array in (*piece.sets, piece.mask)]
    return SourceTerm(tuple(arrays[:-1]), arrays[-1])


def _one_carrier(term: SourceTerm, axis: int) -> list[SourceTerm]:
    """Rewrites the term so that at most one of its sets, or else its mask, depends on ``axis``."""
    carriers = [k for k, sets in enumerate(term.sets) if sets.shape[axis] > 1]
    if len(carriers) > 1:
        return [part for piece in split(term, axis, carriers) for part in _one_carrier(piece, axis)]
    if carriers and term.mask.shape[axis] > 1:
        # An absent product is a product with an empty set, so the mask can move into the carrier.
        sets = list(term.sets)
        sets[carriers[0]] = np.where(term.mask[..., None], sets[carriers[0]], np.uint64(0))
        return [SourceTerm(tuple(sets), np.ones([1] * term.mask.ndim, bool))]
    return [term]


def split(term: SourceTerm, axis: int, carriers: list[int]) -> list[SourceTerm]:
    """Takes a term apart along ``axis`` so that one of ``carriers`` no longer depends on it.

    Positions with equal sets stay together, so flattened rows and columns fall into as many terms as there
    are rows (or columns, whichever are fewer), not as there are pixels.
    """
    groupings = {k: _equal_positions(term.sets[k], axis) for k in carriers}
    fewest = min(carriers, key=lambda k: len(groupings[k]))
    pieces = []
    for members in groupings[fewest]:
        chosen = np.zeros(term.sets[fewest].shape[axis], bool)
        chosen[members] = True
        sets = list(term.sets)
        sets[fewest] = np.take(sets[fewest], members[:1], axis)
        pieces.append(SourceTerm(tuple(sets), term.mask & _along(axis, chosen, term.mask.ndim)))
    return pieces


def _equal_positions(sets: bits.Sets, axis: int) -> list[Int[np.ndarray, " members"]]:
    slices = np.moveaxis(sets, axis, 0).reshape(sets.shape[axis], -1)
    _, labels = np.unique(slices, axis=0, return_inverse=True)
    return [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]


def _gather(array: np.ndarray, axis: int, taps: Taps, present: Bool[np.ndarray, "out taps"]) -> np.ndarray:
    """The union of ``array`` over the taps of each output position."""
    if not present.all():
        # Absent taps read an extra, empty position behind the last.
        taps = np.where(present, taps, array.shape[axis])
        shape = list(array.shape)
        shape[axis] = 1
        array = np.concatenate([array, np.zeros(shape, array.dtype)], axis)
    united = array.take(taps[:, 0], axis)
    for column in range(1, taps.shape[1]):
        united |= array.take(taps[:, column], axis)
    return united


def _flatten_constant(array: np.ndarray, axis: int) -> np.ndarray:
    """Drops the dependence on ``axis`` where there is none left."""
    first = array.take([0], axis)
    return first if (array == first).all() else array

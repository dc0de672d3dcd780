"""Sources: for every element of a tensor, the exact set of input pixels that it reads.

This is the value that receptive-field rules compute with. A rule says what an operation reads, in words
like these, one axis at a time:

    sources.take(2, taps)          # position i of axis 2 reads the positions taps[i]
    sources.everything_along(1)    # each element reads the whole of axis 1
    Sources.union([left, right])   # each element reads both, broadcast

Sources are immutable; every method returns new ones.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from pixpnet.fields import bits, terms
from pixpnet.fields.axes import Atoms, Edit, atoms_of, refine, regroup
from pixpnet.fields.merge import merge, unite
from pixpnet.fields.terms import SourceTerm, Taps
from pixpnet.shapes import Bool


@dataclass(frozen=True, eq=False)
class Sources:
    """The pixels that each element of a tensor of ``shape`` reads, in an input of size ``space``."""

    shape: tuple[int, ...]
    space: tuple[int, ...]
    atoms: Atoms
    terms: tuple[SourceTerm, ...]

    # Making them -----------------------------------------------------------------------------------------

    @classmethod
    def nothing(cls, shape: Sequence[int], space: tuple[int, ...]) -> "Sources":
        """A tensor that does not depend on the input."""
        return cls(tuple(shape), space, atoms_of(tuple(shape)), ())

    @classmethod
    def of_input(cls, shape: tuple[int, ...], space: tuple[int, ...]) -> "Sources":
        """The input itself, with the axes of ``space`` last: every element reads its own pixel."""
        atoms = atoms_of(shape)
        count = sum(map(len, atoms))
        before = count - sum(size > 1 for size in space)
        sets = []
        for size in space:
            array_shape = [1] * count
            if size > 1:
                array_shape[before] = size
                before += 1
            sets.append(bits.singletons(size).reshape(*array_shape, -1))
        return cls(shape, space, atoms, (SourceTerm(tuple(sets), np.ones([1] * count, bool)),))

    @classmethod
    def union(cls, parts: Iterable["Sources"]) -> "Sources":
        """Each element reads what it reads in any of ``parts``, whose shapes are broadcast."""
        parts = list(parts)
        shape = np.broadcast_shapes(*(part.shape for part in parts))
        reading = [part for part in parts if part.terms]
        if not reading:
            return cls.nothing(shape, parts[0].space)
        aligned = _align([part.expand(shape) for part in reading])
        if len(aligned) == 1:
            return aligned[0]
        return aligned[0]._with(merge(term for part in aligned for term in part.terms))

    @classmethod
    def cat(cls, parts: Sequence["Sources"], dim: int) -> "Sources":
        """Joins tensors along ``dim``."""
        dim = _positive(dim, len(parts[0].shape))
        total = sum(part.shape[dim] for part in parts)
        placed, start = [], 0
        for part in parts:
            positions = np.full((total, 1), -1)
            positions[start : start + part.shape[dim], 0] = np.arange(part.shape[dim])
            start += part.shape[dim]
            if part.terms:
                placed.append(part.take(dim, positions))
        if not placed:
            shape = [total if k == dim else size for k, size in enumerate(parts[0].shape)]
            return cls.nothing(shape, parts[0].space)
        aligned = _align(placed)
        # No two parts share an element, so no term can cover another's: uniting is all there is to do.
        return aligned[0]._with(tuple(unite(term for part in aligned for term in part.terms)))

    # What each element reads ------------------------------------------------------------------------------

    def take(self, dim: int, taps: Taps) -> "Sources":
        """Lets position i along ``dim`` read the positions ``taps[i]`` (-1: none)."""
        dim = _positive(dim, len(self.shape))
        size = len(taps)
        shape = (*self.shape[:dim], size, *self.shape[dim + 1 :])
        if not self.terms or 0 in shape:
            return Sources.nothing(shape, self.space)
        if taps.shape == (self.shape[dim], 1) and np.array_equal(taps[:, 0], np.arange(size)):
            return self
        source = self._one_atom(dim)
        axis = source._first_atom(dim)
        new_terms: Iterable[SourceTerm] = source.terms
        if not source.atoms[dim]:
            new_terms = [_insert_axes(term, axis, 1) for term in new_terms]
        new_terms = [piece for term in new_terms for piece in terms.take(term, axis, taps)]
        if size == 1:
            new_terms = [_drop_axis(term, axis) for term in new_terms]
        atoms = (*source.atoms[:dim], (size,) if size != 1 else (), *source.atoms[dim + 1 :])
        return Sources(shape, self.space, atoms, merge(new_terms))

    def everything_along(self, *dims: int) -> "Sources":
        """Lets each element read the whole of the axes ``dims``; the shape stays."""
        new_terms = self.terms
        for dim in dims:
            dim = _positive(dim, len(self.shape))
            first = self._first_atom(dim)
            for axis in range(first, first + len(self.atoms[dim])):
                if any(term.varies(axis) for term in new_terms):
                    pieces = [piece for term in new_terms for piece in terms.unite_along(term, axis)]
                    new_terms = merge(pieces)
        return self._with(new_terms)

    def up_to(self, dim: int) -> "Sources":
        """Lets each element read the positions along ``dim`` up to its own."""
        source = self._one_atom(_positive(dim, len(self.shape)))
        if not source.varies_along(dim):
            return self
        axis = source._first_atom(_positive(dim, len(self.shape)))
        return source._with(merge(piece for term in source.terms for piece in terms.accumulate_along(term, axis)))

    def reduce(self, dims: Iterable[int], keepdim: bool) -> "Sources":
        """Unites the axes ``dims`` and drops them, or keeps them with size 1."""
        dims = sorted({_positive(dim, len(self.shape)) for dim in dims})
        if not self.terms:
            sizes = [1 if k in dims else size for k, size in enumerate(self.shape)]
            reduced = Sources.nothing(sizes, self.space)
        else:
            reduced = self.everything_along(*dims)
            for dim in dims:
                reduced = reduced._narrow_to_one(dim)
        return reduced if keepdim else reduced.squeeze(dims)

    def keep(self, chosen: Bool[np.ndarray, "..."]) -> "Sources":
        """Keeps what the elements with true ``chosen`` (broadcast) read; the others read nothing."""
        flags = np.broadcast_to(chosen, self.shape).reshape([n for group in self.atoms for n in group])
        return self._with(merge(SourceTerm(term.sets, np.asarray(term.mask & flags)) for term in self.terms))

    # Shapes -----------------------------------------------------------------------------------------------

    def expand(self, shape: Sequence[int]) -> "Sources":
        """Broadcasts to ``shape``."""
        shape = tuple(shape)
        if shape == self.shape:
            return self
        source = self.reshape((1,) * (len(shape) - len(self.shape)) + self.shape)
        atoms, new_terms = list(source.atoms), source.terms
        for dim, size in enumerate(shape):
            if source.shape[dim] != size:
                axis = sum(map(len, atoms[:dim]))
                new_terms = tuple(_insert_axes(term, axis, 1) for term in new_terms)
                atoms[dim] = (size,)
        if 0 in shape:
            return Sources.nothing(shape, self.space)
        return Sources(shape, self.space, tuple(atoms), new_terms)

    def reshape(self, shape: Sequence[int]) -> "Sources":
        """The same elements in row-major order under another shape; one size may be -1."""
        shape = tuple(shape)
        if -1 in shape:
            rest = -prod(shape)
            shape = tuple(self.numel // rest if size == -1 else size for size in shape)
        if shape == self.shape:
            return self
        if 0 in shape or not self.terms:
            return Sources.nothing(shape, self.space)
        edits, atoms = regroup(tuple(size for group in self.atoms for size in group), shape)
        sizes = [size for group in self.atoms for size in group]
        new_terms = self.terms
        for edit in edits:
            new_terms = tuple(_edit_axes(term, edit, sizes) for term in new_terms)
            sizes[edit.start : edit.start + edit.count] = edit.sizes
        return Sources(shape, self.space, atoms, new_terms)

    def permute(self, order: Sequence[int]) -> "Sources":
        """Puts the axes in another order."""
        order = [_positive(dim, len(self.shape)) for dim in order]
        axes = [self._first_atom(dim) + k for dim in order for k in range(len(self.atoms[dim]))]
        shape = tuple(self.shape[dim] for dim in order)
        atoms = tuple(self.atoms[dim] for dim in order)
        if axes == sorted(axes):
            return Sources(shape, self.space, atoms, self.terms)
        moved = tuple(
            SourceTerm(tuple(sets.transpose(*axes, -1) for sets in term.sets), term.mask.transpose(axes))
            for term in self.terms
        )
        return Sources(shape, self.space, atoms, moved)

    def transpose(self, first: int, second: int) -> "Sources":
        """Swaps two axes."""
        order = list(range(len(self.shape)))
        order[first], order[second] = order[second], order[first]
        return self.permute(order)

    def move(self, source: int, destination: int) -> "Sources":
        """Moves one axis to another place."""
        order = list(range(len(self.shape)))
        destination = _positive(destination, len(order))
        order.insert(destination, order.pop(_positive(source, len(order))))
        return self.permute(order)

    def unsqueeze(self, dim: int) -> "Sources":
        """Adds an axis of size 1 before ``dim``."""
        dim = _positive(dim, len(self.shape) + 1)
        return self.reshape((*self.shape[:dim], 1, *self.shape[dim:]))

    def squeeze(self, dims: Iterable[int]) -> "Sources":
        """Drops those of the axes ``dims`` that have size 1."""
        drop = {dim for dim in (_positive(d, len(self.shape)) for d in dims) if self.shape[dim] == 1}
        return self.reshape([size for k, size in enumerate(self.shape) if k not in drop])

    # Questions --------------------------------------------------------------------------------------------

    def varies_along(self, dim: int) -> bool:
        """Whether two positions along ``dim`` can read different pixels."""
        dim = _positive(dim, len(self.shape))
        first = self._first_atom(dim)
        axes = range(first, first + len(self.atoms[dim]))
        return any(term.varies(axis) for term in self.terms for axis in axes)

    @cached_property
    def numel(self) -> int:
        """How many elements the tensor has."""
        return prod(self.shape)

    # Private ----------------------------------------------------------------------------------------------

    def _with(self, new_terms: tuple[SourceTerm, ...]) -> "Sources":
        return self if new_terms is self.terms else Sources(self.shape, self.space, self.atoms, new_terms)

    def _first_atom(self, dim: int) -> int:
        return sum(map(len, self.atoms[:dim]))

    def _one_atom(self, dim: int) -> "Sources":
        """The same with at most one atom on ``dim``."""
        return self._regrouped(dim, (self.shape[dim],)) if len(self.atoms[dim]) > 1 else self

    def _regrouped(self, dim: int, sizes: tuple[int, ...]) -> "Sources":
        if self.atoms[dim] == sizes:
            return self
        edit = Edit(self._first_atom(dim), len(self.atoms[dim]), sizes)
        flat = [size for group in self.atoms for size in group]
        atoms = (*self.atoms[:dim], sizes, *self.atoms[dim + 1 :])
        return Sources(self.shape, self.space, atoms, tuple(_edit_axes(term, edit, flat) for term in self.terms))

    def _narrow_to_one(self, dim: int) -> "Sources":
        """Gives an axis that nothing varies along the size 1."""
        new_terms: Iterable[SourceTerm] = self.terms
        for _ in self.atoms[dim]:
            new_terms = [_drop_axis(term, self._first_atom(dim)) for term in new_terms]
        shape = (*self.shape[:dim], 1, *self.shape[dim + 1 :])
        return Sources(shape, self.space, (*self.atoms[:dim], (), *self.atoms[dim + 1 :]), tuple(new_terms))


def _positive(dim: int, count: int) -> int:
    return dim + count if dim < 0 else dim


def _align(parts: list[Sources]) -> list[Sources]:
    """Gives tensors of one shape the same atoms."""
    if all(part.atoms == parts[0].atoms for part in parts):
        return parts
    for dim, size in enumerate(parts[0].shape):
        sizes: tuple[int, ...] | None = parts[0].atoms[dim]
        for part in parts[1:]:
            sizes = refine(sizes, part.atoms[dim]) if sizes is not None else None
        parts = [part._regrouped(dim, (size,) if sizes is None else sizes) for part in parts]
    return parts


def _map_arrays(term: SourceTerm, change: Callable[[np.ndarray], np.ndarray]) -> SourceTerm:
    return SourceTerm(tuple(change(sets) for sets in term.sets), change(term.mask))


def _insert_axes(term: SourceTerm, axis: int, count: int) -> SourceTerm:
    return _map_arrays(term, lambda a: a.reshape((*a.shape[:axis], *[1] * count, *a.shape[axis:])))


def _drop_axis(term: SourceTerm, axis: int) -> SourceTerm:
    return _map_arrays(term, lambda a: a.reshape((*a.shape[:axis], *a.shape[axis + 1 :])))


def _edit_axes(term: SourceTerm, edit: Edit, sizes: list[int]) -> SourceTerm:
    """Fuses and divides atoms of a term; arrays that do not depend on them stay small."""
    stop = edit.start + edit.count

    def change(array: np.ndarray) -> np.ndarray:
        before, middle, after = array.shape[: edit.start], array.shape[edit.start : stop], array.shape[stop:]
        if all(size == 1 for size in middle):
            return array.reshape((*before, *[1] * len(edit.sizes), *after))
        split = _divide_where_possible(middle, tuple(sizes[edit.start : stop]), edit.sizes)
        if split is not None:
            return array.reshape((*before, *split, *after))
        full = np.broadcast_to(array, (*before, *sizes[edit.start : stop], *after))
        return full.reshape((*before, *edit.sizes, *after))

    return _map_arrays(term, change)


def _divide_where_possible(held: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> list[int] | None:
    """The shape of an array over ``new`` atoms that still does not depend on what it did not depend on.

    Works where ``new`` only divides the ``old`` atoms; None where some are fused.
    """
    result: list[int] = []
    rest = list(new)
    for size, full in zip(held, old, strict=True):
        group: list[int] = []
        while prod(group) < full:
            group.append(rest.pop(0))
        if prod(group) != full:
            return None
        result += group if size > 1 else [1] * len(group)
    return result

"""Sets of pixel positions along one axis of the input, as bits packed into 64-bit words.

A set over an axis of ``length`` positions is a row of ``words(length)`` words: position ``i`` is bit
``i % 64`` of word ``i // 64``. Arrays of sets carry the words on their last axis, so that unions and
intersections of many sets at once are single NumPy operations. Gaps cost nothing, and nothing is rounded:
these sets are what makes a field exact where intervals would give only its hull.
"""

from collections.abc import Iterator

import numpy as np

from pixpnet.shapes import Bool, Int, UInt64

# One set for each element of an index of any shape, the words last.
Sets = UInt64[np.ndarray, "..."]
_Sets = UInt64[np.ndarray, "*index words"]


def words(length: int) -> int:
    """How many 64-bit words hold a set over ``length`` positions."""
    return -(-length // 64)


def singletons(length: int) -> UInt64[np.ndarray, "length words"]:
    """The sets {0}, {1}, ..., {length - 1}."""
    sets = np.zeros((length, words(length)), np.uint64)
    positions = np.arange(length)
    sets[positions, positions // 64] = np.uint64(1) << (positions % 64).astype(np.uint64)
    return sets


def sizes(sets: _Sets) -> Int[np.ndarray, "*index"]:
    """How many positions each set holds."""
    return np.asarray(np.bitwise_count(sets).sum(-1, dtype=np.int64))


def unpack(sets: _Sets, length: int) -> Bool[np.ndarray, "*index {length}"]:
    """Membership of every position, one boolean each."""
    octets = np.ascontiguousarray(sets).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=length, bitorder="little").astype(bool)


def spans(sets: _Sets, length: int) -> Int[np.ndarray, "*index 2"]:
    """The smallest interval ``start, stop`` around each set; ``0, 0`` for the empty set."""
    members = unpack(sets, length)
    start = members.argmax(-1)
    stop = length - members[..., ::-1].argmax(-1)
    empty = ~members.any(-1)
    return np.stack([np.where(empty, 0, start), np.where(empty, 0, stop)], axis=-1)


def is_subset(inner: Sets, outer: Sets) -> bool:
    """Whether each set of ``inner`` lies in its counterpart of ``outer`` (broadcast)."""
    return not (inner & ~outer).any()


def runs(members: Bool[np.ndarray, " length"]) -> Iterator[tuple[int, int]]:
    """The maximal intervals ``start, stop`` of a set given as booleans, in order.

    >>> list(runs(np.array([True, True, False, True])))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], members, [False])).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2):
        yield int(start), int(stop)

"""The shape of a binary tree: nodes that ask whether a prototype is found, and leaves. No numbers are learnt here.

*Found goes right* (ProtoTree). Node n asks for prototype n; the root is node 0. A child is the number of a node, or
``~leaf`` (a negative number) for a leaf. A tree of n nodes has n + 1 leaves, whatever was pruned.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

Inference = Literal["soft", "sample_max", "greedy"]
"""Which leaves count: all by their probability, the most probable one, or the one reached by likely turns only."""

DEEPEST = 12
"""Levels of a tree that are built or read; a deeper one has more nodes than anybody can follow."""
LEAST_DISTANCE = 1e-7
"""Keeps the log of not finding a prototype finite where it is found for certain; the published number."""
_HALF = 0.5


class Turn(NamedTuple):
    """One step on the way to a leaf: which node, and whether its prototype was found (right) or not (left)."""

    node: int
    present: bool


class Pruned(NamedTuple):
    """What is left of a tree: the new tree, and which nodes and leaves of the old one it has, in their new order."""

    tree: "BinaryTree"
    nodes: tuple[int, ...]
    leaves: tuple[int, ...]


@dataclass(frozen=True)
class BinaryTree:
    """Which node or leaf follows which.

    Attributes:
        children: of each node, the left one (not found) and the right one (found); nodes come after those they follow.

    Raises:
        ValueError: if that is no tree: every node but the root, and every leaf, follows exactly one node.

    >>> tree = BinaryTree.complete(2)
    >>> tree.children
    ((1, 2), (-1, -2), (-3, -4))
    >>> tree.path_to(3)
    (Turn(node=0, present=True), Turn(node=2, present=True))
    """

    children: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        nodes = len(self.children)
        following = sorted(child for pair in self.children for child in pair)
        later = all(child < 0 or child > node for node, pair in enumerate(self.children) for child in pair)
        # Each once, and each after the node that it follows: then all of them follow the root.
        if not nodes or not later or following != [*range(-nodes - 1, 0), *range(1, nodes)]:
            raise ValueError(f"{nodes} nodes do not follow one another as in a tree")

    @classmethod
    def complete(cls, depth: int) -> "BinaryTree":
        """All nodes of so many levels, numbered level by level."""
        return cls.filled(2**depth - 1)

    @classmethod
    def filled(cls, nodes: int) -> "BinaryTree":
        """So many nodes, numbered level by level, as shallow as can be."""

        def child(number: int) -> int:
            return number if number < nodes else ~(number - nodes)

        return cls(tuple((child(2 * node + 1), child(2 * node + 2)) for node in range(nodes)))

    @property
    def num_nodes(self) -> int:
        """How many nodes ask for a prototype."""
        return len(self.children)

    @property
    def num_leaves(self) -> int:
        """One more than there are nodes."""
        return len(self.children) + 1

    @cached_property
    def paths(self) -> tuple[tuple[Turn, ...], ...]:
        """The way from the root to each leaf."""
        paths: list[tuple[Turn, ...]] = [()] * self.num_leaves
        waiting: list[tuple[int, tuple[Turn, ...]]] = [(0, ())]
        while waiting:
            node, turns = waiting.pop()
            if node < 0:
                paths[~node] = turns
                continue
            left, right = self.children[node]
            waiting += [(left, (*turns, Turn(node, False))), (right, (*turns, Turn(node, True)))]
        return tuple(paths)

    def path_to(self, leaf: int) -> tuple[Turn, ...]:
        """The way from the root to a leaf."""
        return self.paths[leaf]

    @property
    def depth(self) -> int:
        """How many nodes the longest way asks."""
        return max(map(len, self.paths))

    @cached_property
    def by_height(self) -> tuple[tuple[int, ...], ...]:
        """Nodes whose children are known once those of the groups before are: the way from the leaves to the root.

        >>> BinaryTree.complete(2).by_height
        ((1, 2), (0,))
        """
        heights: dict[int, int] = {}
        for node in reversed(range(self.num_nodes)):
            heights[node] = 1 + max(heights.get(child, 0) for child in self.children[node])
        groups: list[list[int]] = [[] for _ in range(heights[0])]
        for node in range(self.num_nodes):
            groups[heights[node] - 1].append(node)
        return tuple(map(tuple, groups))

    def below(self, node: int) -> Iterator[int]:
        """A node or leaf, and everything that follows it."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            yield node
            if node >= 0:
                waiting += reversed(self.children[node])

    def leaves_below(self, node: int) -> tuple[int, ...]:
        """The leaves that follow a node (or the leaf itself), from left to right."""
        return tuple(~below for below in self.below(node) if below < 0)

    def greedy_leaf(self, probabilities: Sequence[float]) -> int:
        """The leaf that is reached by turning right wherever a prototype is found with a probability above one half."""
        node = 0
        while node >= 0:
            node = self.children[node][probabilities[node] > _HALF]
        return ~node

    def log_weights(self, log_present: Sequence[float]) -> list[float]:
        """The log of the probability to reach each leaf, from the logs of those to find each prototype."""
        weights = [0.0] * self.num_leaves
        waiting = [(0, 0.0)]
        while waiting:
            node, weight = waiting.pop()
            if node < 0:
                weights[~node] = weight
                continue
            left, right = self.children[node]
            log = min(log_present[node], -LEAST_DISTANCE)
            waiting += [(left, weight + math.log(-math.expm1(log))), (right, weight + log)]
        return weights

    def pruned(self, gone: Sequence[bool]) -> Pruned:
        """The tree without some leaves: where all below a node go, its sibling takes the place of their parent.

        The root is no exception: where one side of it goes, the other becomes the tree. Where all leaves would go, or
        all but one, the tree stays as it is: there would be nothing left to ask.

        Args:
            gone: which leaves go.
        """
        # What is left of every place, the deepest first (children come after their parents in `below`).
        left_of: dict[int, int | None] = {}
        for position in reversed(list(self.below(0))):
            if position < 0:
                left_of[position] = None if gone[~position] else position
                continue
            left, right = (left_of[child] for child in self.children[position])
            left_of[position] = position if left is not None and right is not None else right if left is None else left
        root = left_of[0]
        if root is None or root < 0:
            return Pruned(self, tuple(range(self.num_nodes)), tuple(range(self.num_leaves)))

        def children(node: int) -> tuple[int, int]:
            left, right = (left_of[child] for child in self.children[node])
            assert left is not None and right is not None
            return left, right

        # In their old order, in which every node comes after the one that it follows.
        nodes: list[int] = []
        leaves: list[int] = []
        waiting = [root]
        while waiting:
            position = waiting.pop()
            if position < 0:
                leaves.append(~position)
            else:
                nodes.append(position)
                waiting += reversed(children(position))
        nodes, leaves = sorted(nodes), sorted(leaves)
        number = {old: new for new, old in enumerate(nodes)} | {~old: ~new for new, old in enumerate(leaves)}
        tree = BinaryTree(tuple((number[left], number[right]) for left, right in map(children, nodes)))
        return Pruned(tree, tuple(nodes), tuple(leaves))

"""What the page about a tree is given: nodes and leaves as shots and words, from the root on."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pixpnet.explanation.record import Explanation
from pixpnet.model import PixPNet
from pixpnet.views.blocks import PrototypeBlock, prototype_block
from pixpnet.views.stock import Stock
from pixpnet.views.tree_figure import leaf_classes, leaf_words, tree_of

_OPEN_LEVELS = 3


@dataclass(frozen=True)
class TreeBlock:
    """A node with everything that follows it, or a leaf.

    Attributes:
        number: of the node or leaf.
        leaf: the classes that a leaf knows, in words; empty for a node.
        prototype: what the node looks for; None for a leaf, or where prototypes are not patches.
        present: what follows where the prototype is present.
        absent: what follows where it is not.
        nodes: how many nodes there are from here on.
        classes: names of the classes that the leaves from here on answer with, each once.
        open: whether the page shows what follows before anybody asks.
        images: names of the images whose paths lead here.
    """

    number: int
    leaf: str
    prototype: PrototypeBlock | None
    present: "TreeBlock | None"
    absent: "TreeBlock | None"
    nodes: int
    classes: tuple[str, ...]
    open: bool
    images: tuple[str, ...]


def tree_block(model: PixPNet, stock: Stock, explanations: Sequence[Explanation] = ()) -> TreeBlock:
    """A model's whole tree, with the paths of some explanations marked and open.

    Raises:
        NoTree: if it does not decide by one.
    """
    tree = tree_of(model)
    made: dict[int, TreeBlock] = {}
    passing: dict[int, list[str]] = defaultdict(list)
    for explanation in explanations:
        path = explanation.predicted.path
        if path is not None:
            for node in (*(turn.node for turn in tree.path_to(path.leaf)), ~path.leaf):
                passing[node].append(explanation.image)
    levels = {0: 0}
    for node in tree.below(0):
        if node >= 0:
            levels |= dict.fromkeys(tree.children[node], levels[node] + 1)
    for node in reversed(list(tree.below(0))):
        if node < 0:
            known = leaf_classes(model, ~node)
            made[node] = TreeBlock(
                ~node, leaf_words(known), None, None, None, 0, (known[0].class_name,), False, tuple(passing[node])
            )
            continue
        absent, present = (made[child] for child in tree.children[node])
        origin = None if model.origins is None else model.origins[node]
        made[node] = TreeBlock(
            number=node,
            leaf="",
            prototype=None if origin is None else prototype_block(model, stock, origin),
            present=present,
            absent=absent,
            nodes=1 + present.nodes + absent.nodes,
            classes=tuple(dict.fromkeys((*present.classes, *absent.classes))),
            open=levels[node] < _OPEN_LEVELS or bool(passing[node]),
            images=tuple(passing[node]),
        )
    return made[0]

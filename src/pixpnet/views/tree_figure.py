"""A whole tree on one sheet: the root on the left, leaves one below the other on the right; the sheet grows with them.

At each node stands what its prototype's cell saw. A solid line leads to what follows where the prototype is found, a
dashed one to what follows where it is not. The path of one image can be drawn over it.
"""

from dataclasses import dataclass

from matplotlib.figure import Figure

from pixpnet.colors import BLUE, GRID, INK, MUTED, VERMILION
from pixpnet.explanation.path_text import leaf_text
from pixpnet.explanation.record import Explanation
from pixpnet.model import PixPNet
from pixpnet.parts import BinaryTree
from pixpnet.views.pictures import cut_out
from pixpnet.views.prototypes import origin_pixels
from pixpnet.views.slide import DOTS, HEIGHT, SMALLEST, Slide
from pixpnet.views.words import percent

_MARGIN, _TOP, _LEVEL, _NODE, _NAME = 0.45, 1.5, 1.3, 0.62, 3.6
# Inches for a leaf; a sheet of many leaves is drawn closer, and printed at fewer dots: viewers open 200 inches at most.
_LEAF, _CLOSE_LEAF, _MANY_LEAVES, _MOST_LEAVES = 0.46, 0.3, 128, 600
_FEWER_DOTS = 90
_NARROWEST = 9.0
_LEAST_SHARE = 0.05  # of a class in a leaf that is named


class NoTree(ValueError):
    """A figure of a tree was asked for, and the model does not decide by one."""


@dataclass(frozen=True)
class LeafClass:
    """A class that a leaf knows, and what it gives to it."""

    class_name: str
    share: float


def tree_of(model: PixPNet) -> BinaryTree:
    """The tree by which a model decides.

    Raises:
        NoTree: if it decides otherwise.
    """
    tree = model.head.tree()
    if tree is None:
        raise NoTree(f"this model does not decide by a tree: {model.head.form}")
    return tree


def leaf_classes(model: PixPNet, leaf: int, most: int = 3) -> tuple[LeafClass, ...]:
    """The classes that a leaf gives most to: at least one, and more where they have a share worth naming."""
    leaves = model.head.leaves()
    assert leaves is not None
    shares, labels = leaves[leaf].sort(descending=True, stable=True)
    classes = [
        LeafClass(model.class_names[label], share)
        for share, label in zip(shares[:most].tolist(), labels[:most].tolist(), strict=True)
    ]
    return tuple(
        leaf_class for index, leaf_class in enumerate(classes) if not index or leaf_class.share >= _LEAST_SHARE
    )


def leaf_words(classes: tuple[LeafClass, ...]) -> str:
    """The classes of a leaf in one line.

    >>> leaf_words((LeafClass("jay", 0.9), LeafClass("wren", 0.1))).replace(chr(160), " ")
    'jay 90 %, wren 10 %'
    """
    return ", ".join(f"{leaf_class.class_name} {percent(leaf_class.share)}" for leaf_class in classes)


def tree_figure(model: PixPNet, explanation: Explanation | None = None) -> Figure:
    """Draws a model's tree, and the path of one image through it.

    Args:
        model: read from a run, so that it has pictures.
        explanation: of an image by this model, whose path is drawn.

    Raises:
        NoTree: if the model does not decide by a tree, or the explanation has no path.
        ValueError: if the tree has more leaves than a sheet holds.
    """
    tree = tree_of(model)
    if tree.num_leaves > _MOST_LEAVES:
        raise ValueError(
            f"{tree.num_leaves} leaves do not fit on a sheet, which holds {_MOST_LEAVES}: write a page to fold and "
            "zoom, --out tree.html"
        )
    leaf_height = _LEAF if tree.num_leaves <= _MANY_LEAVES else _CLOSE_LEAF
    path = None if explanation is None else explanation.predicted.path
    if explanation is not None and path is None:
        raise NoTree("this explanation is a sum, not a path: explain an image with a model that decides by a tree")
    order = {leaf: position for position, leaf in enumerate(tree.leaves_below(0))}
    width = max(_NARROWEST, 2 * _MARGIN + tree.depth * _LEVEL + _NAME)
    dots = DOTS if tree.num_leaves <= _MANY_LEAVES else _FEWER_DOTS
    slide = Slide(width, max(0.5 * HEIGHT, _TOP + tree.num_leaves * leaf_height + 0.4), dots)
    _heading(slide, model, tree, explanation, width - 2 * _MARGIN)
    turns = {} if path is None else dict(tree.path_to(path.leaf))
    heights: dict[int, float] = {~leaf: _TOP + (position + 0.5) * leaf_height for leaf, position in order.items()}
    levels = {0: 0}
    for position in tree.below(0):
        if position >= 0:
            levels |= dict.fromkeys(tree.children[position], levels[position] + 1)
    for position in reversed(list(tree.below(0))):
        if position >= 0:
            heights[position] = sum(heights[child] for child in tree.children[position]) / 2
    for node in range(tree.num_nodes):
        x, y = _MARGIN + levels[node] * _LEVEL, heights[node]
        for present, child in zip((False, True), tree.children[node], strict=True):
            taken = turns.get(node) is present
            end = _MARGIN + (levels[child] if child >= 0 else tree.depth) * _LEVEL
            corner = x + _NODE + 0.16
            points = [(x + _NODE, y), (corner, y), (corner, heights[child]), (end - 0.04, heights[child])]
            color = VERMILION if taken else BLUE if present else MUTED
            slide.line(points, color, dashed=not present, width=3 if taken else 1.1)
    for node in range(tree.num_nodes):
        _node(slide, model, node, _MARGIN + levels[node] * _LEVEL, heights[node], node in turns, leaf_height)
    for leaf in order:
        chosen = path is not None and path.leaf == leaf
        words = leaf_words(leaf_classes(model, leaf))
        x = _MARGIN + tree.depth * _LEVEL + 0.06
        slide.words(x, heights[~leaf] - 0.09, words, _NAME - 0.1, 10, VERMILION if chosen else INK, bold=chosen)
    return slide.figure


def _heading(slide: Slide, model: PixPNet, tree: BinaryTree, explanation: Explanation | None, across: float) -> None:
    title = f"{tree.num_nodes} nodes, {tree.num_leaves} leaves, {tree.depth} levels"
    if explanation is not None:
        title = f"{explanation.predicted.class_name}: the path of {explanation.image}"
    slide.words(_MARGIN, 0.3, title, across, 18, bold=True)
    about = "At each node: what its prototype's cell saw. Solid: where it is found. Dashed: where it is not."
    y = slide.paragraph(_MARGIN, 0.72, about, across, 10.5, MUTED, lines=2)
    if explanation is not None and explanation.predicted.path is not None:
        slide.paragraph(_MARGIN, y, leaf_text(explanation.predicted, explanation.predicted.path), across, 10.5, lines=2)


def _node(slide: Slide, model: PixPNet, node: int, x: float, y: float, on_path: bool, leaf_height: float) -> None:
    origin = None if model.origins is None else model.origins[node]
    pixels = None if origin is None else cut_out(origin_pixels(model, origin), origin.boxes)
    side = min(_NODE, 2 * leaf_height - 0.2)  # two leaves, less the number above the picture
    if pixels is not None:
        slide.picture(pixels, x, y - side / 2, side)
    else:
        slide.rule(x, y - side / 2, side, GRID, side)
    slide.words(
        x + 0.02, y - side / 2 - 0.16, str(node), _NODE, SMALLEST, VERMILION if on_path else MUTED, bold=on_path
    )

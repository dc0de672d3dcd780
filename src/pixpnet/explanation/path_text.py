"""How a path through a tree is told: one wording for terminal, notebook, figures and pages."""

from pixpnet.class_names import printable
from pixpnet.explanation.record import ClassExplanation, Explanation, TreePath
from pixpnet.wording import called, percent, probability

_HALF = 0.5
NOT_FOUND = (
    "A proof is about the nearest part alone. That a prototype was not found rests on the whole image: no other part "
    "was nearer."
)
"""What must stand beside every path on which something was not found."""


def turn_text(path: TreePath, number: int) -> str:
    """Which way a path turns at a node, and with which probability; a turn below one half was the less likely one.

    >>> path = TreePath(0, (True, False), (0.97, 0.25), 0.2425, 1.0, "jay", soft=True)
    >>> turn_text(path, 0), turn_text(path, 1)
    ('found 97 %', 'not found 25 % (unlikely)')
    """
    return short_turn_text(path, number) + (" (unlikely)" if unlikely(path, number) else "")


def short_turn_text(path: TreePath, number: int) -> str:
    """`turn_text` without the word for a less likely turn, for where that has a line of its own."""
    return f"{'found' if path.present[number] else 'not found'} {percent(path.probabilities[number])}"


def unlikely(path: TreePath, number: int) -> bool:
    """Whether a path turns the less likely way at a node, as paths of a soft tree may."""
    return path.probabilities[number] < _HALF


def leaf_text(explained: ClassExplanation, path: TreePath) -> str:
    """Where the path ends, and how much of the answer that is."""
    name, leaf_class = printable(explained.class_name), printable(path.leaf_class)
    leaf = f"Leaf {path.leaf} gives {name} {percent(path.leaf_probability)}"
    if path.leaf_class != explained.class_name:
        leaf += f", and most to {leaf_class}"
    if not path.soft:
        return f"{leaf}. It is the only leaf that counts."
    return (
        f"{leaf}. The path to it has {percent(path.weight)} of the answer; {percent(path.not_shown)} belong to other "
        f"leaves, which are not shown. All leaves together give {name} {probability(explained.share)}."
    )


def other_answers_text(explanation: Explanation) -> str:
    """What other readings of the same tree would answer; empty where there are none."""
    name = explanation.predicted.class_name
    others = [
        f"{printable(answer.rule)} {'agrees' if answer.class_name == name else f'says {printable(answer.class_name)}'}"
        for answer in explanation.other_answers
    ]
    return f"Other readings of the same scores: {', '.join(others)}." if others else ""


def parting_text(predicted: ClassExplanation, other: ClassExplanation) -> str:
    """Why not another class: where its path parts from that of the answer.

    Raises:
        ValueError: if one of them has no path.
    """
    if predicted.path is None or other.path is None:
        raise ValueError("paths part where there are paths, and this explanation has sums")
    mine, theirs = printable(predicted.class_name), printable(other.class_name)
    start = f"Why not {theirs}? It gets {probability(other.share)}, {mine} {probability(predicted.share)}."
    if predicted.path.leaf == other.path.leaf:
        leaf = "The leaf that gives it most is the same" if other.path.soft else "The only leaf that counts is the same"
        return f"{start} {leaf}: it gives it {percent(other.path.leaf_probability)}."
    for number, (term, their_term) in enumerate(zip(predicted.terms, other.terms, strict=False)):
        present = predicted.path.present[number]
        if term.prototype == their_term.prototype and present != other.path.present[number]:
            return (
                f"{start} The path to the leaf that gives it most parts from this one at "
                f"{called(term.prototype, term.name)}: "
                f"{turn_text(predicted.path, number)} here, {'not found' if present else 'found'} there."
            )
    return start


def not_found_text(explanation: Explanation) -> str:
    """`NOT_FOUND` where a shown path has such a turn; else empty."""
    paths = [explained.path for explained in explanation.classes if explained.path is not None]
    return NOT_FOUND if any(not all(path.present) for path in paths) else ""

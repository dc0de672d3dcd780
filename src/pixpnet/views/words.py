"""How views say things: one wording for numbers, sums and proofs, so that none claims more than another."""

from collections.abc import Sequence
from dataclasses import dataclass

from pixpnet import wording
from pixpnet.explanation.certainty import probability_words
from pixpnet.explanation.path_text import turn_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Proof, Sight, Term
from pixpnet.explanation.text import choice_text, score_text

CLAIM = (
    "The similarity of a cell depends on the pixels of its region and on nothing else. "
    "Which cell gives the score is decided among all cells, so the score may move when other pixels change, because "
    "another cell may win."
)
SEES_EVERYTHING = (
    "Every cell of this model sees the whole image, so there is no part to outline: "
    "a small box would claim what is not so."
)


@dataclass(frozen=True)
class Listing:
    """The terms of a class that are shown, and what is left.

    Attributes:
        shown: the first terms.
        left: how many are not shown.
        rest: the sum of those.
        constant: what is added for every image.
    """

    shown: tuple[Term, ...]
    left: int
    rest: float
    constant: float


def listing(explained: ClassExplanation, most: int) -> Listing:
    """At most so many terms of a class; the rest is one sum."""
    hidden = explained.terms[most:]
    rest = explained.rest - explained.constant + sum(term.contribution for term in hidden)
    return Listing(explained.terms[:most], len(hidden) + explained.rest_terms, rest, explained.constant)


def number(value: float) -> str:
    """A score for people: two decimals, and a real minus sign.

    >>> number(-0.5), number(-0.001)
    ('−0.50', '0.00')
    """
    words = f"{value:.2f}"
    words = words.removeprefix("-") if float(words) == 0 else words
    return words.replace("-", "−")


def deviation(value: float) -> str:
    """How far something moved: an exact nought is said as such, and nothing else is.

    >>> deviation(0.0), deviation(0.0000012), deviation(0.731), deviation(12.34)
    ('0', '1.2e-06', '0.731', '12.3')
    """
    return f"{value:.3g}" if value else "0"


def percent(share: float) -> str:
    r"""`pixpnet.wording.percent` that stays on one line.

    >>> percent(0.274)
    '27.4\xa0%'
    """
    return _unbroken(wording.percent(share))


def change(share: float) -> str:
    r"""By how much something fell, which may be below 0, as a percentage that stays on one line.

    >>> change(0.1274), change(-0.0005), change(0.0)
    ('12.7\xa0%', '-0.05\xa0%', '0\xa0%')
    """
    return _unbroken(f"{100 * share:.3g} %" if abs(share) >= 1e-5 else "0 %")


def probability(share: float) -> str:
    """`pixpnet.wording.probability` that stays on one line."""
    return _unbroken(wording.probability(share))


def _unbroken(words: str) -> str:
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def proof_words(proof: Proof) -> str:
    """What the test of a term found, in a few words."""
    if not proof.tested:
        return "nothing outside to test"
    moved = deviation(proof.field.largest_deviation)
    return f"held, moved {moved}" if proof.passed else f"failed, moved {moved}"


def sight_words(explanation: Explanation) -> str:
    """What the cells can see, in a sentence."""
    if explanation.sees_everything:
        return SEES_EVERYTHING
    if len(explanation.sights) == 1:
        return _seen(explanation.sight)
    seen = (
        f"{grid_name(explanation.sights, number)} {percent(sight.mean_fraction)} ({percent(sight.max_fraction)})"
        for number, sight in enumerate(explanation.sights)
    )
    return f"What a cell sees of the image on average (at most): {', '.join(seen)}."


def score_words(explanation: Explanation) -> str:
    """What a score rests on beside the similarity of its cell, and how terms were chosen; empty where there is none."""
    score = "" if explanation.score_note is None else score_text(explanation.score_note)
    choice = "" if explanation.choice_note is None else choice_text(explanation.choice_note)
    return " ".join(filter(None, (score, choice)))


def grid_name(sights: Sequence[Sight], number: int) -> str:
    """What to call a grid, where there are several: its layer, or its number.

    >>> sight = Sight((14, 14), 0.15, 0.2, 0.0, "layer2")
    >>> grid_name([sight, sight], 0), grid_name([Sight((7, 7), 0.4, 0.5, 0.0)] * 2, 1)
    ('layer2', 'grid 2 of 2')
    """
    return sights[number].layer or f"grid {number + 1} of {len(sights)}"


def grid_words(explanation: Explanation, term: Term) -> str:
    """Which grid a term's cell is from, and what its cells see on average; empty where there is one grid."""
    if len(explanation.sights) == 1:
        return ""
    return f"{grid_name(explanation.sights, term.grid)} ({percent(explanation.sight_of(term).mean_fraction)})"


def share_words(explanation: Explanation) -> str:
    """How sure the model says it is, with what that number is."""
    return probability_words(explanation, explanation.predicted)


def adds_words(explained: ClassExplanation, index: int) -> str:
    """What a term does for its class: what it adds to the logit, or which way a tree turned at its node."""
    path = explained.path
    return number(explained.terms[index].contribution) if path is None else turn_text(path, index)


def prototype_words(term: Term, explained: ClassExplanation) -> str:
    """Which prototype it is, and of which class where that is not the explained one; those of a tree are of none."""
    elsewhere = term.class_name and term.label != explained.label and explained.path is None
    return f"{wording.called(term.prototype, term.name)}{f' of {term.class_name}' if elsewhere else ''}"


def _seen(sight: Sight) -> str:
    some = f" {percent(sight.everything)} of the cells see the whole image." if sight.everything else ""
    mean, most = percent(sight.mean_fraction), percent(sight.max_fraction)
    return f"A cell sees {mean} of the image on average, at most {most}.{some}"


def same_region(terms: Sequence[Term]) -> tuple[tuple[int, ...], ...]:
    """Places of terms that have one region, together, in order of first appearance.

    Two prototypes often find their best patch in the same cell; their region is drawn once.
    """
    groups: dict[object, list[int]] = {}
    for index, term in enumerate(terms):
        groups.setdefault(term.region, []).append(index)
    return tuple(tuple(places) for places in groups.values())

"""How views say things: one wording for numbers, sums and proofs, so that none claims more than another."""

from collections.abc import Sequence
from dataclasses import dataclass

from pixpnet.explanation.record import ClassExplanation, Proof, Sight, Term

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
        rest: the sum of what is not shown.
    """

    shown: tuple[Term, ...]
    left: int
    rest: float


def listing(explained: ClassExplanation, most: int) -> Listing:
    """At most so many terms of a class; the rest is one sum."""
    hidden = explained.terms[most:]
    rest = explained.rest + sum(term.contribution for term in hidden)
    return Listing(explained.terms[:most], len(hidden) + explained.rest_terms, rest)


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
    r"""A share for people; 100 % and 0 % only where it is all or nothing.

    >>> percent(1.0), percent(0.9999), percent(0.274), percent(0.0)
    ('100\xa0%', '99.9\xa0%', '27.4\xa0%', '0\xa0%')
    """
    words = f"{share:.0%}" if share in (0, 1) else f"{min(max(100 * share, 0.1), 99.9):.1f}%"
    return words.replace("%", "\N{NO-BREAK SPACE}%")


def proof_words(proof: Proof) -> str:
    """What the test of a term found, in a few words."""
    if not proof.tested:
        return "nothing outside to test"
    moved = deviation(proof.field.largest_deviation)
    return f"held, moved {moved}" if proof.passed else f"failed, moved {moved}"


def sight_words(sight: Sight) -> str:
    """What the cells can see, in a sentence."""
    if sight.everything == 1:
        return SEES_EVERYTHING
    some = f" {percent(sight.everything)} of the cells see the whole image." if sight.everything else ""
    mean, most = percent(sight.mean_fraction), percent(sight.max_fraction)
    return f"A cell sees {mean} of the image on average, at most {most}.{some}"


def same_region(terms: Sequence[Term]) -> tuple[tuple[int, ...], ...]:
    """Places of terms that have one region, together, in order of first appearance.

    Two prototypes often find their best patch in the same cell; their region is drawn once.
    """
    groups: dict[object, list[int]] = {}
    for place, term in enumerate(terms):
        groups.setdefault(term.region, []).append(place)
    return tuple(tuple(places) for places in groups.values())

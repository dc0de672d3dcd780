"""An explanation in two sentences and three parts, for a terminal; `text` has all of it."""

from collections.abc import Iterator

from pixpnet.class_names import printable
from pixpnet.explanation.certainty import doubt_text, probability_words
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.explanation.path_text import turn_text
from pixpnet.explanation.quality import matters_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Term
from pixpnet.explanation.text import WIDTH, location, share_of, shortened, shortened_path, wrapped
from pixpnet.wording import called, percent, probability

SHOWN = 3
"""Parts that are told; more would not be read."""


def brief_text(explanation: Explanation) -> str:
    """What `print(explanation)` shows."""
    best = explanation.predicted
    rows = [_row(explanation, best, number) for number in range(min(SHOWN, len(best.terms)))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    warned = doubt_text(explanation)
    lines = [*(wrapped(warned) if warned else ()), *wrapped(_answer(explanation)), *wrapped(_meaning(explanation)), ""]
    likeness = "looks like" if best.path is None else "nearest to"
    for row, term in zip(rows, best.terms, strict=False):
        matters = matters_text(term.qualities)
        start = "  " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) + "  "
        lines.append(f"{start}{likeness} {looks_like(term, WIDTH - len(start) - len(likeness) - 1)}")
        if matters:
            lines.append(" " * len(start) + matters)
    lines += ["", *wrapped(" ".join(filter(None, (_rest(best), *_tested(explanation)))))]
    return "\n".join(lines)


def looks_like(term: Term, room: int | None = None) -> str:
    """What a term's prototype is: a part of a training image, by the name of the part where it is known.

    Args:
        term: of an explanation.
        room: letters; where they do not suffice, the image's path is shortened. None for as many as it takes.

    >>> from pixpnet.box import Box
    >>> looks_like(Term(7, 0, "jay", 1.0, 2.0, 0.1, 2.0, (0, 0), (Box(0, 0, 4, 4),), None, None, None))
    'prototype 7, which is no training patch'
    """
    if term.origin is None:
        return f"{called(term.prototype, term.name)}, which is no training patch"
    # What a person calls it says more than annotated points.
    parts = f"{parts_words(term)} in " if term.parts and not term.name else ""
    start = f"{called(term.prototype, term.name)}: {parts}"
    image = printable(term.origin.image)
    return start + (image if room is None else shortened_path(image, room - len(start)))


def parts_words(term: Term) -> str:
    """The annotated parts that a prototype shows, at most two; empty where none are known."""
    return " and ".join(term.parts[:2])


def _answer(explanation: Explanation) -> str:
    best = explanation.predicted
    image = shortened(printable(explanation.image), WIDTH // 2)
    sentence = f"{image}: {printable(best.class_name)}, {probability_words(explanation, best)}"
    others = explanation.classes[1:]
    if others:
        runner = others[0]
        sentence += f"; {printable(runner.class_name)} gets {probability(explanation.probability(runner))}"
    return f"{sentence}."


def _meaning(explanation: Explanation) -> str:
    best = explanation.predicted
    name = printable(best.class_name)
    if best.path is not None:
        return f"Its tree asked for {len(best.terms)} prototypes on the way to {name}, from the root on:"
    if explanation.sees_everything:
        return (
            f"Every cell sees the whole picture, so no part can be pointed at. These prototypes speak most for {name}:"
        )
    return f"These parts speak most for {name}; each is exactly what its cell looked at, as rows and columns of pixels:"


def _row(explanation: Explanation, explained: ClassExplanation, number: int) -> tuple[str, ...]:
    term = explained.terms[number]
    value = f"{term.contribution:+.2f}" if explained.path is None else turn_text(explained.path, number)
    part = f"{location(term.region)} ({percent(share_of(term.region, explanation.size))})"
    return str(number + 1), value, part


def _rest(explained: ClassExplanation) -> str:
    shown, hidden = explained.terms[:SHOWN], len(explained.terms) - SHOWN + explained.rest_terms
    if explained.path is not None:
        more = f"{hidden} more on the way. " if hidden > 0 else ""
        gives = percent(explained.path.leaf_probability)
        return f"{more}The leaf gives it {gives}. All of it: --all, or details() in Python."
    rest = explained.logit - sum(term.contribution for term in shown)
    sums = []
    if hidden > 0:
        sums.append(f"{hidden} more part{' adds' if hidden == 1 else 's add'} {rest - explained.constant:.2f}")
    if explained.constant:
        sums.append(f"{explained.constant:.2f} are for every image")
    more = f" ({', and '.join(sums)})" if sums else ""
    return f"The sum is the logit {explained.logit:.2f}{more}. All of it: --all, or details() in Python."


def _tested(explanation: Explanation) -> Iterator[str]:
    proofs = [term.proof for explained in explanation.classes for term in explained.terms if term.proof]
    if not proofs:
        return
    tested = [proof for proof in proofs if proof.tested]
    held = sum(proof.passed for proof in tested)
    if not tested:
        yield "Nothing could be tested: there is nothing outside the parts."
        return
    yield (
        f"Tested, with every pixel outside a part changed: {held} of {len(tested)} claims hold"
        f"{'.' if held == len(tested) else ', and the others FAIL.'}"
    )
    yield deciding_text(explanation)

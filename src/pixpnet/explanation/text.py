"""An explanation in words, for a terminal of 100 columns."""

from collections.abc import Iterator, Sequence

from pixpnet.box import Box
from pixpnet.explanation.contrast import Contrast
from pixpnet.explanation.record import ClassExplanation, Explanation, Proof, Sight, Term
from pixpnet.fields.table import percent

WIDTH = 100
_PADDING = "padding only"
_GAPS = "*"


def text_of(explanation: Explanation) -> str:
    """What `print(explanation)` shows."""
    lines = [_headline(explanation), ""]
    for explained in explanation.classes:
        lines += [*_class_lines(explanation, explained), ""]
    lines += [*(line for each in explanation.classes[1:] for line in contrast_lines(explanation, each)), ""]
    lines += [*_notes(explanation), *sight_lines(explanation.sight)]
    return "\n".join(line.rstrip() for line in lines)


def printable(text: str) -> str:
    """Without what a terminal would obey: names of files and classes come from others.

    >>> printable("jay" + chr(27) + "[2J")
    'jay?[2J'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def place(region: Sequence[Box]) -> str:
    """Rows and columns of a region as ``y0:y1, x0:x1`` of its hull; a star where only a part of that is meant.

    >>> place([Box(0, 4, 8, 12)]), place([Box(0, 0, 1, 1), Box(2, 0, 3, 1)]), place([])
    ('0:8, 4:12', '0:3, 0:1*', 'padding only')
    """
    if not region:
        return _PADDING
    tops, lefts, bottoms, rights = zip(*region, strict=True)
    return f"{min(tops)}:{max(bottoms)}, {min(lefts)}:{max(rights)}{_GAPS if len(region) > 1 else ''}"


def share_of(region: Sequence[Box], size: tuple[int, int]) -> float:
    """The share of an image's pixels that disjoint boxes hold, 0 to 1."""
    return sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in region) / (size[0] * size[1])


def sight_lines(sight: Sight) -> list[str]:
    """What the cells can see, and what follows for boxes."""
    rows, cols = sight.cells
    mean, most = percent(sight.mean_fraction), percent(sight.max_fraction)
    if sight.everything == 1.0:
        return [
            f"Each of the {rows} x {cols} cells sees the whole picture: no small box can be drawn, because each",
            "similarity depends on the whole picture.",
        ]
    lines = [f"Each of the {rows} x {cols} cells sees on average {mean} of the picture, at most {most}."]
    if sight.everything > 0:
        lines.append(
            f"{percent(sight.everything)} of the cells see the whole picture: for those no small box can be drawn."
        )
    lines += [
        "A cell's similarity depends on the pixels of its part and on nothing else. The score is the maximum",
        "over cells, and may move when other pixels change: another cell may win.",
    ]
    return lines


def proof_sentence(proof: Proof) -> str:
    """The result of one proof in a few words."""
    moved = "by nothing" if proof.field.largest_deviation == 0 else f"by {proof.field.largest_deviation:.1e}"
    return f"holds: moved {moved}" if proof.passed else f"FAILS: moved {moved}"


def contrast_lines(explanation: Explanation, other: ClassExplanation) -> list[str]:
    """Why it is not another class, in two or three lines."""
    found: Contrast = explanation.why_not(other.label)
    mine, theirs = printable(found.predicted.class_name), printable(other.class_name)
    steps = " ".join(f"{pair.difference:+.2f}" for pair in found.pairs)
    if found.predicted.rest_terms or other.rest_terms:
        steps += f" {found.rest:+.2f} (the rest)"
    lines = [f"Why not {theirs}? Its logit is {found.difference:.2f} lower than that of {mine}; term by term,"]
    return [*lines, *_wrapped(f"strongest against strongest: {steps}", "  ")]


def _headline(explanation: Explanation) -> str:
    best = explanation.predicted
    return _fitted(
        f"{printable(explanation.image)}: {printable(best.class_name)}",
        f"  (logit {best.logit:.2f}; softmax {percent(best.share)}, no calibrated probability)",
    )


def _class_lines(explanation: Explanation, explained: ClassExplanation) -> Iterator[str]:
    what = "scores" if explanation.head == "class_sum" else "weighted scores"
    rest = f", and {explained.rest:.2f} from {explained.rest_terms} more" if explained.rest_terms else ""
    name = printable(explained.class_name)
    yield _fitted(name, f": logit {explained.logit:.2f}, the sum of {len(explained.terms)} {what}{rest}")
    yield from _table(_rows(explanation, explained))


def _rows(explanation: Explanation, explained: ClassExplanation) -> Iterator[tuple[str, ...]]:
    weighted = explanation.head != "class_sum"
    proven = any(term.proof is not None for term in explained.terms)
    sums = ("weight x score",) if weighted else ("score",)
    yield (*sums, "this part", "of it", *(("proof",) if proven else ()), "looks like that part of a training image")
    for term in explained.terms:
        number = f"{term.contribution:.2f}"
        if weighted:
            number = f"{term.weight:.2f} x {term.score:.2f} = {number}"
        where = (place(term.region), percent(share_of(term.region, explanation.size)))
        proof = (proof_sentence(term.proof) if term.proof else "",) if proven else ()
        yield (number, *where, *proof, _origin(term, explained.label))


def _origin(term: Term, label: int) -> str:
    owner = "" if term.label == label else f" ({printable(term.class_name)})"
    if term.origin is None:
        return f"prototype {term.prototype}, which is no training patch{owner}"
    return f"{place(term.origin.boxes)} of {printable(term.origin.image)}{owner}"


def _table(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as they must be; the last one is cut where the terminal ends."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        *front, last = row
        start = "  " + "  ".join(
            text.rjust(width) if position in (0, 2) else text.ljust(width)
            for position, (text, width) in enumerate(zip(front, widths[:-1], strict=True))
        )
        yield _fitted(f"{start}  {last}", "")


def _notes(explanation: Explanation) -> Iterator[str]:
    terms = [term for explained in explanation.classes for term in explained.terms]
    yield f"Parts are rows y0:y1 and columns x0:x1 of the {explanation.size[0]} x {explanation.size[1]} pixels that "
    yield f"{printable(explanation.model)} saw; in the file's pixels: explanation.in_source(region)."
    regions = [term.region for term in terms] + [term.origin.boxes for term in terms if term.origin]
    if any(len(region) > 1 for region in regions):
        yield f"{_GAPS} with gaps: the part does not fill these rows and columns."
    positive, both = explanation.explanation_size
    yield f"Elements to read for one class: {positive} (positive reasoning), {both} (positive and negative)."
    proofs = [term.proof for term in terms if term.proof]
    if proofs:
        yield from _proof_notes(proofs)


def _proof_notes(proofs: list[Proof]) -> Iterator[str]:
    held = sum(proof.passed for proof in proofs)
    upsampled = sum(proof.upsampling.passed for proof in proofs)
    worst = max(proof.upsampling.largest_deviation for proof in proofs)
    first = proofs[0]
    yield (
        f"Proof: {held} of {len(proofs)} claims hold. Every pixel outside the part was changed in {first.draws} ways, "
    )
    yield f"and the cell's distance stayed within {first.tolerance:.1e}."
    yield (
        f"Changing the part itself moved its cell's similarity by up to {max(proof.inside for proof in proofs):.2f}; "
        "changing"
    )
    yield f"the rest moved a score by up to {max(proof.score_outside for proof in proofs):.2f} (another cell won)."
    yield (
        f"The box of the upsampled map holds what its cell sees for {upsampled} of {len(proofs)}; outside it, changes"
    )
    yield f"moved a similarity by up to {worst:.2f}."


def _fitted(name: str, fact: str) -> str:
    """A line that ends at the terminal's edge: the name gives way, the fact stays."""
    room = WIDTH - len(fact)
    return (name if len(name) <= room else name[: room - 1] + "…") + fact


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")

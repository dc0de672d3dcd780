"""All of an explanation in words, for a terminal of 100 columns; `brief` has the short form."""

import textwrap
from collections.abc import Iterator, Sequence

from pixpnet.box import Box, hull
from pixpnet.class_names import printable
from pixpnet.explanation.certainty import calibration_words, doubt_text, probability_words
from pixpnet.explanation.contrast import Contrast
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.explanation.path_text import leaf_text, not_found_text, other_answers_text, parting_text, turn_text
from pixpnet.explanation.quality import qualities_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Proof, Sight, Term
from pixpnet.wording import aligned, called, percent, probability

WIDTH = 100
_PADDING = "padding only"
_CLAIM = (
    "A cell's similarity depends on the pixels of its part and on nothing else. Which cell gives the score is decided "
    "among all cells, so the score may move when other pixels change, because another cell may win."
)
_GAPS = "*"


def text_of(explanation: Explanation) -> str:
    """Every term, every class, and what was tested."""
    warned = doubt_text(explanation)
    lines = [_headline(explanation), "", *((*wrapped(warned), "") if warned else ())]
    for explained in explanation.classes:
        lines += [*_class_lines(explanation, explained), ""]
    for other in explanation.classes[1:]:
        lines += [*wrapped(contrast_text(explanation, other)), ""]
    terms = [term for explained in explanation.classes for term in explained.terms]
    if any(term.proof for term in terms):
        lines += [*wrapped(proofs_text([term.proof for term in terms if term.proof])), ""]
    for sentence in filter(
        None, (deciding_text(explanation), other_answers_text(explanation), not_found_text(explanation))
    ):
        lines += [*wrapped(sentence), ""]
    if explanation.certainty is not None:
        lines += wrapped(calibration_words(explanation.certainty))
    for sentence in (*_notes(explanation, terms), *sight_text(explanation)):
        lines += wrapped(sentence)
    return "\n".join(lines)


def location(region: Sequence[Box]) -> str:
    """Rows and columns of a region as ``y0:y1, x0:x1`` of its hull; a star where only a part of that is meant.

    >>> location([Box(0, 4, 8, 12)]), location([Box(0, 0, 1, 1), Box(2, 0, 3, 1)]), location([])
    ('0:8, 4:12', '0:3, 0:1*', 'padding only')
    """
    around = hull(region)
    if around is None:
        return _PADDING
    y0, x0, y1, x1 = around
    return f"{y0}:{y1}, {x0}:{x1}{_GAPS if len(region) > 1 else ''}"


def share_of(region: Sequence[Box], size: tuple[int, int]) -> float:
    """The share of an image's pixels that disjoint boxes hold, 0 to 1."""
    return sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in region) / (size[0] * size[1])


def sight_text(explanation: Explanation) -> Iterator[str]:
    """What the cells can see, and what follows for boxes and scores."""
    several = len(explanation.sights) > 1
    for number, sight in enumerate(explanation.sights):
        prefix = f"{_grid_name(number, sight)}: " if several else ""
        yield prefix + _seen(sight) + ("" if several or sight.everything == 1.0 else f" {_CLAIM}")
    if several and not explanation.sees_everything:
        yield _CLAIM
    if explanation.score_note is not None:
        yield score_text(explanation.score_note)


def score_text(note: str) -> str:
    """What a score rests on beside the similarity of its cell, as a sentence.

    >>> score_text("the mean similarity of all cells is subtracted")
    'A score is more than the similarity of its cell: the mean similarity of all cells is subtracted.'
    """
    return f"A score is more than the similarity of its cell: {note.rstrip('.')}."


def choice_text(note: str) -> str:
    """How the prototypes were chosen that speak, as a sentence.

    >>> choice_text("of the 20 prototypes of a class the 10 speak whose scores are largest")
    'Of the 20 prototypes of a class the 10 speak whose scores are largest.'
    """
    return f"{note[:1].upper()}{note[1:]}."


def also_text(term: Term) -> str:
    """The other classes that a term's prototype speaks for; empty where there are none."""
    return f"also of {', '.join(term.also)}" if term.also else ""


def _seen(sight: Sight) -> str:
    cells = f"{sight.cells[0]} x {sight.cells[1]} cells"
    if sight.everything == 1.0:
        return (
            f"Each of the {cells} sees the whole picture: no small box can be drawn, because every similarity may "
            "depend on every pixel."
        )
    mean, most = percent(sight.mean_fraction), percent(sight.max_fraction)
    some = ""
    if sight.everything > 0:
        some = f" {percent(sight.everything)} of them see the whole picture: for those no small box can be drawn."
    moved = "" if sight.note is None else f" That is said {sight.note.rstrip('.')}."
    return f"Of {cells}, one sees {mean} of the picture on average, at most {most}.{moved}{some}"


def _grid_name(number: int, sight: Sight) -> str:
    return f"Grid {number + 1}" + (f" ({printable(sight.layer)})" if sight.layer else "")


def proof_result(proof: Proof) -> str:
    """One proof in two words: whether the claim holds, and how far the cell's similarity moved."""
    if not proof.tested:
        return "nothing outside"
    moved = f"{proof.field.largest_deviation:.2g}"
    return f"holds ({moved})" if proof.passed else f"FAILS ({moved})"


def proofs_text(proofs: Sequence[Proof]) -> str:
    """The results of all proofs of an explanation in a few sentences."""
    first = proofs[0]
    tested = [proof for proof in proofs if proof.tested]
    untested = len(proofs) - len(tested)
    lines = ["Proof:"]
    if tested:
        tolerances = [proof.tolerance for proof in tested]
        held, score = sum(proof.passed for proof in tested), max(proof.score_outside for proof in tested)
        ends = dict.fromkeys(f"{end:.1e}" for end in (min(tolerances), max(tolerances)))
        allowed = " to ".join(ends)
        lines.append(
            f"{held} of {len(tested)} claims hold. Every pixel outside a part was changed in {first.draws} ways "
            f"(noise, one colour, {first.pictures}); a claim holds if the distance at its cell stays within "
            f"{allowed} (in brackets: how far the similarity moved). A score, for which another "
            f"cell may win, moved by up to {score:.2f} when the rest changed."
        )
    if untested:
        lines.append(f"For {untested} of {len(proofs)} terms the part is the whole picture: nothing could be tested.")
    upsampled = sum(not proof.upsampling.passed for proof in proofs)
    worst = max(proof.upsampling.largest_deviation for proof in proofs)
    lines.append(
        f"Changing the part itself moved a cell's similarity by up to {max(proof.inside for proof in proofs):.2f}. "
        f"The same test of the box that upsampling draws fails for {upsampled} of {len(proofs)}: the similarity moved "
        f"by up to {worst:.2f}."
    )
    return " ".join(lines)


def contrast_text(explanation: Explanation, other: ClassExplanation) -> str:
    """Why it is not another class."""
    if other.path is not None:
        return parting_text(explanation.predicted, other)
    contrast: Contrast = explanation.why_not(other.label)
    mine, theirs = printable(contrast.predicted.class_name), printable(other.class_name)
    steps = " ".join(f"{pair.difference:+.2f}" for pair in contrast.pairs)
    if contrast.rest or contrast.predicted.rest_terms or other.rest_terms:
        steps += f", and {contrast.rest:+.2f} from the rest"
    return (
        f"Why not {theirs}? Its logit is {contrast.difference:.2f} lower than that of {mine}. Term by term, strongest "
        f"against strongest, {mine} is ahead by: {steps}."
    )


def _headline(explanation: Explanation) -> str:
    best = explanation.predicted
    measure = f"logit {best.logit:.2f}; " if best.path is None else ""
    fact = f": {printable(best.class_name)}  ({measure}{probability_words(explanation, best)})"
    return shortened(printable(explanation.image), WIDTH - len(fact)) + fact


def rest_text(explained: ClassExplanation) -> str:
    """What is added to the listed terms; empty where nothing is."""
    more = (
        f", and {explained.rest - explained.constant:.2f} from {explained.rest_terms} more"
        if explained.rest_terms
        else ""
    )
    return more + (f", and {explained.constant:.2f} for every image" if explained.constant else "")


def _class_lines(explanation: Explanation, explained: ClassExplanation) -> Iterator[str]:
    scores = "weighted scores" if explanation.weighted else "scores"
    name = printable(explained.class_name)
    if explained.path is not None:
        yield f"{name}: {probability(explained.share)}, by this path of {len(explained.terms)} nodes"
        yield from _table(_rows(explanation, explained))
        yield from wrapped(leaf_text(explained, explained.path))
        yield from _qualities(explained)
        return
    yield f"{name}: logit {explained.logit:.2f}, the sum of {len(explained.terms)} {scores}{rest_text(explained)}"
    yield from _table(_rows(explanation, explained))
    yield from _qualities(explained)


def _qualities(explained: ClassExplanation) -> Iterator[str]:
    """What each part is made of, where that was measured."""
    measured = [term for term in explained.terms if term.qualities]
    if not measured:
        return
    yield ""
    yield from wrapped(
        "What the parts are made of: by how much the similarity of a part's cell falls when only this quality of the "
        "part's pixels is changed. Falls do not add up, and changed pictures are none that a camera took."
    )
    rows = [(str(term.prototype), qualities_text(term.qualities)) for term in measured]
    for line in aligned([("prototype", "falls by"), *rows], right=(0,)):
        yield f"  {line}"


def _rows(explanation: Explanation, explained: ClassExplanation) -> Iterator[tuple[str, ...]]:
    weighted, several = explanation.weighted, len(explanation.sights) > 1
    proven = any(term.proof is not None for term in explained.terms)
    path = explained.path
    yield (
        "prototype" if path is not None else "weight x score" if weighted else "score",
        "nearest part" if path is not None else "this part",
        "share",
        *(("grid",) if several else ()),
        *(("proof",) if proven else ()),
        "looks like that part of a training image" if path is None else "looked for, in a training image",
    )
    for turn, term in enumerate(explained.terms):
        number = f"{term.contribution:.2f}"
        if path is not None:
            number = f"{term.prototype} {turn_text(path, turn)}"
        elif weighted:
            number = f"{term.weight:.2f} x {term.score:.2f} = {number}"
        region = (location(term.region), percent(share_of(term.region, explanation.size)))
        grid = (str(term.grid + 1),) if several else ()
        proof = (proof_result(term.proof) if term.proof else "",) if proven else ()
        yield (number, *region, *grid, *proof, _origin(term, explained.label))


def _origin(term: Term, label: int) -> str:
    classes = [] if term.label == label or not term.class_name else [term.class_name]
    if term.also:
        classes.append(also_text(term))
    owner = f" ({printable(', '.join(classes))})" if classes else ""
    if term.origin is None:
        return f"{called(term.prototype, term.name)}, which is no training patch{owner}"
    parts = f" ({', '.join(term.parts[:2])})" if term.parts else ""
    name = f"{printable(term.name)}: " if term.name else ""
    return f"{name}{location(term.origin.boxes)}{parts} of {printable(term.origin.image)}{owner}"


def _table(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as they must be; the last one is cut where the terminal ends."""
    cells = list(rows)
    # A mark at the end of each line keeps the blanks that the last column follows.
    for start, row in zip(aligned([(*row[:-1], "|") for row in cells], right=(0, 2)), cells, strict=True):
        yield f"  {start[:-1]}{shortened(row[-1], WIDTH - len(start) - 1)}"


def _notes(explanation: Explanation, terms: Sequence[Term]) -> Iterator[str]:
    height, width = explanation.size
    yield (
        f"Parts are rows y0:y1 and columns x0:x1 of the {height} x {width} pixels that {printable(explanation.model)} "
        "saw; in the file's pixels: explanation.in_source(region)."
    )
    if any(len(region) > 1 for term in terms for region in (term.region, term.origin.boxes if term.origin else ())):
        yield f"{_GAPS} with gaps: the part does not fill these rows and columns."
    if explanation.choice_note is not None:
        yield choice_text(explanation.choice_note)
    positive, both = explanation.explanation_size
    yield f"Elements to read for one class: {positive} (positive reasoning), {both} (positive and negative)."


def shortened(text: str, room: int) -> str:
    """What fits, without the middle: files differ most at their ends."""
    room = max(room, 16)
    return text if len(text) <= room else f"{text[: room // 2 - 1]}…{text[-(room - room // 2) :]}"


def shortened_path(path: str, room: int) -> str:
    """What fits of a file's path: its folders go first.

    >>> [shortened_path("train/jays/jay_0005.jpg", room) for room in (23, 22, 16)]
    ['train/jays/jay_0005.jpg', '…/jay_0005.jpg', '…/jay_0005.jpg']
    """
    if len(path) <= room:
        return path
    name = f"…/{path.rsplit('/', 1)[-1]}"
    return name if len(name) <= room else shortened(name.removeprefix("…/"), room)


def wrapped(text: str) -> list[str]:
    """Lines of a terminal's width."""
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)

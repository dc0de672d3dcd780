"""What the templates of pages are given: explanations and prototypes as shots and words, ready to be printed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pixpnet.box import hull
from pixpnet.colors import REGIONS
from pixpnet.explanation import ClassExplanation, Explanation, Term
from pixpnet.explanation.brief import SHOWN, parts_words
from pixpnet.explanation.certainty import doubt_text
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.explanation.path_text import leaf_text, not_found_text, other_answers_text
from pixpnet.explanation.quality import matters_text, qualities_text
from pixpnet.explanation.text import also_text, share_of
from pixpnet.model import Origin, PixPNet
from pixpnet.views.pictures import image_pixels, prototype_pixels
from pixpnet.views.prototypes import cell_words, origin_pixels, origins_of
from pixpnet.views.stock import Mark, Shot, Stock
from pixpnet.views.tags import tag_places
from pixpnet.views.words import (
    SEES_EVERYTHING,
    adds_words,
    deviation,
    grid_words,
    listing,
    number,
    percent,
    probability,
    proof_words,
    prototype_words,
    same_region,
    score_words,
    share_words,
    sight_words,
)
from pixpnet.wording import called

_MOST = 20  # terms of one class


@dataclass(frozen=True)
class TermBlock:
    """One addend: this part, like that part, from there.

    Attributes:
        number: its number on the page, from 1.
        group: which outline of the image is its region.
        style: colour of that outline.
        this_part: what the cell sees; None where it sees only padding.
        that_part: what the prototype's cell saw; None where that is not known.
        source: the prototype's training image.
        contribution: what it adds; of a path, which way the tree turned.
        product: weight times score, where there are weights; else empty.
        prototype: which one, and of which class where it is another.
        also: other classes that it speaks for; else empty.
        grid: whose cell it is, where there are several; else empty.
        parts: annotated parts that the prototype shows; else empty.
        sees: share of the image that the cell sees.
        large: whether it is one of the first, which are shown large; nodes of a path are all alike.
        origin: id of the training image.
        held: whether the proof held; None without one, or where nothing could be tested.
        proof: what it found, in short.
        matters: which of its qualities its similarity rests on most; empty where that was not measured.
        qualities: how far the similarity falls with each.
    """

    number: int
    group: int
    style: int
    this_part: Shot | None
    that_part: Shot | None
    source: Shot
    contribution: str
    product: str
    prototype: str
    also: str
    grid: str
    parts: str
    sees: str
    large: bool
    origin: str
    held: bool | None
    proof: str
    matters: str
    qualities: str


@dataclass(frozen=True)
class ProofBlock:
    """What the test of one term found: how far similarities moved; `held` is None where nothing could be tested."""

    number: int
    held: bool | None
    outside: str
    inside: str
    upsampling: str
    score: str


@dataclass(frozen=True)
class ClassBlock:
    """Why a class got its logit.

    `path` is the sentence about the leaf, where a tree decided; empty where a sum did.
    """

    class_name: str
    logit: str
    share: str
    path: str
    image: Shot
    terms: tuple[TermBlock, ...]
    shown: str
    left: int
    rest: str
    rest_counts: bool
    constant: str
    proofs: tuple[ProofBlock, ...]
    draws: int


@dataclass(frozen=True)
class ExplanationBlock:
    """One explained image.

    Attributes:
        image: its name.
        share: how sure it says it is, and what that number is.
        model: in a few words.
        sight: what the cells can see.
        score_note: what a score rests on beside the similarity of its cell; empty where nothing.
        verdict: right, wrong, or unknown where the true class is not known.
        truth: the true class, where it is known.
        predicted: why.
        others: why not.
        readings: what other readings of the same scores answer, and what not finding rests on; empty for a sum.
        deciding: which scores decide, where that was asked for; else empty.
        doubt: that the image looks like nothing known; empty where there is no doubt.
    """

    image: str
    share: str
    model: str
    sight: str
    score_note: str
    verdict: Literal["right", "wrong", "unknown"]
    truth: str
    predicted: ClassBlock
    others: tuple[ClassBlock, ...]
    readings: str
    deciding: str
    doubt: str


@dataclass(frozen=True)
class PrototypeBlock:
    """One prototype in its training image."""

    number: int
    source: Shot
    part: Shot | None
    name: str
    image: str
    cell: str
    moved: str


def explanation_block(explanation: Explanation, stock: Stock, truth: str | None = None) -> ExplanationBlock:
    """An explanation for the page.

    Args:
        explanation: what to show.
        stock: takes in its pictures.
        truth: name of the true class, where it is known.
    """
    predicted, *others = (_class_block(explanation, explained, stock) for explained in explanation.classes)
    name = explanation.predicted.class_name
    return ExplanationBlock(
        image=explanation.image,
        share=share_words(explanation),
        model=explanation.model,
        sight=sight_words(explanation),
        score_note=score_words(explanation),
        verdict="unknown" if truth is None else "right" if truth == name else "wrong",
        truth=truth or "",
        predicted=predicted,
        others=tuple(others),
        deciding=deciding_text(explanation),
        doubt=doubt_text(explanation),
        readings=" ".join(filter(None, (other_answers_text(explanation), not_found_text(explanation)))),
    )


def prototype_blocks(model: PixPNet, stock: Stock, label: int) -> tuple[PrototypeBlock, ...]:
    """The prototypes of a class; none where prototypes are not patches."""
    return tuple(prototype_block(model, stock, origin) for origin in origins_of(model, label))


def _class_block(explanation: Explanation, explained: ClassExplanation, stock: Stock) -> ClassBlock:
    listed = listing(explained, _MOST)
    picture = stock.picture(image_pixels(explanation))
    groups = same_region(listed.shown)
    alt = f"The image {explanation.image}"
    marks: Sequence[Mark] = ()
    if explanation.sees_everything:
        alt += f". {SEES_EVERYTHING}"
    else:
        alt += f" with the regions of the {len(listed.shown)} terms for {explained.class_name}"
        marks = _marks(explanation, listed.shown, groups, stock)
    group_of = {index: group for group, places in enumerate(groups) for index in places}
    return ClassBlock(
        class_name=explained.class_name,
        logit=number(explained.logit),
        share=probability(explained.share),
        path="" if explained.path is None else leaf_text(explained, explained.path),
        image=stock.whole(picture, alt, marks),
        terms=tuple(
            _term_block(explanation, explained, term, index, group_of[index], stock)
            for index, term in enumerate(listed.shown)
        ),
        shown=number(sum(term.contribution for term in listed.shown)),
        left=listed.left,
        rest=number(listed.rest),
        rest_counts=listed.left > 0 or abs(listed.rest) >= 0.005,
        constant=number(listed.constant) if listed.constant else "",
        proofs=_proof_blocks(listed.shown),
        draws=max((term.proof.draws for term in listed.shown if term.proof is not None), default=0),
    )


def _proof_blocks(terms: Sequence[Term]) -> tuple[ProofBlock, ...]:
    return tuple(
        ProofBlock(
            number=index,
            held=term.proof.passed if term.proof.tested else None,
            outside=deviation(term.proof.field.largest_deviation) if term.proof.tested else "nothing outside",
            inside=deviation(term.proof.inside),
            upsampling=deviation(term.proof.upsampling.largest_deviation),
            score=deviation(term.proof.score_outside),
        )
        for index, term in enumerate(terms, start=1)
        if term.proof is not None
    )


def _marks(
    explanation: Explanation, terms: Sequence[Term], groups: Sequence[Sequence[int]], stock: Stock
) -> tuple[Mark, ...]:
    """The outlines of terms, with their numbers where they do not cover one another."""
    letter = explanation.size[1] / 24  # the width of a digit, in pixels of the image
    drawn = [
        (group, places)
        for group, places in enumerate(groups)
        if terms[places[0]].region and explanation.sight_of(terms[places[0]]).everything < 1
    ]
    words = [" ".join(str(index + 1) for index in places) for _, places in drawn]
    regions = [terms[places[0]].region for _, places in drawn]
    hulls = [around for region in regions if (around := hull(region)) is not None]
    tops = tag_places(hulls, [((len(text) + 0.9) * letter, 1.75 * letter) for text in words], explanation.size)
    return tuple(
        Mark(
            outline=stock.outline(region),
            style=group % len(REGIONS),
            group=group,
            words=text,
            x=x,
            y=y,
            width=(len(text) + 0.9) * letter,
            height=1.75 * letter,
            dashed=group >= len(REGIONS),
        )
        for (group, _), region, text, (x, y) in zip(drawn, regions, words, tops, strict=True)
    )


def _term_block(
    explanation: Explanation, explained: ClassExplanation, term: Term, index: int, group: int, stock: Stock
) -> TermBlock:
    everything = explanation.sight_of(term).everything == 1
    image = stock.picture(image_pixels(explanation))
    training = stock.picture(prototype_pixels(term, explanation.size))
    boxes = () if term.origin is None else term.origin.boxes
    style = group % len(REGIONS)
    mark = [] if everything or not boxes else [Mark(stock.outline(boxes), style, group)]
    where = "the training image" if term.origin is None else f"the training image {term.origin.image}"
    return TermBlock(
        number=index + 1,
        large=index < SHOWN and explained.path is None,
        group=group,
        style=style,
        this_part=stock.part(image, term.region, f"This part: the region of term {index + 1}"),
        that_part=stock.part(training, boxes, f"That part: what {called(term.prototype, term.name)} saw"),
        source=stock.whole(training, f"Prototype {term.prototype} in {where}", mark),
        contribution=adds_words(explained, index),
        product=f"{number(term.weight)} × {number(term.score)}" if explanation.weighted else "",
        prototype=prototype_words(term, explained),
        also=also_text(term),
        grid=grid_words(explanation, term),
        parts=parts_words(term),
        sees=percent(share_of(term.region, explanation.size)),
        origin="" if term.origin is None else term.origin.image,
        held=None if term.proof is None or not term.proof.tested else term.proof.passed,
        proof="" if term.proof is None else proof_words(term.proof),
        matters=matters_text(term.qualities),
        qualities=qualities_text(term.qualities),
    )


def prototype_block(model: PixPNet, stock: Stock, origin: Origin) -> PrototypeBlock:
    """One prototype in its training image."""
    picture = stock.picture(origin_pixels(model, origin))
    everything = model.fields[origin.grid].sees_everything
    mark = [] if everything or not origin.boxes else [Mark(stock.outline(origin.boxes), 0, 0)]
    return PrototypeBlock(
        number=origin.prototype,
        source=stock.whole(picture, f"Prototype {origin.prototype} in the training image {origin.image}", mark),
        part=None if everything else stock.part(picture, origin.boxes, f"What prototype {origin.prototype} saw"),
        name=model.names.get(origin.prototype, ""),
        image=origin.image,
        cell=cell_words(model, origin),
        moved=deviation(origin.distance),
    )

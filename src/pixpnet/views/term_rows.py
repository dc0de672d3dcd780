"""Terms of a class on a slide: the three that count most large, the rest small, each beside what it looks like."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from pixpnet.colors import GREEN_TEXT, GRID, INK, MUTED, REGIONS, VERMILION_TEXT
from pixpnet.explanation.brief import SHOWN, parts_words
from pixpnet.explanation.quality import matters_text, mostly_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Proof, Term
from pixpnet.explanation.text import also_text, share_of
from pixpnet.views.pictures import GRAY, cut_out, image_pixels, prototype_pixels
from pixpnet.views.slide import SMALLEST, Heat, Slide
from pixpnet.views.words import (
    grid_words,
    listing,
    number,
    percent,
    proof_words,
    prototype_words,
    same_region,
)

_SHOWNST_SIDE, _WORDS, _GAP = 1.45, 1.5, 0.06
_SMALL_SIDE, _SMALL_WIDTH, _SMALL_HEIGHT, _MOST_SMALL = 0.44, 1.02, 0.72, 7
_TAG, _LINE, _THUMBNAIL = 0.32, 0.168, 0.54


@dataclass(frozen=True)
class Room:
    """Where a column stands on a slide, in inches."""

    x: float
    y: float
    width: float
    bottom: float


def term_rows(
    slide: Slide, explanation: Explanation, explained: ClassExplanation, room: Room, heat: Sequence[Heat] | None
) -> None:
    """Draws the terms of a class and their sum.

    Args:
        slide: to draw on.
        explanation: of the image.
        explained: the class.
        room: where.
        heat: maps to show in the place of what the cells of the large terms saw.
    """
    across = int(room.width // _SMALL_WIDTH)
    listed = listing(explained, SHOWN + min(across, _MOST_SMALL))
    large, small = listed.shown[:SHOWN], listed.shown[SHOWN:]
    styles = {index: style for style, group in enumerate(same_region(large)) for index in group}
    top, foot = room.y + 0.24, room.bottom - 0.42
    end = foot - (_SMALL_HEIGHT + 0.1 if small else 0.0)
    height = (end - top) / SHOWN
    wide = room.width > 6
    pictures = 3 if wide else 2
    side = min(height - 0.12, _SHOWNST_SIDE, (room.width - _TAG - _WORDS) / pictures - _GAP)
    first = "heat map" if heat is not None else "this part"
    for column, name in enumerate((first, "looks like", "from here")[:pictures]):
        slide.words(room.x + _TAG + column * (side + _GAP), room.y, name, side, SMALLEST, MUTED)
    for index, term in enumerate(large):
        row_room = Room(room.x, top + index * height, room.width, top + (index + 1) * height)
        row = _Row(explanation, explained, term, index, styles[index], side, wide)
        row.draw(slide, row_room, None if heat is None else heat[index])
    for index, term in enumerate(small):
        _small(slide, explanation, term, SHOWN + index, room.x + index * _SMALL_WIDTH, end + 0.08)
    slide.rule(room.x, foot + 0.04, room.width, GRID)
    parts = f"{number(sum(term.contribution for term in listed.shown))} shown"
    if listed.left:
        parts += f", and {listed.left} more, sum {number(listed.rest)}"
    elif abs(listed.rest) >= 0.005:
        parts += f", rest {number(listed.rest)}"
    if listed.constant:
        parts += f", and {number(listed.constant)} for every image"
    slide.words(room.x, foot + 0.14, parts, room.width - 1.65, 10, MUTED)
    logit = f"logit {number(explained.logit)}"
    slide.words(room.x + room.width - 1.6, foot + 0.12, logit, 1.6, 13, bold=True, align="right")


@dataclass(frozen=True)
class _Row:
    """One large term."""

    explanation: Explanation
    explained: ClassExplanation
    term: Term
    index: int
    style: int
    side: float
    wide: bool

    def draw(self, slide: Slide, room: Room, heat: Heat | None) -> None:
        """This part, the part it looks like, where that is from, and what it adds."""
        x, y, side, term = room.x, room.y, self.side, self.term
        color = REGIONS[self.style % len(REGIONS)]
        everything = self.explanation.sight_of(term).everything == 1
        slide.tag(x, y, str(self.index + 1), self.style)
        pictures = x + _TAG
        image = image_pixels(self.explanation)
        if heat is not None:
            shown = slide.picture(image, pictures, y, side, heat)
            if not everything:
                slide.outline(shown, term.region, color, width=1.4)
            slide.peak(shown, heat)
        else:
            slide.picture(or_gray(cut_out(image, term.region)), pictures, y, side)
        source = prototype_pixels(term, self.explanation.size)
        boxes = () if term.origin is None else term.origin.boxes
        slide.picture(or_gray(cut_out(source, boxes)), pictures + side + _GAP, y, side)
        words = pictures + 2 * (side + _GAP)
        if self.wide:
            context, thumbnail = words, side
            words += side + _GAP
        else:
            context, thumbnail = x + room.width - _THUMBNAIL, _THUMBNAIL
        source_placement = slide.picture(source, context, y, thumbnail)
        if not everything:
            slide.outline(source_placement, boxes, color, width=1.4)
        self._words(slide, words + 0.04, y, x + room.width, room.bottom, 0.0 if self.wide else thumbnail + 0.05)

    def _words(self, slide: Slide, x: float, y: float, right: float, bottom: float, thumbnail: float) -> None:
        adds = slide.words(x, y - 0.02, number(self.term.contribution), right - x - thumbnail, 13, bold=True)
        if self.wide and (grid := grid_words(self.explanation, self.term)):
            start = x + slide.width_of(adds.get_text(), adds.get_fontproperties()) + 0.1
            slide.words(start, y + 0.03, grid, right - start, SMALLEST, MUTED)
        for index, (line, ink) in enumerate(self._lines()[: max(1, int((bottom - y - 0.24) / _LINE))]):
            top = y + 0.23 + _LINE * index
            beside = thumbnail if top < y + _THUMBNAIL else 0.0
            slide.words(x, top, line, right - x - beside, SMALLEST, ink)

    def _lines(self) -> list[tuple[str, str]]:
        """What is said of it, the most needed first."""
        term, explanation = self.term, self.explanation
        lines: list[tuple[str, str]] = []
        if explanation.weighted:
            lines.append((f"= {number(term.weight)} × {number(term.score)}", INK))
        lines.append((prototype_words(term, self.explained), MUTED))
        if term.parts:
            lines.append((parts_words(term) if self.wide else term.parts[0], INK))
        if not term.region:
            lines.append(("sees padding only", MUTED))
        else:
            lines.append((f"sees {percent(share_of(term.region, explanation.size))}", MUTED))
        if term.proof is not None:
            lines.append(proof_line(term.proof))
        if term.qualities:
            lines.append((matters_text(term.qualities) if self.wide else mostly_text(term.qualities), INK))
        if not self.wide and (grid := grid_words(explanation, term)):
            lines.append((grid, MUTED))
        if term.also:
            lines.append((also_text(term), MUTED))
        if term.origin is not None:
            lines.append((term.origin.image.rsplit("/", 1)[-1], MUTED))
        return lines


def _small(slide: Slide, explanation: Explanation, term: Term, index: int, x: float, y: float) -> None:
    """A term of less weight: the pair, its number, and what it adds."""
    source = prototype_pixels(term, explanation.size)
    boxes = () if term.origin is None else term.origin.boxes
    slide.words(x, y, f"{index + 1}", 0.3, SMALLEST, INK, bold=True)
    left = x + (0.2 if index < 9 else 0.27)
    width = x + _SMALL_WIDTH - 0.04 - left
    adds, name = number(term.contribution), f"#{term.prototype}"
    # The prototype's number is what a reader looks it up by, so digits of the contribution go first.
    shorter = [f"{term.contribution:.{digits}f} {name}".replace("-", "−") for digits in (1, 0)]
    words = slide.first_that_fits([f"{adds} · {name}", f"{adds} {name}", *shorter, name], width, SMALLEST)
    slide.words(left, y, words, width, SMALLEST, MUTED)
    slide.picture(or_gray(cut_out(image_pixels(explanation), term.region)), x, y + 0.2, _SMALL_SIDE)
    slide.picture(or_gray(cut_out(source, boxes)), x + _SMALL_SIDE + 0.03, y + 0.2, _SMALL_SIDE)


def proof_line(proof: Proof) -> tuple[str, str]:
    """What the test of a term found, and the ink that says whether that is good."""
    if not proof.tested:
        return proof_words(proof), MUTED
    mark, ink = ("✓", GREEN_TEXT) if proof.passed else ("✗", VERMILION_TEXT)
    return f"{mark} {proof_words(proof)}", ink


def or_gray(pixels: UInt8[np.ndarray, "height width 3"] | None) -> UInt8[np.ndarray, "height width 3"]:
    """A gray square where there is nothing to show."""
    return np.full((4, 4, 3), GRAY, np.uint8) if pixels is None else pixels

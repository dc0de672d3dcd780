"""The paper's explanation figure: this part of the image looks like that part of a training image, and the sum.

One slide. On the left the image with the numbered regions of the terms; beside it, term by term, what the cell saw,
what the prototype's own cell saw, where that was in its training image, and what the term adds to the logit.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from pixpnet.box import hull
from pixpnet.explanation.path_text import leaf_text, not_found_text, other_answers_text, short_turn_text, unlikely
from pixpnet.explanation.record import ClassExplanation, Explanation, Term
from pixpnet.explanation.text import also_text
from pixpnet.mapping.scene import Heatmaps
from pixpnet.views.colors import GREEN_TEXT, GRID, INK, MUTED, REGIONS, VERMILION_TEXT
from pixpnet.views.pictures import GRAY, cut_out, image_pixels, prototype_pixels
from pixpnet.views.slide import HEIGHT, SMALLEST, WIDTH, Heat, Placement, Slide
from pixpnet.views.tags import tag_places
from pixpnet.views.words import (
    grid_words,
    listing,
    number,
    proof_words,
    prototype_words,
    same_region,
    score_words,
    share_words,
    sight_words,
)

_MARGIN, _TOP, _BOTTOM, _GAP = 0.45, 1.5, HEIGHT - 0.4, 0.35
_WORDS = 2.2  # inches of a row that are not pictures
_ALONE, _BESIDE = 10, 6  # terms that fit on a slide: of one class, of each of two


def explanation_figure(explanation: Explanation, heatmaps: Heatmaps | None = None, shown: str = "") -> Figure:
    """Draws why the model answered as it did; beside it, where a second class is explained, why not that one.

    Args:
        explanation: what to draw; the regions of the first two explained classes are shown.
        heatmaps: of the predicted class's terms, in their order, laid over the image in the place of the crops.
        shown: what the heat maps show, which depends on how they were made; said on the figure.
    """
    if heatmaps is not None and len(heatmaps.maps) != len(explanation.predicted.terms):
        raise ValueError(
            f"{len(heatmaps.maps)} heat maps for {len(explanation.predicted.terms)} terms: ask `heatmaps` for the "
            "prototypes of the predicted class's terms, in their order"
        )
    slide = Slide()
    _heading(slide, explanation)
    classes = explanation.classes[:2]
    side = 3.55 if len(classes) == 1 else 2.45
    left = _MARGIN + max(side, 2.9) + _GAP
    y = _TOP
    for index, explained in enumerate(classes):
        y = _image(slide, explanation, explained, y, side, "" if len(classes) == 1 else ("why", "why not")[index])
    width = (WIDTH - _MARGIN - left - _GAP) / 2
    heat = None if heatmaps is None else [np.asarray(heatmap.cpu(), dtype=np.float64) for heatmap in heatmaps.maps]
    if len(classes) == 1:
        _column(slide, explanation, classes[0], left, 2 * width + _GAP, _ALONE, heat)
    else:
        _column(slide, explanation, classes[0], left, width, _BESIDE, heat)
        _column(slide, explanation, classes[1], left + width + _GAP, width, _BESIDE, None)
    made = f"Heat maps: {shown}." if shown and heatmaps is not None else ""
    notes = "  ·  ".join(filter(None, (made, not_found_text(explanation))))
    slide.words(_MARGIN, HEIGHT - 0.3, notes, WIDTH - 2 * _MARGIN, SMALLEST, MUTED)
    return slide.figure


def _heading(slide: Slide, explanation: Explanation) -> None:
    predicted = explanation.predicted
    across = WIDTH - 2 * _MARGIN
    slide.words(_MARGIN, 0.26, predicted.class_name, across, 24, bold=True)
    about = f"{share_words(explanation)}  ·  {explanation.model}"
    slide.words(_MARGIN, 0.75, f"{about}  ·  {explanation.image}", across, 10.5, MUTED)
    slide.words(_MARGIN, 0.95, sight_words(explanation), across, 10.5, MUTED)
    notes = "  ·  ".join(filter(None, (score_words(explanation), other_answers_text(explanation))))
    slide.words(_MARGIN, 1.15, notes, across, 10.5, MUTED)


def _image(
    slide: Slide, explanation: Explanation, explained: ClassExplanation, y: float, side: float, caption: str
) -> float:
    """The image with the regions of a class's terms, and their numbers."""
    if caption:
        slide.words(_MARGIN, y - 0.02, f"{caption} {explained.class_name}", 2.9, 10, bold=True)
        y += 0.22
    place = slide.picture(image_pixels(explanation), _MARGIN, y, side)
    if not explanation.sees_everything:
        shown = listing(explained, _ALONE if len(explanation.classes) == 1 else _BESIDE).shown
        groups = same_region(shown)
        outlined = [
            (style, places)
            for style, places in enumerate(groups)
            if explanation.sight_of(shown[places[0]]).everything < 1
        ]
        for style, places in reversed(outlined):
            region = shown[places[0]].region
            slide.outline(place, region, REGIONS[style % len(REGIONS)], dashed=style >= len(REGIONS))
        _tags(slide, place, shown, outlined, explanation.size)
    return y + place.height + 0.14


def _tags(
    slide: Slide,
    place: Placement,
    terms: Sequence[Term],
    outlined: Sequence[tuple[int, Sequence[int]]],
    size: tuple[int, int],
) -> None:
    """The numbers of terms on their regions, which are given by their styles and places."""
    drawn = [
        (style, " ".join(str(term + 1) for term in places), around)
        for style, places in outlined
        if (around := hull(terms[places[0]].region)) is not None
    ]
    sizes = [slide.tag_size(words) for _, words, _ in drawn]
    pixels = [((width + 0.02) / place.scale, (height + 0.02) / place.scale) for width, height in sizes]
    tops = tag_places([around for _, _, around in drawn], pixels, size)
    for (style, words, _), (x, y) in zip(drawn, tops, strict=True):
        slide.tag(place.x + x * place.scale, place.y + y * place.scale, words, style)


def _column(
    slide: Slide,
    explanation: Explanation,
    explained: ClassExplanation,
    x: float,
    width: float,
    most: int,
    heat: Sequence[Heat] | None,
) -> None:
    """The terms of a class and their sum, or the nodes of a path and its leaf."""
    listed = listing(explained, most)
    slide.words(x, _TOP - 0.02, explained.class_name, width, 12, bold=True)
    slide.rule(x, _TOP + 0.27, width, INK)
    columns = 2 if most == _ALONE and len(listed.shown) > 3 else 1
    rows = max(1, -(-len(listed.shown) // columns))
    top, foot = _TOP + 0.62, _BOTTOM - (0.42 if explained.path is None else 0.95)
    height = (foot - top) / rows
    cell_width = (width - _GAP * (columns - 1)) / columns
    styles = {index: style for style, places in enumerate(same_region(listed.shown)) for index in places}
    side = min(height - 0.1, (cell_width - _WORDS) / 3)
    height = min(height, side + 0.3)
    for across in range(columns):
        this, that = ("this part", "looks like") if explained.path is None else ("nearest", "looked for")
        names = ("heat map" if heat is not None else this, that, "from here")
        _legend(slide, x + across * (cell_width + _GAP), _TOP + 0.36, side, names)
    for index, term in enumerate(listed.shown):
        across, down = divmod(index, rows)
        at = (x + across * (cell_width + _GAP), top + down * height)
        over = None if heat is None else heat[index]
        _row(slide, explanation, explained, term, index, styles[index], at, (cell_width, height), side, over)
    y = min(top + rows * height, foot) + 0.06
    slide.rule(x, y, width, GRID)
    if explained.path is not None:
        nodes = f"{listed.left} more node{'' if listed.left == 1 else 's'}. " if listed.left else ""
        slide.paragraph(x, y + 0.08, nodes + leaf_text(explained, explained.path), width, 9.5, INK, lines=4)
        return
    listed_sum = number(sum(term.contribution for term in listed.shown))
    parts = f"{listed_sum} shown"
    if listed.left:
        parts += f", and {listed.left} more, sum {number(listed.rest)}"
    elif abs(listed.rest) >= 0.005:
        parts += f", rest {number(listed.rest)}"
    if listed.constant:
        parts += f", and {number(listed.constant)} for every image"
    slide.words(x, y + 0.1, parts, width - 1.65, 10, MUTED)
    slide.words(x + width - 1.6, y + 0.08, f"logit {number(explained.logit)}", 1.6, 13, bold=True, align="right")


def _legend(slide: Slide, x: float, y: float, side: float, names: Sequence[str]) -> None:
    pictures = x + 0.32
    if side >= 0.62:
        for index, name in enumerate(names):
            slide.words(pictures + index * (side + 0.06), y, name, side + 0.04, SMALLEST, MUTED)
    else:
        slide.words(pictures, y, "this, like that, from here", 3 * side + 0.12, SMALLEST, MUTED)


def _row(
    slide: Slide,
    explanation: Explanation,
    explained: ClassExplanation,
    term: Term,
    index: int,
    style: int,
    at: tuple[float, float],
    size: tuple[float, float],
    side: float,
    heat: Heat | None,
) -> None:
    (x, y), (width, height) = at, size
    everything = explanation.sight_of(term).everything == 1
    slide.tag(x, y, str(index + 1), style)
    image = image_pixels(explanation)
    color, dashed = REGIONS[style % len(REGIONS)], style >= len(REGIONS)
    pictures = x + 0.32
    if heat is not None:
        shown = slide.picture(image, pictures, y, side, heat)
        if not everything:
            slide.outline(shown, term.region, color, dashed, width=1.4)
    else:
        slide.picture(_or_gray(cut_out(image, term.region)), pictures, y, side)
    source = prototype_pixels(term, explanation.size)
    boxes = () if term.origin is None else term.origin.boxes
    slide.picture(_or_gray(cut_out(source, boxes)), pictures + side + 0.06, y, side)
    there = slide.picture(source, pictures + 2 * (side + 0.06), y, side)
    if not everything:
        slide.outline(there, boxes, color, dashed, width=1.4)
    words = pictures + 3 * (side + 0.06) + 0.06
    room = x + width - words
    ink = INK if explained.path is None or explained.path.found[index] else MUTED
    size_of_words = 13 if explained.path is None else 10.5
    path = explained.path
    says = number(term.contribution) if path is None else short_turn_text(path, index)
    adds = slide.words(words, y - 0.02, says, room, size_of_words, ink, bold=True)
    if grid := grid_words(explanation, term):
        right = slide.width_of(adds.get_text(), adds.get_fontproperties()) + 0.1
        if right < room:
            slide.words(words + right, y + 0.03, grid, room - right, SMALLEST, MUTED)
    lines: list[tuple[str, str]] = []
    if path is not None and unlikely(path, index):
        lines.append(("the less likely turn", MUTED))
    if explanation.weighted:
        lines.append((f"= {number(term.weight)} × {number(term.score)}", INK))
    if not term.region:
        lines.append(("sees padding only", MUTED))
    if term.proof is not None:
        mark, ink = ("✓ ", GREEN_TEXT) if term.proof.passed else ("✗ ", VERMILION_TEXT)
        if not term.proof.tested:
            mark, ink = "", MUTED
        lines.append((f"{mark}{proof_words(term.proof)}", ink))
    source_image = "" if term.origin is None else f", {term.origin.image}"
    lines.append((f"{prototype_words(term, explained)}{source_image}", MUTED))
    if term.also:
        lines.append((also_text(term), MUTED))
    for step, (line, ink) in enumerate(lines[: max(1, int((height - 0.24) / 0.168))]):
        slide.words(words, y + 0.23 + 0.168 * step, line, room, SMALLEST, ink)


def _or_gray(pixels: UInt8[np.ndarray, "height width 3"] | None) -> UInt8[np.ndarray, "height width 3"]:
    return np.full((4, 4, 3), GRAY, np.uint8) if pixels is None else pixels

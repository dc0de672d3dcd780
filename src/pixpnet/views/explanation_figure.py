"""The paper's explanation figure: this part of the image looks like that part of a training image, and the sum.

One slide. On the left the image with the numbered regions of the three terms that count most (of a path: of all its
nodes); beside it these three large, this part next to the part it looks like, the others small, and their sum.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from pixpnet.box import hull
from pixpnet.colors import INK, MUTED, REGIONS, VERMILION_TEXT
from pixpnet.explanation.brief import SHOWN
from pixpnet.explanation.certainty import doubt_text, short_doubt_text
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.explanation.path_text import not_found_text, other_answers_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Term
from pixpnet.mapping.scene import Heatmaps
from pixpnet.views.path_rows import ALONE, BESIDE, path_rows
from pixpnet.views.pictures import image_pixels
from pixpnet.views.slide import HEIGHT, SMALLEST, WIDTH, Heat, Placement, Slide
from pixpnet.views.tags import tag_places
from pixpnet.views.term_rows import Room, term_rows
from pixpnet.views.words import listing, same_region, score_words, share_words, sight_words

_MARGIN, _TOP, _BOTTOM, _GAP = 0.45, 1.5, HEIGHT - 0.4, 0.35


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
        _column(slide, explanation, classes[0], left, 2 * width + _GAP, ALONE, heat)
    else:
        _column(slide, explanation, classes[0], left, width, BESIDE, heat)
        _column(slide, explanation, classes[1], left + width + _GAP, width, BESIDE, None)
    made = f"Heat maps: {shown}." if shown and heatmaps is not None else ""
    notes = "  ·  ".join(filter(None, (made, not_found_text(explanation))))
    certificate = deciding_text(explanation)
    slide.words(_MARGIN, 1.27 if certificate else HEIGHT - 0.3, notes, WIDTH - 2 * _MARGIN, SMALLEST, MUTED)
    if certificate:
        slide.paragraph(_MARGIN, HEIGHT - 0.39, certificate, WIDTH - 2 * _MARGIN, SMALLEST, lines=2)
    return slide.figure


def _heading(slide: Slide, explanation: Explanation) -> None:
    predicted = explanation.predicted
    across = WIDTH - 2 * _MARGIN
    slide.words(_MARGIN, 0.26, predicted.class_name, across, 24, bold=True)
    if warned := doubt_text(explanation):
        fitting = slide.first_that_fits((warned, short_doubt_text(explanation)), across, 10.5, bold=True)
        slide.words(_MARGIN, 0.06, fitting, across, 10.5, VERMILION_TEXT, bold=True)
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
        slide.words(_MARGIN, y - 0.02, f"{caption} {explained.class_name}", 3.15, 9.5, bold=True)
        y += 0.22
    placement = slide.picture(image_pixels(explanation), _MARGIN, y, side)
    if not explanation.sees_everything:
        most = SHOWN if explained.path is None else ALONE if len(explanation.classes) == 1 else BESIDE
        shown = listing(explained, most).shown
        groups = same_region(shown)
        outlined = [
            (style, places)
            for style, places in enumerate(groups)
            if explanation.sight_of(shown[places[0]]).everything < 1
        ]
        for style, places in reversed(outlined):
            region = shown[places[0]].region
            slide.outline(placement, region, REGIONS[style % len(REGIONS)], dashed=style >= len(REGIONS))
        _tags(slide, placement, shown, outlined, explanation.size)
    return y + placement.height + 0.14


def _tags(
    slide: Slide,
    placement: Placement,
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
    pixels = [((width + 0.02) / placement.scale, (height + 0.02) / placement.scale) for width, height in sizes]
    tops = tag_places([around for _, _, around in drawn], pixels, size)
    for (style, words, _), (x, y) in zip(drawn, tops, strict=True):
        slide.tag(placement.x + x * placement.scale, placement.y + y * placement.scale, words, style)


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
    slide.words(x, _TOP - 0.02, explained.class_name, width, 12, bold=True)
    slide.rule(x, _TOP + 0.27, width, INK)
    room = Room(x, _TOP + 0.36, width, _BOTTOM)
    if explained.path is None:
        term_rows(slide, explanation, explained, room, heat)
    else:
        path_rows(slide, explanation, explained, explained.path, room, most, heat)

"""Here and there: the pixels that a cell sees, beside the box that upsampling of the similarity map would draw.

The upper row is the receptive-field mapping, the lower one upsampling, for a few terms of one explanation. Where the
terms are proven, the captions say what changing everything outside did to the cell.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from pixpnet.colors import BLUE, GREEN_TEXT, MUTED, ORANGE, VERMILION_TEXT
from pixpnet.explanation.record import Explanation, Term, Trial
from pixpnet.mapping.scene import Heatmaps
from pixpnet.views.pictures import image_pixels
from pixpnet.views.slide import SMALLEST, WIDTH, Slide
from pixpnet.views.words import SEES_EVERYTHING, deviation, number

_MARGIN, _TOP, _LABELS, _GAP = 0.45, 1.35, 2.35, 0.3
_MOST = 4
_SIDE = 2.3


def comparison_figure(explanation: Explanation, field: Heatmaps, upsampling: Heatmaps) -> Figure:
    """Draws two mappings of the first terms of the predicted class, one below the other.

    Args:
        explanation: whose terms; with proofs, if the captions are to say what was found.
        field: the receptive-field mapping of the predicted class's terms, in their order.
        upsampling: the same by upsampling.

    Raises:
        ValueError: if there are not as many maps as terms.
    """
    terms = explanation.predicted.terms
    for name, maps in (("receptive-field", field), ("upsampling", upsampling)):
        if len(maps.maps) != len(terms):
            raise ValueError(
                f"{len(maps.maps)} {name} maps for {len(terms)} terms: ask `heatmaps` for the prototypes of the "
                "predicted class's terms, in their order"
            )
    slide = Slide()
    across = WIDTH - 2 * _MARGIN
    slide.words(_MARGIN, 0.36, "What the network saw, and what upsampling claims it saw", across, 22, bold=True)
    about = f"{explanation.predicted.class_name}  ·  {explanation.model}  ·  {explanation.image}"
    slide.words(_MARGIN, 0.84, about, across, 11, MUTED)
    outline = "The outline holds every pixel that the cell reads."
    exact = SEES_EVERYTHING if explanation.sees_everything else outline
    outlined = [explanation.sight_of(term).everything < 1 for term in terms]
    _row(slide, explanation, terms, field, _TOP, BLUE, "Receptive field", exact, outlined)
    guess = "A box around the top 5 % of the enlarged similarity map. Nothing ties it to what the cell reads."
    _row(slide, explanation, terms, upsampling, _TOP + 3.0, ORANGE, "Upsampling", guess, [True] * len(terms))
    proven = [term.proof for term in terms[:_MOST] if term.proof is not None]
    if proven:
        caption = (
            "Below each image: how far the cell's similarity moved at most when every pixel outside was changed, in "
            f"{proven[0].draws} draws."
        )
        slide.paragraph(_MARGIN, _TOP + 4.7, caption, _LABELS - 0.35, SMALLEST, MUTED)
    return slide.figure


def _row(
    slide: Slide,
    explanation: Explanation,
    terms: tuple[Term, ...],
    maps: Heatmaps,
    y: float,
    color: str,
    title: str,
    about: str,
    outlined: Sequence[bool],
) -> None:
    slide.words(_MARGIN, y, title, _LABELS - 0.3, 13, bold=True)
    slide.paragraph(_MARGIN, y + 0.32, about, _LABELS - 0.35, 10, MUTED)
    for index, term in enumerate(terms[:_MOST]):
        x = _MARGIN + _LABELS + index * (_SIDE + _GAP)
        heat = np.asarray(maps.maps[index].cpu(), dtype=np.float64)
        shown = slide.picture(image_pixels(explanation), x, y, _SIDE, heat)
        if outlined[index]:
            slide.outline(shown, maps.regions[index], color)
        below = y + shown.height + 0.08
        kind = "similarity" if explanation.score_note is None else "score"
        score = f"{index + 1}. prototype {term.prototype}, {kind} {number(term.score)}"
        slide.words(x, below, score, _SIDE, SMALLEST)
        if term.proof is not None:
            trial = term.proof.field if color == BLUE else term.proof.upsampling
            slide.words(x, below + 0.18, _trial_words(trial), _SIDE, SMALLEST, _ink(trial))


def _trial_words(trial: Trial) -> str:
    if not trial.outside:
        return "nothing outside to test"
    moved = deviation(trial.largest_deviation)
    return f"✓ outside: moved by {moved}" if trial.passed else f"✗ outside: moved by {moved}"


def _ink(trial: Trial) -> str:
    if not trial.outside:
        return MUTED
    return GREEN_TEXT if trial.passed else VERMILION_TEXT

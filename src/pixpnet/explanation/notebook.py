"""An explanation as a small piece of HTML that holds everything it shows, for notebooks.

Names of classes and files come from others, so every one of them is escaped. The large page is made in `views`.
"""

import base64
import io
from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from pixpnet.colors import REGIONS
from pixpnet.data import ImageError
from pixpnet.data.decode import read_image
from pixpnet.explanation.certainty import doubt_text, probability_words
from pixpnet.explanation.path_text import leaf_text, not_found_text, other_answers_text, turn_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Term
from pixpnet.explanation.text import (
    also_text,
    choice_text,
    contrast_text,
    location,
    proof_result,
    proofs_text,
    rest_text,
    share_of,
    sight_text,
)
from pixpnet.wording import percent, probability

_SHOWN_WIDTH = 320
_CROP_SIDE = 96


def html_of(explanation: Explanation) -> str:
    """What a notebook shows instead of the text."""
    best = explanation.predicted
    parts = [
        '<div style="font-family:sans-serif;max-width:60em">',
        f"<p><b>{escape(explanation.image)}: {escape(best.class_name)}</b> "
        f"({'' if best.path else f'logit {best.logit:.2f}; '}{probability_words(explanation, best)})</p>",
    ]
    if warned := doubt_text(explanation):
        parts.append(f"<p><b>{escape(warned)}</b></p>")
    for explained in explanation.classes:
        parts += _class(explanation, explained)
    for other in explanation.classes[1:]:
        parts.append(f"<p>{escape(contrast_text(explanation, other))}</p>")
    proofs = [term.proof for class_explanation in explanation.classes for term in class_explanation.terms if term.proof]
    if proofs:
        parts.append(f"<p>{escape(proofs_text(proofs))}</p>")
    about_paths = filter(None, (other_answers_text(explanation), not_found_text(explanation)))
    choice = () if explanation.choice_note is None else (choice_text(explanation.choice_note),)
    sentences = (*about_paths, *choice, *sight_text(explanation))
    parts += [f"<p>{escape(sentence)}</p>" for sentence in sentences]
    parts.append("</div>")
    return "\n".join(parts)


def _class(explanation: Explanation, explained: ClassExplanation) -> Iterator[str]:
    rest = escape(rest_text(explained))
    yield f"<details{' open' if explained is explanation.predicted else ''}>"
    path = explained.path
    made_of = f"logit {explained.logit:.2f}, the sum of these{rest}" if path is None else probability(explained.share)
    yield f"<summary>{escape(explained.class_name)}: {made_of}</summary>"
    yield '<div style="display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start">'
    yield _picture(explanation, explained)
    heads = ("contribution", "this part", "looks like that part")
    if path is not None:
        heads = ("was it found?", "nearest part", "what was looked for")
    yield f"<table><thead><tr><th></th>{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead>"
    yield "<tbody>"
    for number, term in enumerate(explained.terms):
        yield _row(explanation, explained, term, number)
    yield f"</tbody></table></div>{'' if path is None else f'<p>{escape(leaf_text(explained, path))}</p>'}</details>"


def _picture(explanation: Explanation, explained: ClassExplanation) -> str:
    height, width = explanation.size
    pixels = np.frombuffer(explanation.pixels, np.uint8).reshape(height, width, 3)
    boxes = [
        f'<rect x="{x0}" y="{y0}" width="{x1 - x0}" height="{y1 - y0}" fill="none" stroke="{_color(number)}" '
        'stroke-width="2" vector-effect="non-scaling-stroke"/>'
        for number, term in enumerate(explained.terms)
        for y0, x0, y1, x1 in term.region
    ]
    alternative = f"{explanation.image}, with the parts that speak for or against {explained.class_name}"
    return (
        f'<svg width="{_SHOWN_WIDTH}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(alternative)}">'
        f'<image width="{width}" height="{height}" href="{_png(Image.fromarray(pixels))}"/>{"".join(boxes)}</svg>'
    )


def _row(explanation: Explanation, explained: ClassExplanation, term: Term, number: int) -> str:
    product = f"{term.weight:.2f} x {term.score:.2f} = {term.contribution:.2f}"
    value = product if explained.path is None else turn_text(explained.path, number)
    share = share_of(term.region, explanation.size)
    proof = f"<br>{proof_result(term.proof)}" if term.proof else ""
    source = f"prototype {term.prototype}"
    if term.origin is not None:
        source = f"{location(term.origin.boxes)} of {term.origin.image}"
    classes = ", ".join(filter(None, (term.class_name, also_text(term))))
    grid = f", grid {term.grid + 1}" if len(explanation.sights) > 1 else ""
    return (
        f'<tr><td style="background:{_color(number)};width:.5em"></td>'
        f"<td>{value}</td>"
        f"<td>{escape(location(term.region))} ({percent(share)}{grid}){proof}</td>"
        f"<td>{_crop(term)}{escape(source)}{escape(f' ({classes})' if classes else '')}</td></tr>"
    )


def _crop(term: Term) -> str:
    """The prototype's crop where its file is still there and is a picture."""
    if term.crop is None:
        return ""
    try:
        crop = Image.fromarray(read_image(Path(term.crop), upright=False))
    except (ImageError, ValueError):
        return ""
    crop.thumbnail((_CROP_SIDE, _CROP_SIDE))
    return f'<img src="{_png(crop)}" alt="prototype {term.prototype}" style="vertical-align:middle"> '


def _png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, format="png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _color(number: int) -> str:
    return REGIONS[number % len(REGIONS)]

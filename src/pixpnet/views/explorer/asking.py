"""An answer and its evidence as plain values for the page: numbers as people read them, regions as outlines.

Words are those of the report and of the terminal. Pictures are not in it; the page asks for them by their addresses.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from pixpnet.box import Box, hull
from pixpnet.explanation import ClassExplanation, Explanation, Proof, Term
from pixpnet.explanation.brief import SHOWN, looks_like, parts_words
from pixpnet.explanation.certainty import calibration_words, doubt_text, probability_words, rare_words
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.explanation.path_text import leaf_text, not_found_text, other_answers_text, parting_text, unlikely
from pixpnet.explanation.text import also_text, location, share_of
from pixpnet.model import PixPNet
from pixpnet.model.calibration import Calibration, doubt, prediction_set, probabilities, set_limit
from pixpnet.model.doubt import Doubt
from pixpnet.views.explorer.images import SPLITS, Asked, Listed
from pixpnet.views.outline import svg_path
from pixpnet.views.trust import COVERAGE
from pixpnet.views.words import (
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
    sight_words,
)

Plain = dict[str, Any]
_MOST = 20  # terms of one class
outline = lru_cache(maxsize=4096)(svg_path)
"""The outline of a region, remembered: cells have the same fields in every image."""


def answer(model: PixPNet, asked: Asked, explanation: Explanation) -> Plain:
    """Everything that the page shows of an answer."""
    predicted, *others = explanation.classes
    return {
        "image": image_facts(asked, explanation.size),
        "answer": brief(model, asked, explanation),
        "share": probability_words(explanation, predicted),
        "doubt": doubt_text(explanation),
        "set": class_set(model.calibration, explanation),
        "calibrated": calibration_words(explanation.certainty),
        "classes": [class_facts(explanation, explained) for explained in explanation.classes],
        "why_not": [why_not(explanation, other) for other in others],
        "ranking": _ranking(explanation),
        "sight": sight_words(explanation),
        "sees_everything": explanation.sees_everything,
        "notes": [
            note
            for note in (score_words(explanation), other_answers_text(explanation), not_found_text(explanation))
            if note
        ],
        "model": explanation.model,
    }


def image_facts(asked: Asked, size: tuple[int, int]) -> Plain:
    """What an image is."""
    return {
        "id": asked.id,
        "name": asked.name,
        "split": asked.split,
        "where": f"{SPLITS[asked.split]} image" if asked.split in SPLITS else "given to this page",
        "truth": asked.truth,
        "height": size[0],
        "width": size[1],
        "source_height": asked.sample.source_size[0],
        "source_width": asked.sample.source_size[1],
    }


def brief(model: PixPNet, asked: Asked, explanation: Explanation) -> Plain:
    """The answer in one line of a table."""
    logits, known = torch.tensor(explanation.logits, dtype=torch.float64), explanation.certainty
    return _line(model, asked.id, asked.name, asked.truth, logits, None if known is None else known.doubt)


def listed_line(model: PixPNet, listed: Listed) -> Plain:
    """An image of the data set in one line of a table, with what the run kept of the model's answer."""
    truth = model.class_names[listed.entry.label]
    if listed.logits is None or listed.largest_score is None:
        return {"id": listed.id, "name": listed.entry.id, "truth": truth, "answer": None}
    doubtful = doubt(model.calibration, float(listed.logits.max()), listed.largest_score)
    return _line(model, listed.id, listed.entry.id, truth, listed.logits, doubtful)


def _line(
    model: PixPNet, image_id: str, name: str, truth: str | None, logits: torch.Tensor, doubtful: Doubt | None
) -> Plain:
    known = model.calibration
    chances = probabilities(logits, 1.0 if known is None else known.temperature)
    first, second = chances.topk(2).indices.tolist()
    largest = float(logits.max())
    chance = float(chances[first])
    return {
        "id": image_id,
        "name": name,
        "truth": truth,
        "answer": model.class_names[first],
        "right": None if truth is None else truth == model.class_names[first],
        "runner_up": model.class_names[second],
        "probability": chance,
        "probability_words": probability(chance),
        "runner_up_words": probability(float(chances[second])),
        "logit": largest,
        "logit_words": number(largest),
        "doubted": doubtful is not None and doubtful.raised,
        "rare": "" if doubtful is None else rare_words(doubtful),
        "in_set": None if known is None else len(prediction_set(known, logits, COVERAGE)),
    }


def class_set(known: Calibration | None, explanation: Explanation) -> Plain | None:
    """The classes that may be the true one; None where the model is not calibrated."""
    if known is None:
        return None
    logits = torch.tensor(explanation.logits, dtype=torch.float64)
    chances = probabilities(logits, known.temperature)
    labels = prediction_set(known, logits, COVERAGE)
    return {
        "coverage": percent(COVERAGE),
        "enough": set_limit(known, COVERAGE) is not None,
        "images": known.images,
        "classes": [
            {"label": label, "name": explanation.class_names[label], "probability": probability(float(chances[label]))}
            for label in labels
        ],
    }


def class_facts(explanation: Explanation, explained: ClassExplanation) -> Plain:
    """Why a class got its logit."""
    listed = listing(explained, _MOST)
    group_of = {index: group for group, places in enumerate(same_region(listed.shown)) for index in places}
    return {
        "label": explained.label,
        "name": explained.class_name,
        "logit": number(explained.logit),
        "probability": probability(explanation.probability(explained)),
        "path": None if explained.path is None else leaf_text(explained, explained.path),
        "terms": [
            {**term_facts(explanation, explained, index), "group": group_of[index]}
            for index in range(len(listed.shown))
        ],
        "shown": number(sum(term.contribution for term in listed.shown)),
        "left": listed.left,
        "rest": number(listed.rest) if listed.left or abs(listed.rest) >= 0.005 else "",
        "constant": number(listed.constant) if listed.constant else "",
    }


def term_facts(explanation: Explanation, explained: ClassExplanation, index: int) -> Plain:
    """One term: this part looks like that part, and what the likeness adds."""
    term, path = explained.terms[index], explained.path
    origin = term.origin
    return {
        "number": index + 1,
        "prototype": term.prototype,
        "large": index < SHOWN and path is None,
        "adds": adds_words(explained, index),
        "contribution": term.contribution,
        "product": f"{number(term.weight)} × {number(term.score)}" if explanation.weighted else "",
        "present": None if path is None else path.present[index],
        "unlikely": path is not None and unlikely(path, index),
        "says": prototype_words(term, explained),
        "looks_like": looks_like(term),
        "parts": parts_words(term),
        "also": also_text(term),
        "grid": term.grid,
        "grid_words": grid_words(explanation, term),
        "cell": list(term.cell),
        "sees": percent(share_of(term.region, explanation.size)),
        "where": location(term.region),
        "everything": explanation.sight_of(term).everything == 1,
        "region": region_facts(term.region),
        "origin": None if origin is None else {"image": origin.image, "region": region_facts(origin.boxes)},
        "proof": None if term.proof is None else proof_facts(term.proof),
    }


def region_facts(region: Sequence[Box]) -> Plain | None:
    """A region as its outline and the box around it; None where it is empty."""
    around = hull(region)
    if around is None:
        return None
    return {"path": outline(tuple(region)), "hull": list(around), "solid": len(region) == 1}


def proof_facts(proof: Proof) -> Plain:
    """What the test of a term found."""
    return {
        "held": proof.passed if proof.tested else None,
        "words": proof_words(proof),
        "outside": deviation(proof.field.largest_deviation) if proof.tested else "nothing outside",
        "inside": deviation(proof.inside),
        "upsampling": deviation(proof.upsampling.largest_deviation),
        "upsampling_held": proof.upsampling.passed,
        "upsampling_region": region_facts(proof.upsampling.region),
        "score": deviation(proof.score_outside),
        "draws": proof.draws,
        "pictures": proof.pictures,
    }


def moved_words(difference: float) -> str:
    """How far a similarity moved, with its sign; an exact nought is said as such."""
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return f"{sign}{deviation(abs(difference))}"


def proven(explanation: Explanation) -> Plain:
    """What a proof of a whole explanation found, term by term."""
    return {
        "deciding": deciding_text(explanation),
        "terms": [
            {"label": explained.label, "prototype": term.prototype, "proof": proof_facts(term.proof)}
            for explained in explanation.classes
            for term in explained.terms
            if term.proof is not None
        ],
    }


def why_not(explanation: Explanation, other: ClassExplanation) -> Plain:
    """Why it is not another class: in a sentence, and term against term."""
    predicted = explanation.predicted
    if other.path is not None:
        return {"label": other.label, "words": parting_text(predicted, other), "pairs": []}
    contrast = explanation.why_not(other.label)
    return {
        "label": other.label,
        "words": f"Its logit is {number(contrast.difference)} lower than that of {predicted.class_name}.",
        "pairs": [
            {
                "predicted": None if pair.predicted is None else _side(pair.predicted),
                "other": None if pair.other is None else _side(pair.other),
                "difference": number(pair.difference),
            }
            for pair in contrast.pairs[:_MOST]
        ],
        "rest": number(contrast.difference - sum(pair.difference for pair in contrast.pairs[:_MOST])),
    }


def _side(term: Term) -> Plain:
    return {"prototype": term.prototype, "adds": number(term.contribution)}


def _ranking(explanation: Explanation) -> list[Plain]:
    """All classes, the most probable first; of equals the one with the lower number."""
    temperature = 1.0 if explanation.certainty is None else explanation.certainty.temperature
    logits = torch.tensor(explanation.logits, dtype=torch.float64)
    chances = probabilities(logits, temperature).tolist()
    order = sorted(range(len(chances)), key=lambda label: -explanation.logits[label])
    return [
        {
            "label": label,
            "name": explanation.class_names[label],
            "logit": number(explanation.logits[label]),
            "share": chances[label],
            "probability": probability(chances[label]),
        }
        for label in order
    ]

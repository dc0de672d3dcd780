"""How certain an answer is, in words: calibrated or not, and doubt about an image that looks like nothing known."""

from pixpnet.class_names import printable
from pixpnet.explanation.answer import Certainty
from pixpnet.explanation.record import ClassExplanation, Explanation
from pixpnet.model import PixPNet
from pixpnet.model.calibration import Calibration, doubt
from pixpnet.model.doubt import Doubt, Sign
from pixpnet.wording import percent, probability

SOURCES = {"validation": "validation images", "folds": "training images, by models that did not learn from them"}
_NOTHING_KNOWN = "This looks like nothing that the model knows"
_KNOWN_IMAGES = {
    "validation": "validation images",
    "folds": "training images (asked of models that did not learn from them)",
    None: "known images",
}
_MISSING: dict[Sign, str] = {
    "logit": "no class gets as much evidence",
    "score": "no part matches a prototype as well",
}


def certainty_of(model: PixPNet, largest_logit: float, largest_score: float) -> Certainty | None:
    """How certain a model may say to be of an answer; None where nobody has measured that."""
    known = model.calibration
    if known is None:
        return None
    return Certainty(known.temperature, known.source, known.images, doubt(known, largest_logit, largest_score))


def probability_words(explanation: Explanation, explained: ClassExplanation) -> str:
    """How probable a class is, and what that number is."""
    if explanation.certainty is not None:
        return f"calibrated probability {probability(explanation.probability(explained))}"
    kind = "softmax" if explained.path is None else "probability by its tree"
    return f"{kind} {probability(explained.share)}, not calibrated"


def calibration_words(known: Calibration | Certainty | None) -> str:
    """Where probabilities come from, as a sentence."""
    if known is None:
        return "Probabilities are the softmax of the logits, not calibrated."
    source = SOURCES[known.source]
    return f"Probabilities are calibrated: temperature {known.temperature:.3g}, from {known.images} {source}."


def doubt_text(explanation: Explanation) -> str:
    """The warning that an image looks like nothing that the model knows; empty where there is no doubt."""
    raised = _raised(explanation)
    return "" if raised is None else warning(raised, printable(explanation.predicted.class_name))


def short_doubt_text(explanation: Explanation) -> str:
    """The same without numbers, for one line; empty where there is no doubt."""
    raised = _raised(explanation)
    if raised is None:
        return ""
    words: dict[Sign, str] = {"logit": "no class gets as much evidence", "score": "no part matches as well"}
    missing = " and ".join(words[sign] for sign in raised.rare)
    return f"{_NOTHING_KNOWN}: {missing} as in {percent(1 - raised.false_alarms)} of known images."


def _raised(explanation: Explanation) -> Doubt | None:
    known = explanation.certainty
    return None if known is None or known.doubt is None or not known.doubt.raised else known.doubt


def warning(doubtful: Doubt, class_name: str) -> str:
    """What is said of an image that looks like nothing known: which sign is rare, and how rare.

    >>> print(warning(Doubt(12.3, 31.0, 0.05, 360, 0.7, 0.6, "validation"), "jay"))  # doctest: +NORMALIZE_WHITESPACE
    This looks like nothing that the model knows: no class gets as much evidence as in 95 % of validation images
    (largest logit 12.30, theirs at least 31.00). The answer jay is not to be trusted.
    >>> print(warning(Doubt(32.3, 31.0, 0.05, 360, 0.4, 0.6, "validation"), "jay"))  # doctest: +NORMALIZE_WHITESPACE
    This looks like nothing that the model knows: no part matches a prototype as well as in 95 % of validation
    images (largest score 0.4, theirs at least 0.6). The answer jay is not to be trusted.
    """
    numbers = {
        "logit": f"largest logit {doubtful.largest_logit:.2f}, theirs at least {doubtful.least_logit:.2f}",
        "score": f"largest score {doubtful.largest_score:.4g}, theirs at least {doubtful.least_score:.4g}"
        if doubtful.largest_score is not None and doubtful.least_score is not None
        else "",
    }
    measured = "; ".join(numbers[sign] for sign in doubtful.rare)
    return f"{_looks_like_nothing(doubtful)} ({measured}). The answer {class_name} is not to be trusted."


def _looks_like_nothing(doubtful: Doubt) -> str:
    known = f"as in {percent(1 - doubtful.false_alarms)} of {_KNOWN_IMAGES[doubtful.source]}"
    missing = ", and ".join(_MISSING[sign] for sign in doubtful.rare)
    comma = "," if len(doubtful.rare) > 1 else ""
    return f"{_NOTHING_KNOWN}: {missing}{comma} {known}"


def rare_words(doubtful: Doubt) -> str:
    """Which signs of an image are rare, in the fewest words; empty where there is no doubt.

    >>> rare_words(Doubt(12.3, 31.0, 0.05, 360, 0.4, 0.6))
    'too little evidence for any class, no part matches well'
    """
    words: dict[Sign, str] = {"logit": "too little evidence for any class", "score": "no part matches well"}
    return ", ".join(words[sign] for sign in doubtful.rare)


def limits_words(known: Calibration | None) -> str:
    """When the model warns, as a sentence."""
    if known is None or known.least_logit is None:
        return "It never warns of an image that looks like nothing known: it has no limit for that."
    rate, images = percent(known.false_alarms), f"{known.images} {_KNOWN_IMAGES[known.source]}"
    few = f"It warns of an image in which no class gets enough evidence (largest logit below {known.least_logit:.2f})"
    if known.least_score is None:
        return f"{few}; the limit is from {images} and lets it warn of at most {rate} of images like them."
    return (
        f"{few} or no part matches a prototype well enough (largest score below {known.least_score:.4g}); the limits "
        f"are from {images} and let it warn of at most {rate} of images like them."
    )

"""How certain an answer is, in words: calibrated or not, and doubt about an image that looks like nothing known."""

from pixpnet.class_names import printable
from pixpnet.explanation.answer import Certainty
from pixpnet.explanation.record import ClassExplanation, Explanation
from pixpnet.model import PixPNet
from pixpnet.model.calibration import Calibration, Doubt, doubt
from pixpnet.wording import percent, probability

SOURCES = {"validation": "validation images", "folds": "training images, by models that did not learn from them"}


def certainty_of(model: PixPNet, largest_logit: float) -> Certainty | None:
    """How certain a model may say to be of an answer; None where nobody has measured that."""
    known = model.calibration
    if known is None:
        return None
    return Certainty(known.temperature, known.source, known.images, doubt(known, largest_logit))


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
    known = explanation.certainty
    if known is None or known.doubt is None or not known.doubt.raised:
        return ""
    return warning(known.doubt, printable(explanation.predicted.class_name))


def warning(doubtful: Doubt, class_name: str) -> str:
    """What is said of an image that looks like nothing known.

    >>> print(warning(Doubt(12.3, 31.0, 0.05, 360), "jay"))  # doctest: +NORMALIZE_WHITESPACE
    This looks like nothing that the model knows: its largest logit is 12.30, and 95 % of known images have at least
    31.00. The answer jay is not to be trusted.
    """
    known = percent(1 - doubtful.false_alarms)
    return (
        f"This looks like nothing that the model knows: its largest logit is {doubtful.largest_logit:.2f}, and {known} "
        f"of known images have at least {doubtful.least_logit:.2f}. The answer {class_name} is not to be trusted."
    )

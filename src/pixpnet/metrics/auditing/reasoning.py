"""Desideratum 3, "case-based reasoning must be describable by linear or simple tree models".

Every head of this package says its weights, and the claim is that the logits are that weighted sum of scores and
nothing else. It is put to the test on random images. How much of it a person must read is the explanation size.
"""

from dataclasses import dataclass

import torch

from pixpnet.explanation.size import ExplanationSize, explanation_size
from pixpnet.metrics.auditing.verdict import Finding, Judged, found
from pixpnet.model import PixPNet

_FORMS = {
    "class_sum": "a class's logit is the sum of the scores of its own prototypes",
    "own_class": "a class's logit is a weighted sum of the scores of its own prototypes",
    "linear": "a class's logit is a weighted sum of the scores of all prototypes",
    "frozen": "a class's logit is a weighted sum, with fixed weights, of the scores of all prototypes",
}
_IMAGES = 4
# Of the sum of what is added up: float32 rounds each addend by 6e-8 of it.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Reasoning(Judged):
    """What was found about how scores become logits.

    Attributes:
        head: its name.
        form: what it does, in words.
        size: elements that explain one logit.
        largest_error: of a logit against the sum that the head claims, as a share of what is added up.
        findings: claim by claim.
    """

    head: str
    form: str
    size: ExplanationSize
    largest_error: float
    findings: tuple[Finding, ...]


def check_reasoning(model: PixPNet, seed: int = 0) -> Reasoning:
    """Adds up weights times scores, and compares with the logits."""
    side = model.preprocessing.size
    images = torch.randn(_IMAGES, 3, side, side, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        output = model(images.to(model.prototypes))
        scores, weights = output.matches.scores.double(), model.head.weights().double()
        added_up = (scores.abs() @ weights.abs().T).clamp_min(torch.finfo(torch.float32).eps)
        errors = (output.logits.double() - scores @ weights.T).abs() / added_up
    largest, size = float(errors.max()), explanation_size(model)
    finding = found(
        "a logit is a linear model of scores",
        largest <= _TOLERANCE,
        f"{_FORMS[model.architecture.head]}; recomputed for {_IMAGES} random images, largest error {largest:.1g} of "
        f"the sum, at most {_TOLERANCE:g} is rounding; {size.positive} elements explain a logit, {size.both} with "
        "negative reasoning",
    )
    return Reasoning(model.architecture.head, _FORMS[model.architecture.head], size, largest, (finding,))

"""Desideratum 3, "case-based reasoning must be describable by linear or simple tree models".

A decision says its reasons, and the claim is that the logits are what those come to and nothing else. It is put to the
test on random images. A decision that refuses to give reasons fails. How much a person must read is the explanation
size.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.metrics.auditing.verdict import Desideratum, Finding, finding_of
from pixpnet.model import PixPNet
from pixpnet.parts import ExplanationSize, NoReasons

_IMAGES = 4
# Of the sum of what is added up: float32 rounds each addend by 6e-8 of it.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Reasoning(Desideratum):
    """What was found about how scores become logits.

    Attributes:
        head: its name.
        form: what it does, in words.
        size: elements that explain one logit.
        largest_error: of a logit against what its reasons come to, as a share of what is added up; None where there
            are no reasons.
        findings: claim by claim.
    """

    head: str
    form: str
    size: ExplanationSize
    largest_error: float | None
    findings: tuple[Finding, ...]


def check_reasoning(model: PixPNet, seed: int = 0) -> Reasoning:
    """Asks the decision for the reasons of all logits of random images, and compares them with the logits."""
    side, head = model.preprocessing.size, model.head
    images = torch.randn(_IMAGES, 3, side, side, generator=torch.Generator().manual_seed(seed))
    claim, size = head.claim, head.size()
    try:
        largest = _largest_error(model, images.to(model.device, model.dtype))
    except NoReasons as refusal:
        return Reasoning(head.name, head.form, size, None, (finding_of(claim, False, f"{head.form}; {refusal}"),))
    finding = finding_of(
        claim,
        largest <= _TOLERANCE,
        f"{head.form}; recomputed for {_IMAGES} random images, largest error {largest:.1g} of the sum, at most "
        f"{_TOLERANCE:g} is rounding; {size.positive} elements explain a logit, {size.both} with negative reasoning",
    )
    return Reasoning(head.name, head.form, size, largest, (finding,))


def _largest_error(model: PixPNet, images: Float[Tensor, "batch 3 height width"]) -> float:
    errors = []
    with torch.no_grad():
        output = model(images)
        for scores, logits in zip(output.matches.scores, output.logits, strict=True):
            reasons = model.head.reasons(scores, range(model.num_classes))
            added_up = reasons.magnitude(scores).clamp_min(torch.finfo(torch.float32).eps)
            errors.append((logits.double() - reasons.logits(scores)).abs() / added_up)
    # Of tensors, because `max` of Python overlooks NaN.
    return float(torch.cat(errors).max())

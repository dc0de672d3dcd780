"""Multinomial logistic regression on standardised features, with a weight decay chosen on held-out training images."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

# From strong to weak, so that each fit begins where the one before ended.
DECAYS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
WITHOUT_CHOICE = 1e-2
_STEPS = 200


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear classifier; answers for raw features.

    Attributes:
        weight: of standardised features.
        bias: of each class.
        mean: of each feature, as it was learnt.
        scale: of each feature: its standard deviation, 1 where it never varied.
    """

    weight: Float[Tensor, "classes features"]
    bias: Float[Tensor, " classes"]
    mean: Float[Tensor, " features"]
    scale: Float[Tensor, " features"]

    def logits(self, features: Float[Tensor, "images features"]) -> Float[Tensor, "images classes"]:
        """Logits of images."""
        return F.linear((features - self.mean) / self.scale, self.weight, self.bias)


def fit(
    features: Float[Tensor, "images features"],
    labels: Int64[Tensor, " images"],
    classes: int,
    decays: Sequence[float],
) -> list[LinearModel]:
    """The minimum of the mean cross-entropy plus half the decay times the squared weights, for each decay.

    The problem is convex, so the answer depends on no rate, order or seed. The bias is not decayed.
    """
    mean, deviation = features.mean(dim=0), features.std(dim=0, unbiased=False)
    scale = torch.where(deviation > 0, deviation, 1.0)
    standard = (features - mean) / scale
    weight = torch.zeros(classes, features.shape[1], device=features.device, requires_grad=True)
    bias = torch.zeros(classes, device=features.device, requires_grad=True)
    fitted = []
    for decay in decays:
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=_STEPS, history_size=20, tolerance_change=1e-7, line_search_fn="strong_wolfe"
        )

        def closure(optimizer: torch.optim.LBFGS = optimizer, decay: float = decay) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(F.linear(standard, weight, bias), labels) + decay / 2 * weight.square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        fitted.append(LinearModel(weight.detach().clone(), bias.detach().clone(), mean, scale))
    return fitted


def fit_and_choose(
    features: Float[Tensor, "images features"],
    labels: Int64[Tensor, " images"],
    held_out: Bool[Tensor, " images"],
    classes: int,
) -> LinearModel:
    """Chooses the decay with the smallest cross-entropy on the held-out part, then learns from everything.

    Args:
        features: of training images only.
        labels: of them.
        held_out: which of them to choose by; where there are none, the decay is `WITHOUT_CHOICE`.
        classes: how many.
    """
    decay = WITHOUT_CHOICE
    if held_out.any():
        models = fit(features[~held_out], labels[~held_out], classes, DECAYS)
        losses = [F.cross_entropy(model.logits(features[held_out]), labels[held_out]).item() for model in models]
        decay = DECAYS[losses.index(min(losses))]
    return fit(features, labels, classes, [stronger for stronger in DECAYS if stronger >= decay])[-1]

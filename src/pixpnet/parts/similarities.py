"""From distance to similarity (Sec. 4, App. G). Both forms fall with the distance and have their largest value at 0.

`studies/similarity_error.py` measures their rounding errors against arithmetic with 60 digits.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def reformulated(distances: Float[Tensor, "*shape"], epsilon: float) -> Float[Tensor, "*shape"]:
    """The paper's log(1 / (d + eps) + 1), with the sum of a large and a small number left to ``log1p``.

    >>> reformulated(torch.tensor([0.0, 1.0]), 1.0).exp().tolist()
    [2.0, 1.5]
    """
    return torch.log1p((distances + epsilon).reciprocal())


def original(distances: Float[Tensor, "*shape"], epsilon: float) -> Float[Tensor, "*shape"]:
    """ProtoPNet's log((d + 1) / (d + eps)).

    >>> original(torch.tensor([0.0, 1.0]), 1.0).exp().tolist()
    [1.0, 1.0]
    """
    return torch.log((distances + 1) / (distances + epsilon))


class Similarity(ABC):
    """From a measure to a similarity, number by number; it falls as the measure rises."""

    @abstractmethod
    def __call__(self, distances: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Similarities of distances."""


@dataclass(frozen=True)
class Reformulated(Similarity):
    """`reformulated` with its epsilon."""

    epsilon: float

    def __call__(self, distances: Tensor) -> Tensor:
        """See `Similarity`."""
        return reformulated(distances, self.epsilon)


@dataclass(frozen=True)
class Original(Similarity):
    """`original` with its epsilon."""

    epsilon: float

    def __call__(self, distances: Tensor) -> Tensor:
        """See `Similarity`."""
        return original(distances, self.epsilon)


@dataclass(frozen=True)
class Negated(Similarity):
    """The measure itself with its sign turned: for activations that know no distance, such as TesNet's.

    >>> Negated()(torch.tensor([-2.0])).tolist()
    [2.0]
    """

    def __call__(self, distances: Tensor) -> Tensor:
        """See `Similarity`."""
        return -distances


@dataclass(frozen=True)
class RectifiedCosine(Similarity):
    """From one minus a cosine to max(0, cosine) / divisor (Cosine ProtoPNet).

    >>> RectifiedCosine(2.0)(torch.tensor([0.0, 0.5, 1.5])).tolist()
    [0.5, 0.25, 0.0]
    """

    divisor: float

    def __call__(self, distances: Tensor) -> Tensor:
        """See `Similarity`."""
        return (1 - distances).clamp_min(0) / self.divisor

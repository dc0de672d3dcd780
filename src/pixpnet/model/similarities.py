"""From distance to similarity (Sec. 4, App. G). Both forms fall with the distance and have their largest value at 0.

`studies/similarity_error.py` measures their rounding errors against arithmetic with 60 digits.
"""

from collections.abc import Callable, Mapping

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


Similarity = Callable[[Tensor, float], Tensor]
SIMILARITIES: Mapping[str, Similarity] = {"reformulated": reformulated, "original": original}

"""From a prototype's similarity to the embeddings: which part each channel of the best patch has in it.

With z the patch, p the prototype and n a channel of a cell in it, the similarity s is divided as ``s * share_n``:

- cosine: ``share_n = (z_n p_n)+ / sum_m (z_m p_m)+``, the parts of the scalar product that speak for the prototype.
  Embeddings come out of a sigmoid and so do replaced prototypes, so that every part is positive; where signs differ,
  what speaks against the prototype gets nothing.
- squared L2: ``share_n = v((z_n - p_n)^2) / sum_m v((z_m - p_m)^2)``, v being the model's own function from distance to
  similarity: a channel has as large a part as it would be similar alone.

Shares are not negative and sum to 1. Where nothing speaks for the prototype all have equal parts.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.model.similarities import Similarity

Patches = Float[Tensor, "protos dim kernel_rows kernel_cols"]


def cosine_shares(patches: Patches, prototypes: Patches, similarity: Similarity, epsilon: float) -> Patches:
    """The parts of the scalar product; neither the similarity nor its epsilon matters.

    >>> patch, prototype = (torch.tensor(values).reshape(1, 3, 1, 1) for values in ([1.0, 2.0, 1.0], [3.0, 0.5, -1.0]))
    >>> cosine_shares(patch, prototype, lambda distances, _: distances, 0.0).flatten().tolist()
    [0.75, 0.25, 0.0]
    """
    return _divided(patches * prototypes)


def squared_l2_shares(patches: Patches, prototypes: Patches, similarity: Similarity, epsilon: float) -> Patches:
    """The similarity that each channel would have alone.

    >>> patch, prototype = (torch.tensor(values).reshape(1, 2, 1, 1) for values in ([1.0, 2.0], [1.0, 3.0]))
    >>> squared_l2_shares(patch, prototype, lambda distances, _: 3 - 2 * distances, 0.0).flatten().tolist()
    [0.75, 0.25]
    """
    return _divided(similarity((patches - prototypes).square(), epsilon))


Shares = Callable[[Tensor, Tensor, Similarity, float], Tensor]
SHARES: Mapping[str, Shares] = {"cosine": cosine_shares, "squared_l2": squared_l2_shares}


def _divided(parts: Patches) -> Patches:
    parts = parts.clamp_min(0)
    sums = parts.sum(dim=(1, 2, 3), keepdim=True)
    return torch.where(sums > 0, parts / sums, 1 / parts[0].numel())

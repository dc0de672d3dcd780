"""Prototypes that never decide anything: without any one of them every prediction would have been the same.

A logit is a sum of weights x scores (`head.weights()`), so a network without prototype p has the logits minus p's
addends, and no forward pass is needed. One prototype is removed at a time: of two that are alike neither may decide
anything, though the two together do.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.data import Batch
from pixpnet.metrics.bootstrap import bootstrap_mean
from pixpnet.metrics.health.record import Deciding
from pixpnet.model import PixPNet
from pixpnet.training.judging import evaluating

# Prototypes at a time: logits of every image without each of them.
_TOGETHER = 64


def deciding(model: PixPNet, batches: Iterable[Batch], split: str, seed: int = 0) -> Deciding:
    """Counts, for each prototype, the images that would be given to another class without it.

    Args:
        model: any head.
        batches: un-augmented images.
        split: what they are, for the record.
        seed: of the interval, which draws whole classes again.
    """
    weights = model.head.weights().detach().double()
    decided = torch.zeros(len(model.prototypes), dtype=torch.int64)
    images = 0
    with evaluating(model):
        for batch in batches:
            scores = model(batch.images.to(model.prototypes)).matches.scores.double()
            decided += changed(scores, weights).sum(dim=0).cpu()
            images += len(batch)
    never = (decided == 0).double().tolist()
    return Deciding(
        never=bootstrap_mean(never, model.labels.tolist(), seed) if images else None,
        decided=tuple(decided.tolist()),
        images=images,
        split=split,
    )


def changed(
    scores: Float[Tensor, "batch protos"], weights: Float[Tensor, "classes protos"]
) -> Int64[Tensor, "batch protos"]:
    """1 where the prediction without a prototype is another than with it; of equal logits the first class wins.

    >>> changed(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])).tolist()
    [[1, 0, 0]]
    """
    logits = scores @ weights.T
    prediction = logits.argmax(dim=1)
    found = []
    for some_scores, some_weights in zip(scores.split(_TOGETHER, 1), weights.split(_TOGETHER, 1), strict=True):
        without = logits[:, None, :] - some_scores[:, :, None] * some_weights.T[None]
        found.append(without.argmax(dim=2) != prediction[:, None])
    return torch.cat(found, dim=1).long()

"""Prototypes that never decide anything: without any one of them every prediction would have been the same.

The decision itself says whose absence would change an answer (`Decision.decides`), and no forward pass is needed for
that. One prototype is removed at a time: of two that are alike neither may decide anything, though the two together do.
"""

from collections.abc import Iterable

import torch

from pixpnet.data import Batch
from pixpnet.metrics.bootstrap import bootstrap_mean, class_clusters
from pixpnet.metrics.health.record import Deciding
from pixpnet.model import PixPNet
from pixpnet.model.modes import evaluating


def deciding(model: PixPNet, batches: Iterable[Batch], split: str, seed: int = 0) -> Deciding:
    """Counts, for each prototype, the images that would be given to another class without it.

    Args:
        model: with any decision.
        batches: un-augmented images.
        split: what they are, for the record.
        seed: of the interval, which draws whole classes again.
    """
    decided = torch.zeros(model.num_prototypes, dtype=torch.int64)
    images = 0
    with evaluating(model):
        for batch in batches:
            scores = model(batch.images.to(model.device, model.dtype)).matches.scores
            decided += model.head.decides(scores).sum(dim=0).cpu()
            images += len(batch)
    never = (decided == 0).double().tolist()
    return Deciding(
        never=bootstrap_mean(never, class_clusters(model.labels.tolist()), seed) if images else None,
        decided=tuple(decided.tolist()),
        images=images,
        split=split,
    )

"""Consistency (Sec. 5): does a prototype find the same part of the object in every image of its class?

For each prototype and part: in how many of the images of the prototype's class that show the part does it lie in the
prototype's region? The part with the largest such frequency is the prototype's part. S_con is the share of prototypes
whose frequency is at least mu = 0.8; the soft score (App. J) is the mean of the frequencies.

Paper: S_con as printed adds up o / u over images, without a mean, and divides by 0 where a part is not visible. Meant
is hits over the images that show the part. A part that no image shows has no frequency, and a prototype whose class
shows no part at all is undefined: it is counted, and in no mean.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torchmetrics import Metric

from pixpnet.metrics.part_hits import Region, part_count, part_hits

THRESHOLD = 0.8


class BestPart(NamedTuple):
    """The part that a prototype finds most often.

    Attributes:
        part: which one; the first of several that are found equally often.
        frequency: in what share of the images that show it.
        images: how many images show it.
    """

    part: int
    frequency: float
    images: int


class ConsistencyScore(NamedTuple):
    """What consistency came to.

    Attributes:
        share: of the defined prototypes, those whose frequency reaches the threshold; None if none is defined.
        soft: the mean frequency of the defined prototypes; None if none is defined.
        undefined: how many prototypes have a class without an image that shows a part.
        best: for each prototype its part; None where undefined.
    """

    share: float | None
    soft: float | None
    undefined: int
    best: tuple[BestPart | None, ...]


class Consistency(Metric):
    """`consistency` over samples that come one by one, in one process or in several.

    Its states are counts, so several processes that share out the samples find exactly what one would find. A sample
    must come once in all: share them out (`pixpnet.training.evaluation.shard`) instead of padding with repetitions.

    >>> from pixpnet.box import Box
    >>> metric = Consistency(num_prototypes=2, point_parts=(0, 1))
    >>> beak_and_tail, seen = torch.tensor([[1.0, 1.0], [6.0, 6.0]]), torch.tensor([True, True])
    >>> metric.update([0], [(Box(0, 0, 4, 4),)], beak_and_tail, seen)
    >>> score = metric.compute()
    >>> score.share, score.undefined, score.best[0]
    (1.0, 1, BestPart(part=0, frequency=1.0, images=1))
    """

    full_state_update = False
    hits: Tensor
    seen: Tensor

    def __init__(
        self,
        num_prototypes: int,
        point_parts: Sequence[int],
        threshold: float = THRESHOLD,
        sync_on_compute: bool = True,
    ) -> None:
        super().__init__(sync_on_compute=sync_on_compute)
        self.point_parts = tuple(point_parts)
        self.threshold = threshold
        shape = (num_prototypes, part_count(point_parts))
        self.add_state("hits", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("seen", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")

    def update(
        self,
        prototypes: Sequence[int],
        regions: Sequence[Region],
        keypoints: Float[Tensor, "points 2"],
        visible: Bool[Tensor, " points"],
    ) -> None:
        """Takes note of one sample.

        Args:
            prototypes: those of the sample's class.
            regions: where each of them was found, in any mapping's words.
            keypoints: of the sample, in the `pixel` frame.
            visible: which of them count.
        """
        hits = part_hits(regions, keypoints, visible, self.point_parts)
        chosen = torch.as_tensor(prototypes, dtype=torch.long, device=self.hits.device)
        self.hits.index_add_(0, chosen, hits.hit.to(self.hits))
        self.seen.index_add_(0, chosen, hits.visible.to(self.seen).expand(len(chosen), -1))

    def compute(self) -> ConsistencyScore:
        """The scores of everything so far, by all processes."""
        return consistency(best_parts(self.hits, self.seen), self.threshold)


def best_parts(hits: Int64[Tensor, "protos parts"], seen: Int64[Tensor, "protos parts"]) -> list[BestPart | None]:
    """The part of each prototype, from counts.

    Args:
        hits: in how many images a part lies in a prototype's region.
        seen: in how many images of the prototype's class the part is visible.

    Example:
        >>> best_parts(torch.tensor([[0, 3], [0, 0]]), torch.tensor([[0, 4], [0, 0]]))
        [BestPart(part=1, frequency=0.75, images=4), None]
    """
    return [_best(*counts) for counts in zip(hits.tolist(), seen.tolist(), strict=True)]


def consistency(best: Sequence[BestPart | None], threshold: float = THRESHOLD) -> ConsistencyScore:
    """Share and mean over the prototypes that are defined.

    >>> score = consistency([BestPart(0, 0.75, 4), BestPart(2, 1.0, 4), None])
    >>> score.share, score.soft, score.undefined
    (0.5, 0.875, 1)
    """
    frequencies = [part.frequency for part in best if part is not None]
    count = len(frequencies)
    return ConsistencyScore(
        share=sum(frequency >= threshold for frequency in frequencies) / count if count else None,
        soft=sum(frequencies) / count if count else None,
        undefined=len(best) - count,
        best=tuple(best),
    )


def _best(hits: list[int], seen: list[int]) -> BestPart | None:
    # Python's division rounds correctly, so that 4 of 5 images reach a threshold of 0.8; in float32 they might not.
    known = [BestPart(part, hits[part] / images, images) for part, images in enumerate(seen) if images]
    return max(known, key=lambda candidate: candidate.frequency, default=None)

"""Stability (Sec. 5): does a prototype find the same parts when noise is added to the image?

For each prototype: in what share of the images of its class are exactly the same parts in its region with noise and
without? S_sta is the mean of those shares over prototypes, so that every prototype counts once, however many images
its class has. The soft score asks part by part: the share of the visible parts about which both regions agree (a part
that both miss is agreed on, as it is in the printed formula), averaged in the same way.

Only visible parts are compared; noise moves none of them. An image that shows no part says nothing: it is left out,
where the printed formula would count it as stable. A prototype without an image that shows a part is undefined: it is
counted, and in no mean.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchmetrics import Metric

from pixpnet.data import Preprocessing
from pixpnet.metrics.part_hits import Region, part_hits

NOISE = 0.2
"""Standard deviation of the noise, in units of the normalised image."""


class HitAgreement(NamedTuple):
    """How one prototype's regions with and without noise agree.

    Attributes:
        same: share of images in which they hold the same parts.
        parts: mean share of the visible parts about which they agree.
        images: how many images of its class show a part.
    """

    same: float
    parts: float
    images: int


class StabilityScore(NamedTuple):
    """What stability came to.

    Attributes:
        share: mean over the defined prototypes of `HitAgreement.same`; None if none is defined.
        soft: mean over the defined prototypes of `HitAgreement.parts`; None if none is defined.
        undefined: how many prototypes have a class without an image that shows a part.
        agreements: for each prototype; None where undefined.
    """

    share: float | None
    soft: float | None
    undefined: int
    agreements: tuple[HitAgreement | None, ...]


class Stability(Metric):
    """`stability` over samples that come one by one, in one process or in several; see `Consistency`.

    >>> from pixpnet.box import Box
    >>> metric = Stability(num_prototypes=1, point_parts=(0, 1))
    >>> beak_and_tail, seen = torch.tensor([[1.0, 1.0], [6.0, 6.0]]), torch.tensor([True, True])
    >>> metric.update([0], [(Box(0, 0, 4, 4),)], [(Box(0, 0, 8, 8),)], beak_and_tail, seen)
    >>> metric.compute().agreements
    (HitAgreement(same=0.0, parts=0.5, images=1),)
    """

    full_state_update = False
    same: Tensor
    agreed: Tensor
    images: Tensor

    def __init__(self, num_prototypes: int, point_parts: Sequence[int], sync_on_compute: bool = True) -> None:
        super().__init__(sync_on_compute=sync_on_compute)
        self.point_parts = tuple(point_parts)
        self.add_state("same", torch.zeros(num_prototypes, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("agreed", torch.zeros(num_prototypes, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros(num_prototypes, dtype=torch.int64), dist_reduce_fx="sum")

    def update(
        self,
        prototypes: Sequence[int],
        regions: Sequence[Region],
        noisy_regions: Sequence[Region],
        keypoints: Float[Tensor, "points 2"],
        visible: Bool[Tensor, " points"],
    ) -> None:
        """Takes note of one sample.

        Args:
            prototypes: those of the sample's class.
            regions: where each of them was found.
            noisy_regions: where each of them was found in the same image with noise.
            keypoints: of the sample, in the `pixel` frame.
            visible: which of them count.
        """
        without = part_hits(regions, keypoints, visible, self.point_parts)
        with_noise = part_hits(noisy_regions, keypoints, visible, self.point_parts)
        count = int(without.visible.sum())
        if not count:
            return
        agree = (without.hit == with_noise.hit)[:, without.visible]
        chosen = torch.as_tensor(prototypes, dtype=torch.long, device=self.same.device)
        self.same.index_add_(0, chosen, agree.all(dim=1).to(self.same))
        self.agreed.index_add_(0, chosen, agree.to(self.agreed).mean(dim=1))
        self.images.index_add_(0, chosen, torch.ones_like(chosen))

    def compute(self) -> StabilityScore:
        """The scores of everything so far, by all processes."""
        counts = zip(self.same.tolist(), self.agreed.tolist(), self.images.tolist(), strict=True)
        return stability(
            [
                HitAgreement(same / images, agreed / images, images) if images else None
                for same, agreed, images in counts
            ]
        )


def stability(agreements: Sequence[HitAgreement | None]) -> StabilityScore:
    """Means over the prototypes that are defined.

    >>> score = stability([HitAgreement(1.0, 1.0, 2), HitAgreement(0.0, 0.5, 8), None])
    >>> score.share, score.soft, score.undefined
    (0.5, 0.75, 1)
    """
    defined = [agreement for agreement in agreements if agreement is not None]
    count = len(defined)
    return StabilityScore(
        share=sum(agreement.same for agreement in defined) / count if count else None,
        soft=sum(agreement.parts for agreement in defined) / count if count else None,
        undefined=len(agreements) - count,
        agreements=tuple(agreements),
    )


def with_noise(
    image: Float[Tensor, "3 height width"],
    generator: torch.Generator,
    sigma: float = NOISE,
    within: Preprocessing | None = None,
    limit: float | None = None,
) -> Float[Tensor, "3 height width"]:
    """A normalised image with normal noise.

    Args:
        image: normalised.
        generator: of the noise, on the CPU.
        sigma: standard deviation, in units of the normalised image.
        within: clip to what this preprocessing can give, black to white; None lets pixels be brighter than white, as
            published.
        limit: the largest that the noise itself may be, in units of the normalised image; None for no limit.
    """
    noise = sigma * torch.randn(image.shape, generator=generator)
    noisy = image + (noise if limit is None else noise.clamp(-limit, limit)).to(image)
    if within is None:
        return noisy
    mean, std = (torch.tensor(values).reshape(3, 1, 1).to(image) for values in (within.mean, within.std))
    return noisy.clamp(-mean / std, (1 - mean) / std)

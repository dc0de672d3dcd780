"""Mixup: images of a batch are mixed with one another, and so is what they should be called."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor
from torch.nn import functional as F


class Mixed(NamedTuple):
    """A batch in which each image is a mixture of two.

    Attributes:
        images: or features of images, mixed.
        targets: what share of each is of which class.
    """

    images: Shaped[Tensor, "batch ..."]
    targets: Float[Tensor, "batch classes"]


def mixup(
    images: Shaped[Tensor, "batch ..."], labels: Int64[Tensor, " batch"], num_classes: int, alpha: float
) -> Mixed:
    """Mixes each image with another one of the batch, all in one proportion that is drawn from Beta(alpha, alpha).

    Randomness is that of torch's own generator, on the CPU whatever the device.

    Args:
        images: of a batch, or what stands for them: features of a frozen stem are mixed in the same way.
        labels: of the images.
        num_classes: how many classes there are.
        alpha: small ones leave most mixtures near one of the two images.
    """
    share = float(torch.distributions.Beta(alpha, alpha).sample())
    partners = torch.randperm(len(labels)).to(labels.device)
    targets = F.one_hot(labels, num_classes).float()
    return Mixed(torch.lerp(images[partners], images, share), torch.lerp(targets[partners], targets, share))

"""The classifier that stands in for a part network: a backbone, its cells averaged, and a linear layer (App. F)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pixpnet.model import Backbone


@dataclass(frozen=True)
class PooledOutput:
    """What a `PooledLinear` answers with."""

    logits: Float[Tensor, "batch classes"]


class PooledLinear(nn.Module):
    """A backbone, the mean over its cells, and a linear layer.

    Attributes:
        backbone: cut at a layer.
        head: from the mean of the cells to logits.
    """

    def __init__(self, backbone: Backbone, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.channels, classes)

    def forward(self, images: Float[Tensor, "batch 3 height width"], frozen: bool = False) -> PooledOutput:
        """Logits; with `frozen`, no gradients reach the backbone."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            features = pool(self.backbone(images))
        return PooledOutput(self.head(features).float())


def pool(cells: Float[Tensor, "batch channels rows cols"]) -> Float[Tensor, "batch channels"]:
    """The mean over cells: adaptive average pooling to 1 x 1, flattened."""
    return cells.float().mean(dim=(-2, -1))

"""Prototypes that speak for several classes, or for none."""

import torch
from torch import Tensor

from pixpnet.model import PixPNet
from pixpnet.parts import Linear, Ownership


class Listed(Ownership):
    """Whatever a test says; a prototype without a class may get its patch from anywhere."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        first = mask.long().argmax(dim=0)
        self.register_buffer("labels", torch.where(mask.any(dim=0), first, -1), persistent=False)
        self.register_buffer("_mask", mask, persistent=False)

    def mask(self) -> Tensor:
        return self._mask

    def sources(self) -> Tensor:
        return self._mask | ~self._mask.any(dim=0)

    def rivals(self) -> tuple[Tensor, ...]:
        return ()


def owned(model: PixPNet, mask: list[list[int]]) -> PixPNet:
    """The same network with other owners of its prototypes, and a linear head that knows them."""
    model.ownership = Listed(torch.tensor(mask, dtype=torch.bool))
    model.head = Linear(model.ownership, 1.0, -0.5, learns=True)
    return model.eval()

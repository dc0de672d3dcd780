"""Networks so small that their fields and parameters are counted by hand."""

import torch
from torch import Tensor, nn


def chain() -> nn.Module:
    """A cell of layers 0, 1, 2, 3, 4 sees 3, 5, 6, 10, 14 pixels a side; 112 parameters, then 148, 0, 148, 148."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.Conv2d(4, 4, 3, padding=1),
    )


def pixelwise() -> nn.Module:
    """Nothing that could be edited."""
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU())


def even_window_behind() -> nn.Module:
    """Three convolutions in one module; the window of the last has no centre."""
    stages = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 2))
    return nn.Sequential(stages)


class Reordered(nn.Module):
    """Reads its channels in the order of a table, whose values no network without data has."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.register_buffer("table", torch.tensor([3, 2, 1, 0]))
        self.last = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.last(self.conv(images)[:, self.table])
        return answer

"""Networks so small that their fields and parameters are counted by hand."""

from torch import nn


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

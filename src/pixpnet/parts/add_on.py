"""The add-on layers f_add: from the backbone's channels to embeddings (Sec. 2, App. K)."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Keeps a cell finite whose channels are all alike (all 0 behind a ReLU, say); it becomes 0, up to rounding.
_SMALLEST_VARIANCE = 1e-5


class NormalizedCells(nn.Module):
    """Shifts and scales the channels of each cell to mean 0 and variance 1, by that cell alone.

    What a cell shows is then in the *pattern* of its channels, and no longer in how strongly the backbone answered,
    which differs two- to threefold between the cells of one photograph. A cell still sees what it saw.

    >>> cells = torch.arange(48.0).reshape(1, 8, 2, 3)
    >>> torch.allclose(NormalizedCells()(cells), NormalizedCells()(100 * cells + 1), atol=1e-3)
    True
    """

    def forward(self, cells: Float[Tensor, "batch channels rows cols"]) -> Float[Tensor, "batch channels rows cols"]:
        """The cells, normalised in float32 or better whatever the precision around it."""
        exact = cells.to(torch.promote_types(cells.dtype, torch.float32))
        centered = exact - exact.mean(dim=1, keepdim=True)
        normalized = centered * (centered.square().mean(dim=1, keepdim=True) + _SMALLEST_VARIANCE).rsqrt()
        return normalized.to(cells.dtype)


def build_add_on(
    channels: int,
    dim: int,
    last: Literal["xavier", "kaiming"] = "xavier",
    cells: Literal["plain", "normalized"] = "plain",
    channel_dropout: float = 0.0,
    deviation: float | None = None,
) -> nn.Sequential:
    """1x1 convolution, ReLU, 1x1 convolution, sigmoid; it sees what the cell under it sees and nothing else.

    Args:
        channels: of the backbone.
        dim: of embeddings.
        last: first weights of the convolution before the sigmoid.
        cells: whether the channels of each cell are normalised first.
        channel_dropout: share of the backbone's channels that are left out while learning.
        deviation: instead of `last`, weights so small that the embeddings of normalized cells lie about 0.5 with this
            standard deviation at first.

    >>> [type(layer).__name__ for layer in build_add_on(8, 4)]
    ['Conv2d', 'ReLU', 'Conv2d', 'Sigmoid']
    >>> [type(layer).__name__ for layer in build_add_on(8, 4, cells="normalized")]
    ['NormalizedCells', 'Conv2d', 'ReLU', 'Conv2d', 'Sigmoid']
    """
    first = nn.Conv2d(channels, dim, kernel_size=1)
    second = nn.Conv2d(dim, dim, kernel_size=1)
    nn.init.kaiming_normal_(first.weight, mode="fan_out", nonlinearity="relu")
    if deviation is not None:
        # The channels of a normalized cell have mean square 1, those behind the ReLU channels / dim, and the slope of
        # the sigmoid at 0 is 1/4.
        nn.init.normal_(second.weight, std=4 * deviation * channels**-0.5)
    elif last == "xavier":
        # App. K: the gain of a ReLU is wrong before a sigmoid.
        nn.init.xavier_normal_(second.weight, gain=1.0)
    else:
        nn.init.kaiming_normal_(second.weight, mode="fan_out", nonlinearity="relu")
    for layer in (first, second):
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    layers = nn.Sequential(first, nn.ReLU(), second, nn.Sigmoid())
    return with_prepared_cells(layers, cells, channel_dropout)


def stacked_add_on(
    channels: int,
    dim: int,
    activations: Sequence[type[nn.Module]],
    cells: Literal["plain", "normalized"] = "plain",
    channel_dropout: float = 0.0,
) -> nn.Sequential:
    """1x1 convolutions, each with what follows it (`nn.Identity` for nothing); Kaiming weights, biases 0.

    >>> [type(layer).__name__ for layer in stacked_add_on(8, 4, [nn.Tanh, nn.Identity])]
    ['Conv2d', 'Tanh', 'Conv2d', 'Identity']
    """
    layers: list[nn.Module] = []
    for activation in activations:
        layer = nn.Conv2d(dim if layers else channels, dim, kernel_size=1)
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
        layers += [layer, activation()]
    return with_prepared_cells(nn.Sequential(*layers), cells, channel_dropout)


def with_prepared_cells(
    layers: nn.Sequential, cells: Literal["plain", "normalized"], channel_dropout: float
) -> nn.Sequential:
    """An add-on that normalises cells, and leaves out channels while learning, before anything else."""
    # Beside the numbers, so that weights have the same names in files of all kinds.
    before: list[tuple[str, nn.Module]] = []
    if cells == "normalized":
        before.append(("normalized", NormalizedCells()))
    if channel_dropout:
        before.append(("dropout", nn.Dropout2d(channel_dropout)))
    return nn.Sequential(OrderedDict([*before, *layers.named_children()])) if before else layers

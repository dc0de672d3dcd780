"""The add-on layers f_add: from the backbone's channels to embeddings (Sec. 2, App. K)."""

from torch import nn

from pixpnet.recipe import Architecture


def build_add_on(channels: int, architecture: Architecture) -> nn.Sequential:
    """1x1 convolution, ReLU, 1x1 convolution, sigmoid; it sees what the cell under it sees and nothing else.

    >>> [type(layer).__name__ for layer in build_add_on(8, Architecture())]
    ['Conv2d', 'ReLU', 'Conv2d', 'Sigmoid']
    """
    first = nn.Conv2d(channels, architecture.dim, kernel_size=1)
    second = nn.Conv2d(architecture.dim, architecture.dim, kernel_size=1)
    nn.init.kaiming_normal_(first.weight, mode="fan_out", nonlinearity="relu")
    if architecture.add_on == "xavier":
        # App. K: the gain of a ReLU is wrong before a sigmoid.
        nn.init.xavier_normal_(second.weight, gain=1.0)
    else:
        nn.init.kaiming_normal_(second.weight, mode="fan_out", nonlinearity="relu")
    for layer in (first, second):
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    return nn.Sequential(first, nn.ReLU(), second, nn.Sigmoid())

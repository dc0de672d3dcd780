"""Random small networks of every operation that has an incremental rule."""

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from pixpnet.parts import NormalizedCells


class Residual(nn.Module):
    """Adds a shortcut, in place, as ResNet does."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        out += self.shortcut(x)
        return out.relu_()


class Branches(nn.Module):
    """Channels side by side, as in SqueezeNet and DenseNet."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class Gate(nn.Module):
    """A product of two results, through a functional activation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.conv(x))


class OneForAllChannels(nn.Module):
    """A product with a single map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).sigmoid() * x


def norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm with statistics that are not those of a new one."""
    made = nn.BatchNorm2d(channels)
    nn.init.normal_(made.running_mean, std=0.3)
    nn.init.uniform_(made.running_var, 0.5, 2)
    nn.init.uniform_(made.weight, 0.5, 1.5)
    nn.init.normal_(made.bias, std=0.3)
    return made


@st.composite
def networks(draw: st.DrawFn, largest: int = 5) -> nn.Sequential:
    """A stack of up to some steps."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw(st.integers(0, 99)))
        return stack(draw, largest)


def stack(draw: st.DrawFn, largest: int) -> nn.Sequential:
    """Like `networks`, with weights from torch's global generator."""
    steps: list[nn.Module] = []
    channels = 3
    for _ in range(draw(st.integers(1, largest))):
        kinds = [
            "conv",
            "grouped",
            "norm",
            "relu",
            "max",
            "average",
            "residual",
            "halving",
            "branches",
            "gate",
            "one for all",
            "cells",
            "other",
        ]
        kind = draw(st.sampled_from(kinds))
        wider = draw(st.sampled_from([2, 4, 6]))
        if kind == "conv":
            kernel, dilation = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (3, 2), (5, 1)]))
            padding = draw(st.integers(0, 2))
            stride = draw(st.sampled_from([1, 1, 2, 3]))
            padding = max(padding, (dilation * (kernel - 1) + 1) // 2)
            steps.append(nn.Conv2d(channels, wider, kernel, stride, padding, dilation, bias=draw(st.booleans())))
            channels = wider
        elif kind == "grouped":
            steps.append(nn.Conv2d(channels, 2 * channels, 3, draw(st.integers(1, 2)), 1, groups=channels))
            channels = 2 * channels
        elif kind == "norm":
            steps.append(norm(channels))
        elif kind == "relu":
            steps.append(nn.ReLU(inplace=draw(st.booleans())))
        elif kind == "max":
            kernel = draw(st.integers(2, 3))
            steps.append(nn.MaxPool2d(kernel, draw(st.integers(1, 2)), kernel // 2, ceil_mode=draw(st.booleans())))
        elif kind == "average":
            kernel = draw(st.integers(2, 3))
            options = {"ceil_mode": draw(st.booleans()), "count_include_pad": draw(st.booleans())}
            steps.append(nn.AvgPool2d(kernel, draw(st.integers(1, 2)), kernel // 2, **options))
        elif kind == "residual":
            body = nn.Sequential(
                nn.Conv2d(channels, channels, 3, padding=1), norm(channels), nn.Conv2d(channels, channels, 1)
            )
            steps.append(Residual(body, nn.Identity()))
        elif kind == "halving":
            body = nn.Sequential(nn.Conv2d(channels, wider, 3, 2, 1), nn.ReLU(), nn.Conv2d(wider, wider, 3, padding=1))
            steps.append(Residual(body, nn.Conv2d(channels, wider, 1, 2)))
            channels = wider
        elif kind == "branches":
            steps.append(
                Branches(nn.Conv2d(channels, wider, 1), nn.Conv2d(channels, wider, 3, padding=1), nn.Identity())
            )
            channels += 2 * wider
        elif kind == "gate":
            steps.append(Gate(channels))
        elif kind == "one for all":
            steps.append(OneForAllChannels(channels))
        elif kind == "cells":
            steps.append(NormalizedCells())
        else:
            steps.append(
                draw(st.sampled_from([nn.SiLU(), nn.Dropout(), nn.Hardtanh(-0.5, 0.5), nn.LeakyReLU(inplace=True)]))
            )
    return nn.Sequential(*steps)

"""Networks whose Python code does what operations do not show, or shows late."""

import torch
from torch import Tensor, nn


class InPlace(nn.Module):
    """The second reader of a memory sees what was written to it meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        before = self.first(x)
        alias = before.detach()
        alias.relu_()
        return before + self.second(alias)


class Branching(nn.Module):
    """Does another thing for bright images."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if float(x.mean()) > 10 else x * 1


class Noticing(nn.Module):
    """Python code that looks at values behind torch's back."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (1.0 + abs(x.detach().flatten().tolist()[0]))


class BrightOnes(nn.Module):
    """Looks at a value behind torch's back too, but noise never shows it."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.detach().numpy().mean() > 10 else x * 1


class Counting(nn.Module):
    """How often it was called."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.calls = network, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        result: Tensor = self.network(x)
        return result


class Several(nn.Module):
    """Results that are split, moved, shown as views and put together again."""

    def forward(self, x: Tensor) -> Tensor:
        one, two, three = x.split(1, dim=1)
        largest, where = torch.nn.functional.max_pool2d(two, 3, 1, 1, return_indices=True)
        again = torch.nn.functional.max_unpool2d(largest, where, 1, 1, 0, output_size=two.shape[-2:])
        return torch.cat([one.transpose(-1, -2).transpose(-1, -2), again, three.roll(1, -1), x.flip(-1)[:, :1]], dim=1)

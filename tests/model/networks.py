"""Networks whose code asks for more than a row of modules."""

from torch import Tensor, nn


class Branching(nn.Module):
    """Looks at the size of its input, so its code cannot be truncated, and calls one ReLU three times."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(n, 6, 3, padding=1) for n in (3, 6, 6))
        self.relu = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        maps = self.relu(self.first(images))
        if maps.shape[-1] > 16:
            maps = maps[..., ::2, ::2]
        return self.relu(self.third(self.relu(self.second(maps)))).mean(dim=(2, 3))

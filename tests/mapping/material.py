"""Tiny networks with fields of every kind, scenes with any similarities, and Algorithm 2 written out."""

import math
import warnings
from collections import OrderedDict

import torch
from torch import Tensor, nn

from pixpnet.data import Preprocessing
from pixpnet.fields import Field
from pixpnet.mapping import Scene
from pixpnet.mapping.scene import GridScene
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.errors import FieldWarning

SIZE = 24


class Cross(nn.Module):
    """Cells that see a row and a column: no product of rows and columns."""

    def __init__(self) -> None:
        super().__init__()
        self.flat = nn.Conv2d(3, 4, (1, 5), stride=3, padding=(0, 2))
        self.tall = nn.Conv2d(3, 4, (7, 1), stride=3, padding=(3, 0))

    def forward(self, images: Tensor) -> Tensor:
        return self.flat(images) + self.tall(images)


class Everything(nn.Module):
    """Cells that see the whole image."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.Conv2d(3, 4, 6, stride=6)

    def forward(self, images: Tensor) -> Tensor:
        return self.cells(images) + images.mean()


NETWORKS = {
    "solid": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, stride=2, padding=1)
    ),
    "large": lambda: nn.Conv2d(3, 4, (15, 19), stride=4, padding=(7, 9)),
    "holes": lambda: nn.Sequential(nn.Conv2d(3, 4, 1, stride=2), nn.Conv2d(4, 4, 3, padding=1)),
    "runs": lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=4, dilation=(4, 5)), nn.AvgPool2d((2, 3), stride=3)),
    "empty": lambda: nn.Sequential(nn.Conv2d(3, 4, 1, padding=(9, 4)), nn.MaxPool2d(4)),
    "apart": lambda: nn.Conv2d(3, 4, 2, stride=5),
    "cross": Cross,
    "everything": Everything,
}


def network(kind: str, size: int = SIZE, **preprocessing: object) -> PixPNet:
    """Two classes with two prototypes each, in eval mode."""
    architecture = Architecture(**{"dim": 5, "prototypes_per_class": 2, **preprocessing})  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldWarning)
        torch.manual_seed(0)
        backbone = Backbone(nn.Sequential(NETWORKS[kind]()), "0", (size, size))
        return PixPNet(backbone, architecture, ("jay", "wren"), Preprocessing().scaled_to(size)).eval()


def two_grids(size: int = SIZE, **preprocessing: object) -> PixPNet:
    """Two classes with three prototypes each: two of them look at 12 x 12 cells of 3 x 3 pixels, one at 4 x 4 coarser.

    Prototypes 0 to 3 are those of the first grid (two for each class), 4 and 5 those of the second.
    """
    network = nn.Sequential(
        OrderedDict(
            near=nn.Conv2d(3, 4, 3, stride=2, padding=1), relu=nn.ReLU(), far=nn.Conv2d(4, 6, 5, stride=3, padding=2)
        )
    )
    architecture = Architecture(**{"dim": 5, "prototypes_per_class": 3, **preprocessing})  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = Backbone(network, "near,far", (size, size))
        return PixPNet(backbone, architecture, ("jay", "wren"), Preprocessing().scaled_to(size)).eval()


def cells_of(field: Field) -> tuple[int, int]:
    """Rows and columns."""
    return field.shape[1], field.shape[2]


def staged(model: PixPNet, maps: Tensor, size: tuple[int, int], generator: torch.Generator | None = None) -> Scene:
    """A scene with the similarities that a test wants."""
    flat = maps.flatten(1).argmax(dim=1)
    best = torch.stack([flat // maps.shape[2], flat % maps.shape[2]], dim=1)
    places = tuple(range(len(maps)))
    return Scene(model, torch.zeros(3, *size), places, (GridScene(model.grids[0], places, maps, best),), generator)


def algorithm_2(field: Field, maps: Tensor, gaussian: bool = True) -> Tensor:
    """Pixel by pixel, in double precision; a map with negative similarities fades to twice the lowest of them."""
    height, width = field.space
    painted = []
    for similarities in maps.double().tolist():
        background = 2 * min(0.0, *(value for line in similarities for value in line))
        heat = [[background] * width for _ in range(height)]
        for row, line in enumerate(similarities):
            for col, similarity in enumerate(line):
                for y0, x0, y1, x1 in field.boxes(row, col):
                    weights = _kernel(y1 - y0, x1 - x0)
                    for y in range(y0, y1):
                        for x in range(x0, x1):
                            weight = weights[y - y0][x - x0] if gaussian else 1.0
                            heat[y][x] = max(heat[y][x], background + (similarity - background) * weight)
        painted.append(heat)
    return torch.tensor(painted).float()


def _kernel(height: int, width: int) -> list[list[float]]:
    sigma = max(height, width)
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    raw = [
        [math.exp(-((y - middle_y) ** 2 + (x - middle_x) ** 2) / (2 * sigma**2)) for x in range(width)]
        for y in range(height)
    ]
    largest = max(map(max, raw))
    return [[value / largest for value in line] for line in raw]

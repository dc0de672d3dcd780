"""Networks whose answers can be worked out on paper.

A cell of the toy is the mean colour of 4 x 4 pixels, behind the add-on's sigmoid: 1/2 where a channel is dark, and
BRIGHT = sigmoid(1) where it is full. With the squared distance, two colours that differ in k channels are k * STEP
apart, and with epsilon 1 their similarity is log(1 / (1 + k * STEP) + 1).
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.data import Preprocessing, Sample, preprocess
from pixpnet.data.sample import NO_ANNOTATION, source_sample
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, Origin, PixPNet

BRIGHT = 1 / (1 + math.exp(-1))
STEP = (BRIGHT - 0.5) ** 2
RED, YELLOW, BLUE, WHITE, BLACK = (1, 0, 0), (1, 1, 0), (0, 0, 1), (1, 1, 1), (0, 0, 0)
PLAIN = Preprocessing(shortest_side=None, crop=8, size=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
NAMES = ("warm", "cold")


def similarity(channels: int) -> float:
    """Of two colours that differ in so many channels."""
    return math.log(1 / (1 + channels * STEP) + 1)


def toy(network: nn.Module | None = None, size: tuple[int, int] = (8, 8), **preprocessing: object) -> PixPNet:
    """Prototypes red and yellow (warm), blue and white (cold)."""
    architecture = Architecture(
        **{  # type: ignore[arg-type]
            "dim": 3,
            "prototypes_per_class": 2,
            "distance": "squared_l2",
            "epsilon": 1.0,
            "own_weight": 1.0,
            **preprocessing,
        }
    )
    backbone = Backbone(nn.AvgPool2d(4) if network is None else network, "", size)
    model = PixPNet(backbone, architecture, NAMES, PLAIN, "")
    with torch.no_grad():
        for layer in (model.add_on[0], model.add_on[2]):
            layer.weight.copy_(torch.eye(3)[:, :, None, None])
        colors = torch.tensor([RED, YELLOW, BLUE, WHITE], dtype=torch.float32)
        model.prototypes.copy_(colors.sigmoid()[:, :, None, None].expand_as(model.prototypes))
    return model.eval()


def toy_with_two_grids() -> PixPNet:
    """Cells of 2 x 2 pixels and of 4 x 4: red (warm) and blue (cold) look at the small ones, yellow and white at the
    large ones."""
    architecture = Architecture(dim=3, prototypes_per_class=2, distance="squared_l2", epsilon=1.0)
    backbone = Backbone(nn.Sequential(nn.AvgPool2d(2), nn.AvgPool2d(2)), "0,1", (8, 8))
    model = PixPNet(backbone, architecture, NAMES, PLAIN, "")
    with torch.no_grad():
        for grid, colors in zip(model.grids, ((RED, BLUE), (YELLOW, WHITE)), strict=True):
            for layer in (grid.add_on[0], grid.add_on[2]):
                layer.weight.copy_(torch.eye(3)[:, :, None, None])
            grid.comparison.prototypes.copy_(torch.tensor(colors).float().sigmoid()[:, :, None, None])
    return model.eval()


def quarters(top: tuple[tuple[int, int, int], ...], bottom: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """A picture of coloured squares of 4 x 4 pixels."""
    return (255 * np.array([top, bottom], np.uint8)).repeat(4, axis=0).repeat(4, axis=1)


def as_sample(pixels: np.ndarray, name: str = "a picture") -> Sample:
    """A picture as it is read from a file."""
    return source_sample(pixels, -1, name, NO_ANNOTATION, masks=None)


# Red, yellow / blue, black: red, yellow and blue are found as they are, white is one channel away from yellow.
PICTURE = quarters((RED, YELLOW), (BLUE, BLACK))


def real(head: str = "class_sum", **settings: object) -> PixPNet:
    """A small backbone with random weights, three classes with two prototypes each."""
    architecture = Architecture(**{"dim": 8, "prototypes_per_class": 2, "head": head, **settings})  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        backbone = Backbone(zoo.build("small-29"), "", (48, 48))
        preprocessing = replace(PLAIN, crop=48, size=48, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
        model = PixPNet(backbone, architecture, ("wren", "jay", "Grünfink"), preprocessing, "small-29").eval()
        with torch.no_grad():
            embeddings = model.embed(torch.randn(1, 3, 48, 48))[0][0].flatten(1)
            # Patches of another picture, so that distances are those of a trained network: neither 0 nor all alike.
            if model.prototypes.shape[-2:] == (1, 1):
                model.prototypes.copy_(embeddings.T[[3, 8, 11, 14, 20, 27], :, None, None])
            for weight in model.head.parameters():
                weight.add_(0.3 * torch.randn(weight.shape))
    return model


def real_with_two_grids(head: str = "class_sum", **settings: object) -> PixPNet:
    """A small backbone cut at two stages: three classes, two prototypes of each at either."""
    architecture = Architecture(**{"dim": 8, "prototypes_per_class": 4, "head": head, **settings})  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        backbone = Backbone(zoo.build("small-21"), "stage2,stage3", (48, 48))
        preprocessing = replace(PLAIN, crop=48, size=48, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
        model = PixPNet(backbone, architecture, ("wren", "jay", "Grünfink"), preprocessing, "small-21").eval()
        with torch.no_grad():
            for grid, embeddings in zip(model.grids, model.embed(torch.randn(1, 3, 48, 48)), strict=True):
                patches = embeddings[0].flatten(1).T[[3, 8, 11, 14, 20, 27], :, None, None]
                grid.comparison.prototypes.copy_(patches)
            for weight in model.head.parameters():
                weight.add_(0.3 * torch.randn(weight.shape))
    return model


def photo(seed: int = 0, size: tuple[int, int] = (48, 48)) -> np.ndarray:
    """Noise in coarse squares."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (size[0] // 4, size[1] // 4, 3), np.uint8)
    return coarse.repeat(4, axis=0).repeat(4, axis=1)


def seen(model: PixPNet, pixels: np.ndarray) -> Tensor:
    """A picture as the network gets it."""
    return preprocess(as_sample(pixels), model.preprocessing).image.as_subclass(Tensor)


def origins_of(model: PixPNet) -> tuple[Origin, ...]:
    """Made up, one for each prototype; files are twice as large and begin at (10, 20)."""
    matrix = (2.0, 0.0, 10.0, 0.0, 2.0, 20.0, 0.0, 0.0, 1.0)
    return tuple(
        Origin(n, int(label), f"train/{n}.jpg", 0, 0, (Box(1, 2, 3, 4),), matrix, 0.0, "image", model.grid_of(n).number)
        for n, label in enumerate(model.labels.tolist())
    )


def write_pictures(folder: Path, names: tuple[str, ...]) -> None:
    """Small files with these names."""
    from PIL import Image

    folder.mkdir()
    for name in names:
        Image.new("RGB", (4, 4), (200, 30, 30)).save(folder / name)

"""Networks small enough to compute on paper, and images put together pixel by pixel."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pixpnet.data import Preprocessing
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.errors import FieldWarning


@dataclass(frozen=True)
class Picture:
    """A sample with nothing but what the test needs."""

    image: Tensor
    label: int
    id: str


def network_of(module: nn.Module, size: int, seed: int = 0, **preprocessing: object) -> PixPNet:
    """A network of three classes around any module, cut at its end."""
    architecture = Architecture(**{"dim": 5, "prototypes_per_class": 2, **preprocessing})  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldWarning)
        torch.manual_seed(seed)
        backbone = Backbone(module, "", (size, size))
        return PixPNet(backbone, architecture, ("a", "b", "c"), Preprocessing().scaled_to(size)).eval()


def block_sums() -> PixPNet:
    """On paper: an image of 4 x 4, four cells of 2 x 2 pixels, each the sum z of the first channel.

    Every prototype is the number 4, the distance is (z - 4)^2 and the similarity log(1 / (d + 1) + 1).
    """
    conv = nn.Conv2d(3, 1, 2, stride=2, bias=False)
    conv.weight.data = torch.tensor([1.0, 0.0, 0.0])[None, :, None, None].expand(1, 3, 2, 2).clone()
    model = network_of(conv, 4, dim=1, distance="squared_l2", epsilon=1.0)
    model.add_on = nn.Sequential().eval()
    model.prototype_layer.prototypes.data.fill_(4.0)
    return model


def ones_in_a_corner() -> Tensor:
    """The image whose top left cell is the prototype of `block_sums` itself; all else is 0."""
    image = torch.zeros(3, 4, 4)
    image[0, :2, :2] = 1
    return image


CORNER = (0, 1, 4, 5)
ELSEWHERE = (2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)


def painted(start: Tensor, image: Tensor, order: Sequence[int]) -> Tensor:
    """The images after no pixel, one pixel, two pixels ..., by painting one after the other."""
    images = [start.clone()]
    for pixel in order:
        row, col = divmod(int(pixel), image.shape[2])
        images.append(images[-1].clone())
        images[-1][:, row, col] = image[:, row, col]
    return torch.stack(images)

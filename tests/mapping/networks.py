"""Networks of every family with random weights, batch norms that are not trivial, and their scenes; made once."""

import copy
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.mapping.relevance import prp
from pixpnet.mapping.scene import Heatmaps, Scene, scene
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.errors import FieldWarning

SIZE = (96, 80)
PREPROCESSING = Preprocessing(shortest_side=96, crop=96, size=96, mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))

# Cuts whose cells see less than everything, where the family has one at this size.
FAMILIES = {
    "vgg11": "maxpool4",
    "vgg11_bn": "maxpool4",
    "resnet18": "layer2",
    "resnext50_32x4d": "layer2",
    "wide_resnet50_2": "layer2",
    "densenet121": "features.denseblock2.denselayer3",
    "squeezenet1_0": "maxpool2",
    "inception_v3": "Mixed_5b",
    "googlenet": "inception3a",
    "small-37": "",
}
# Not asked for, but the same rules carry them: gates, shuffles, linear bottlenecks, averages in shortcuts.
BEYOND = {
    "mobilenet_v2": "features.3",
    "mobilenet_v3_small": "features.1",
    "efficientnet_b0": "features.2",
    "shufflenet_v2_x1_0": "stage2",
    "timm:resnet26d": "layer2",
}


def build(name: str, at: str, biased: bool, **preprocessing: object) -> PixPNet:
    """A network in eval mode with four prototypes."""
    model = around(
        lambda: zoo.build(name), at, SIZE, Architecture(**{"dim": 16, "prototypes_per_class": 2, **preprocessing})
    )  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        randomize(model, biased)
    return model


def around(
    network: Callable[[], nn.Module],
    at: str,
    size: tuple[int, int],
    architecture: Architecture,
    preprocessing: Preprocessing = PREPROCESSING,
) -> PixPNet:
    """A network of two classes in eval mode; it may see everything, as gates do."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldWarning)
        torch.manual_seed(0)
        return PixPNet(Backbone(network(), at, size), architecture, ("jay", "wren"), preprocessing).eval()


def randomize(model: nn.Module, biased: bool) -> None:
    """Scales of both signs, and biases or none."""
    spread = 0.3 if biased else 0.0
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.uniform_(-0.5, 1.5)
            module.bias.normal_(0, spread)
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, spread)
            module.running_var.uniform_(0.5, 2)
        elif isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                module.bias.normal_(0, spread)


def picture(size: tuple[int, int] = SIZE) -> Tensor:
    """Pixels between black and white, normalised."""
    colors = torch.rand(3, *size, generator=torch.Generator().manual_seed(3))
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (PREPROCESSING.mean, PREPROCESSING.std))
    return (colors - mean) / std


@cache
def family(name: str) -> PixPNet:
    """The network of a family, with its fields, which take longer than all the rest; use copies."""
    model = build(name, {**FAMILIES, **BEYOND}[name], biased=True)
    model.field_at(SIZE)
    return model


@cache
def explained(name: str, biased: bool) -> tuple[Scene, Heatmaps]:
    """Three prototypes of a family's network in one picture."""
    model = copy.deepcopy(family(name))
    if not biased:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(2)
            randomize(model, biased=False)
    about = scene(model, picture(), [0, 3, 1])
    return about, prp(about)


def kept(about: Scene, result: Heatmaps) -> Tensor:
    """How much of each similarity arrived at the pixels; 1 is all."""
    largest = torch.stack([similarities.double().amax() for similarities in about.similarity_maps])
    return result.maps.double().sum(dim=(1, 2)) / largest

"""A small model that is built once, and copies of it."""

import copy

import pytest
import torch

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.data import Preprocessing
from pixpnet.model import Backbone, Origin, PixPNet
from pixpnet.recipe import Architecture

SIZE = 40
PREPROCESSING = Preprocessing(shortest_side=50, crop=44, size=SIZE, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))


@pytest.fixture(scope="session")
def squeezed() -> Backbone:
    """The first pooling layer of a SqueezeNet; use copies."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Backbone(zoo.build("squeezenet1_0"), "maxpool1", (SIZE, SIZE))


def small_model(squeezed: Backbone, **how: object) -> PixPNet:
    """A network of three classes with two prototypes each."""
    architecture = Architecture(**{"dim": 6, "prototypes_per_class": 2, **how})  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = PixPNet(
            copy.deepcopy(squeezed), architecture, ("wren", "Grünfink", "日本"), PREPROCESSING, "squeezenet1_0"
        )
    return model.eval()


def origins_of(model: PixPNet) -> tuple[Origin, ...]:
    """Made up, one for each prototype."""
    matrix = (1.25, 0.0, -3.0, 0.0, 1.1, 2.0, 0.0, 0.0, 1.0)
    return tuple(
        Origin(
            n, int(label), f"images/ü {n}.jpg", n, 2, (Box(0, n, 5, n + 4), Box(6, 0, 7, 1)), matrix, 0.1 * n, "image"
        )
        for n, label in enumerate(model.labels)
    )


@pytest.fixture
def model(squeezed: Backbone) -> PixPNet:
    """The small model with made up origins."""
    made = small_model(squeezed)
    made.origins = origins_of(made)
    return made


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(5))

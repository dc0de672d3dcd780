"""A small model that is built once, copies of it, its file, and little memory to load one in."""

import copy
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.data import Preprocessing
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, Origin, PixPNet

SIZE = 40
PREPROCESSING = Preprocessing(shortest_side=50, crop=44, size=SIZE, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))


@pytest.fixture(scope="session")
def squeezed() -> Backbone:
    """The first pooling layer of a SqueezeNet; use copies."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Backbone(zoo.build("squeezenet1_0"), "maxpool1", (SIZE, SIZE))


def small_model(squeezed: Backbone, **preprocessing: object) -> PixPNet:
    """A network of three classes with two prototypes each."""
    architecture = Architecture(**{"dim": 6, "prototypes_per_class": 2, **preprocessing})  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = PixPNet(
            copy.deepcopy(squeezed), architecture, ("wren", "Grünfink", "日本"), PREPROCESSING, "squeezenet1_0"
        )
    return model.eval()


def origins_of(model: PixPNet) -> tuple[Origin, ...]:
    """Made up, one for each prototype; boxes are those of a 7 x 7 convolution and a 3 x 3 pooling, both of stride 2."""
    matrix = (1.25, 0.0, -3.0, 0.0, 1.1, 2.0, 0.0, 0.0, 1.0)
    height = 11 + 4 * (model.architecture.prototype_rows - 1)
    width = 11 + 4 * (model.architecture.prototype_cols - 1)
    return tuple(
        Origin(n, int(label), f"images/ü {n}.jpg", n, 2, (_box(4 * n, 8, height, width),), matrix, 0.1 * n, "image")
        for n, label in enumerate(model.labels)
    )


def _box(top: int, left: int, height: int, width: int) -> Box:
    return Box(top, left, min(SIZE, top + height), min(SIZE, left + width))


@pytest.fixture
def model(squeezed: Backbone) -> PixPNet:
    """The small model with made up origins."""
    made = small_model(squeezed)
    made.origins = origins_of(made)
    return made


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="session")
def saved(squeezed: Backbone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good file, its folder holding nothing else; tests change copies."""
    model = small_model(squeezed, head="linear")
    model.origins = origins_of(model)
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    model.save(path)
    return path


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Two gigabytes more than now, and not a byte further."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)

"""The engine against the NaN probe on whole architectures: every layer, channel and pixel of small images."""

from itertools import product

import pytest
import torch
from torch import nn

from pixpnet import zoo
from pixpnet.fields.verify import random_pixels, verify_fields

# The smallest input that each family can be run on; ImageNet networks end in a single cell there.
SMALLEST = {"densenet": 32, "inception": 75, "resnet": 16, "resnext": 16, "wide": 16, "squeezenet": 21, "vgg": 32}


def smallest(model: str) -> int:
    return next(size for family, size in SMALLEST.items() if model.startswith(family))


def build(model: str) -> nn.Module:
    """The network with quickly made weights: their values cannot matter, so their usual initialisation need not run."""
    network = zoo.build(model, device="meta").to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    for name, tensor in network.state_dict().items():
        if name.endswith("running_var"):
            tensor.fill_(1.0)
        elif tensor.is_floating_point():
            tensor.uniform_(-0.05, 0.05, generator=generator)
    return network


# Deep networks whose every pixel takes a quarter of a minute to ten minutes each, which is what the slow run is for.
DEEP = {
    *("densenet121", "densenet161", "densenet169", "densenet201", "inception_v3", "vgg11", "vgg13", "vgg16", "vgg19"),
    *("resnet101", "resnet152", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2"),
}
# One of each family: its siblings have more of the same blocks.
LINES = ("densenet121", "inception_v3", "resnet101", "resnext101_32x8d", "vgg16", "wide_resnet50_2")


@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=pytest.mark.slow if name in DEEP else ()) for name in zoo.PAPER_LAYERS]
)
def test_every_pixel_of_a_small_image_comes_out_where_the_fields_say(model: str) -> None:
    size = smallest(model)
    verification = verify_fields(build(model), (3, size, size), list(product(range(size), range(size))), batch=25)
    assert verification.pixels == size * size
    assert verification.passed, verification


@pytest.mark.parametrize("model", LINES)
def test_every_column_and_row_of_a_small_image_comes_out_where_the_fields_say(model: str) -> None:
    """A whole row and a whole column: what networks do to rows does not depend on the column, and vice versa."""
    size = smallest(model)
    lines = {(size // 2, x) for x in range(size)} | {(y, size // 7 + 1) for y in range(size)}
    verification = verify_fields(build(model), (3, size, size), sorted(lines), batch=25)
    assert verification.passed, verification


@pytest.mark.parametrize("model", zoo.PAPER_LAYERS)
def test_sampled_pixels_at_full_size_come_out_where_the_fields_say(model: str) -> None:
    size = 299 if model == "inception_v3" else 224
    verification = verify_fields(build(model), (3, size, size), random_pixels((size, size), 2, seed=0))
    assert verification.passed, verification

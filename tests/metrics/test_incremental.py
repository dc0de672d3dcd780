"""The incremental evaluation against the network itself, on whole maps."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.metrics.ordering import plan as plan_module
from pixpnet.metrics.ordering.full import full_distance_maps
from pixpnet.metrics.ordering.incremental import incremental_distance_maps
from pixpnet.metrics.ordering.plan import plan
from pixpnet.metrics.ordering.rules import NoIncrementalRule
from pixpnet.model import PixPNet
from tests.metrics.random_networks import networks
from tests.metrics.toys import network_of, painted
from tests.tracing.networks import Branching, InPlace, Noticing

SIZE = 13


def pictures(seed: int, size: int = SIZE) -> tuple[Tensor, Tensor, Tensor]:
    """A start, an image and an order that is in part clustered and in part scattered."""
    generator = torch.Generator().manual_seed(seed)
    start, image = torch.randn(2, 3, size, size, generator=generator)
    near = (torch.arange(size)[:, None] - 4).square() + (torch.arange(size) - 6).square()
    order = torch.cat([near.flatten().argsort()[:30], torch.randperm(size * size, generator=generator)])
    first = [int((order == pixel).nonzero()[0]) for pixel in range(size * size)]
    return start, image, order[torch.tensor(sorted(first))]


def similarities(model: PixPNet, distances: Tensor) -> Tensor:
    return model.grids[0].comparison.similarity(distances.double())


def similarity_maps(model: PixPNet, images: Tensor, chosen: Tensor) -> Tensor:
    """As the network itself says."""
    with torch.no_grad():
        matches = model(images).matches
    return torch.stack(model.similarity_maps(matches, chosen.tolist()), dim=1)


def assert_equals_the_network(model: PixPNet, block: int, seed: int, steps: int, tolerance: float) -> None:
    start, image, order = pictures(seed)
    start, image = start.to(model.prototypes), image.to(model.prototypes)
    chosen = torch.tensor([1, 4])
    prepared = replace(plan(model, (SIZE, SIZE)), block=block)
    result = torch.cat(list(incremental_distance_maps(model, prepared, start, image, order[:steps], chosen)))
    expected = similarity_maps(model, painted(start, image, order[:steps].tolist()), chosen)
    torch.testing.assert_close(similarities(model, result), expected, rtol=tolerance, atol=0)


@settings(max_examples=30)
@given(networks(), st.integers(1, 40), st.integers(0, 99), st.sampled_from([0.0, 0.7, 1.1]))
def test_whole_maps_are_those_of_the_network_after_every_step(
    network: nn.Module, block: int, seed: int, nearly_all: float
) -> None:
    model = network_of(network, SIZE, seed).double()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "_NEARLY_ALL", nearly_all)
        assert_equals_the_network(model, block, seed, steps=40, tolerance=1e-9)


@settings(max_examples=15)
@given(networks(), st.integers(1, 40), st.integers(0, 99))
def test_single_precision_is_enough_for_five_digits(network: nn.Module, block: int, seed: int) -> None:
    model, chosen = network_of(network, SIZE, seed), torch.tensor([1, 4])
    start, image, order = pictures(seed)
    prepared = replace(plan(model, (SIZE, SIZE)), block=block)
    result = torch.cat(list(incremental_distance_maps(model, prepared, start, image, order[:40], chosen)))
    expected = torch.cat(list(full_distance_maps(model, start, image, order, chosen, torch.arange(41))))
    torch.testing.assert_close(similarities(model, result), similarities(model, expected), rtol=1e-5, atol=0)


def test_whole_passes_see_the_images_that_are_painted_pixel_by_pixel() -> None:
    model, chosen = network_of(nn.Conv2d(3, 4, 3), SIZE).double(), torch.tensor([0, 5])
    start, image, order = (item.double() if item.is_floating_point() else item for item in pictures(2))
    steps = torch.tensor([0, 1, 2, 77, SIZE * SIZE])
    result = torch.cat(list(full_distance_maps(model, start, image, order, chosen, steps, batch=2)))
    with torch.no_grad():
        expected = model(painted(start, image, order.tolist())[steps]).matches.distance_maps[:, chosen]
    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"prototype_rows": 2, "prototype_cols": 3}, {"distance": "squared_l2"}, {"cells": "normalized"}]
)
def test_other_prototypes_distances_and_add_ons(options: dict[str, object]) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    assert_equals_the_network(network_of(network, SIZE, **options).double(), 7, 0, steps=50, tolerance=1e-9)


def test_errors_do_not_build_up_over_many_blocks() -> None:
    size, chosen = 24, torch.arange(6)
    torch.manual_seed(0)
    model = network_of(zoo.build("small-29"), size)
    start, image, order = pictures(0, size)
    prepared = replace(plan(model, (size, size)), block=4)  # 144 blocks
    for maps in incremental_distance_maps(model, prepared, start, image, order, chosen):
        last = maps[-1:]
    expected = similarity_maps(model, image[None], chosen)
    torch.testing.assert_close(similarities(model, last), expected.double(), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("name", "at"), [("vgg11_bn", "maxpool2"), ("resnet18", "layer1"), ("squeezenet1_1", "features.4")]
)
def test_networks_of_the_zoo(name: str, at: str) -> None:
    from pixpnet.model import Backbone

    size = 40
    torch.manual_seed(0)
    model = network_of(nn.Identity(), size)
    backbone = Backbone(zoo.build(name), at, (size, size))
    model = PixPNet(backbone, model.architecture, model.class_names, model.preprocessing).eval()
    start, image, order = pictures(1, size)
    prepared = plan(model, (size, size))
    assert any(node.layer is not None for node in prepared.nodes)
    result = torch.cat(list(incremental_distance_maps(model, prepared, start, image, order[:150], torch.arange(6))))
    steps = torch.tensor([0, 1, 40, 149, 150])
    expected = torch.cat(list(full_distance_maps(model, start, image, order, torch.arange(6), steps)))
    torch.testing.assert_close(similarities(model, result[steps]), similarities(model, expected), rtol=1e-5, atol=0)


def test_writing_in_place_is_seen_through_every_name_of_a_memory() -> None:
    assert_equals_the_network(network_of(InPlace(), SIZE).double(), 8, 0, steps=40, tolerance=1e-9)


class Formula(nn.Module):
    """A step of one's own."""

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x)


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (Formula(lambda x: x - x.mean(dim=(2, 3), keepdim=True)), "mean"),
        (Formula(lambda x: x - x.mean(dim=(1, 2), keepdim=True)), "mean"),
        (Formula(lambda x: x * x.mean(dim=1, keepdim=True, dtype=torch.float64).float()), "mean"),
        (Formula(lambda x: x * nn.functional.max_pool2d(x, 8)), "different rows and columns"),
        (Formula(lambda x: torch.where(x > 0, x, x.sin())), "fractions"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(2)), "_adaptive_avg_pool2d"),
        (nn.Sequential(nn.ConvTranspose2d(3, 4, 3)), "transposed"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)), "batch norm"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4)), "batch norm"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Unflatten(1, (2, 2)), nn.Flatten(1, 2)), "channels, rows and columns"),
        (nn.Sequential(nn.ChannelShuffle(3)), "channel_shuffle"),
    ],
)
def test_an_operation_without_a_rule_is_named(network: nn.Module, why: str) -> None:
    with pytest.raises(NoIncrementalRule, match=why):
        plan(network_of(network, 8), (8, 8))


@pytest.mark.parametrize("network", [Branching(), Noticing()])
def test_code_that_looks_at_values_has_no_plan(network: nn.Module) -> None:
    model = network_of(nn.Conv2d(3, 3, 1), 6)
    model.add_on = network.eval()  # a backbone would refuse it
    with pytest.raises(NoIncrementalRule, match="value"):
        plan(model, (6, 6))


def test_a_pixel_reaches_no_more_than_its_cells() -> None:
    # 3 x 3, then halved: a pixel in the middle reaches 9 cells, then 4 of the pooled ones.
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2))
    prepared = plan(network_of(network, 32), (32, 32))
    image, product, sums, pooled = (node.reach for node in prepared.nodes[:4])
    assert (image, product) == (1, 1)
    assert 8 < sums <= 9
    assert 3.5 < pooled <= 4

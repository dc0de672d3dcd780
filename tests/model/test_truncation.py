"""Code that is truncated gives what the network gives; code that cannot be truncated is left to run as it is."""

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pixpnet.model import Backbone
from pixpnet.model.early_exit import EarlyExit
from pixpnet.model.segments import SegmentError, take_apart, watched_pass
from pixpnet.model.truncation import Inseparable, LayerCall, Truncated, Untraceable, truncate
from tests.model.networks import Branching

pytestmark = pytest.mark.filterwarnings("ignore::pixpnet.model.FieldWarning")


class Network(nn.Module):
    """Two convolutions, and between them whatever a test wants."""

    def __init__(self, between: Callable[["Network", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.relu, self.last = nn.ReLU(), nn.Conv2d(4, 5, 1)
        self.scale = nn.Parameter(torch.full((4, 1, 1), 3.0))
        self.register_buffer("shift", torch.full((4, 1, 1), 0.5))
        self.between = between
        self.seen: list[Any] = []
        self.factor = 2.0
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        maps = self.between(self, self.first(images))
        return self.last(self.relu(self.second(maps))).mean(dim=(2, 3))


def without_gradients(network: Network, maps: Tensor) -> Tensor:
    with torch.no_grad():
        return network.relu(maps)


def with_gradients_in_training(network: Network, maps: Tensor) -> Tensor:
    with torch.set_grad_enabled(network.training):
        return network.relu(maps)


def without_autocast(network: Network, maps: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return network.relu(maps)


def remembered(network: Network, maps: Tensor) -> Tensor:
    network.seen.append(maps)
    return maps


def counted(network: Network, maps: Tensor) -> Tensor:
    network.factor += 1
    return maps * network.factor


def halved(network: Network, maps: Tensor) -> Tensor:
    return torch.div(maps, 2)


def overwritten(network: Network, maps: Tensor) -> Tensor:
    before = maps
    maps += 1
    return before * 2


TRACEABLE: dict[str, Callable[[Network, Tensor], Tensor]] = {
    "nothing": lambda network, maps: maps,
    "arithmetic": lambda network, maps: 2 * maps + maps.flatten(1).mean(dim=1)[:, None, None, None],
    "a parameter and a buffer": lambda network, maps: maps * network.scale + network.shift,
    "a module that is called twice": lambda network, maps: network.relu(maps) - network.relu(-maps),
    "a shape": lambda network, maps: maps.reshape(maps.shape[0], maps.shape[1], -1).reshape(maps.shape),
    "an attribute": lambda network, maps: maps * network.factor,
    "a residual": lambda network, maps: maps + network.second(maps),
    "in place": lambda network, maps: torch.relu_(maps),
}
UNTRACEABLE: dict[str, tuple[str, Callable[[Network, Tensor], Tensor]]] = {
    "size": ("symbols", lambda network, maps: maps * 2 if maps.shape[-1] > 8 else maps),
    "value": ("symbols", lambda network, maps: maps * 2 if maps.sum() > 0 else maps),
    "mode": ("training", lambda network, maps: maps * 2 if network.training else maps),
    "dropout": ("training", lambda network, maps: nn.functional.dropout(maps, 0.5, network.training)),
    "no_grad": ("switches", without_gradients),
    "grad in training": ("switches", with_gradients_in_training),
    "autocast": ("switches", without_autocast),
    "random": ("random", lambda network, maps: maps * random.random()),
    "noise": ("neither", lambda network, maps: maps + torch.ones(4, 1, 1)),
    "remembered": ("writes", remembered),
    "counted": ("writes", counted),
    "all parameters": ("goes through", lambda network, maps: maps.to(next(network.parameters()).dtype)),
}


def activation(network: nn.Module, path: str, images: Tensor, call: int) -> Tensor:
    outputs: list[Tensor] = []
    handle = network.get_submodule(path).register_forward_hook(lambda *given: outputs.append(given[-1].clone()))
    with torch.no_grad():
        network(images)
    handle.remove()
    return outputs[call - 1]


@pytest.mark.parametrize("between", TRACEABLE)
@pytest.mark.parametrize("size", [8, 13])
def test_truncated_code_gives_what_the_layer_gives_for_images_of_any_size(between: str, size: int) -> None:
    network = Network(TRACEABLE[between])
    images = torch.randn(2, 3, size, size)
    last = watched_pass(network, None, (8, 8)).layer("relu")
    code = truncate(network, None, last)
    with torch.no_grad():
        assert torch.equal(code(network, images), activation(network, "relu", images, last.call))


@pytest.mark.parametrize("between", TRACEABLE)
def test_what_is_behind_a_layer_is_truncated_too(between: str) -> None:
    network = Network(TRACEABLE[between])
    images = torch.randn(2, 3, 8, 8)
    second = watched_pass(network, None, (8, 8)).layer("second")
    before, behind = truncate(network, None, second), truncate(network, second, None)
    with torch.no_grad():
        assert torch.equal(behind(network, before(network, images)), network(images))


@pytest.mark.parametrize("between", UNTRACEABLE)
def test_code_that_is_not_one_sequence_of_steps_is_not_truncated(between: str) -> None:
    why, code = UNTRACEABLE[between]
    network = Network(code)
    with pytest.raises(Untraceable, match=why):
        truncate(network, None, LayerCall("second"))
    assert network.seen == []
    assert network.factor == 2


# Those have no exact fields, or no fixed answer.
REFUSED = ("value", "random", "counted", "remembered")
UNSEEN: dict[str, Callable[[Network, Tensor], Tensor]] = {
    "isinstance": lambda network, maps: maps * 3 if isinstance(maps, Tensor) else maps,
    "overwritten": overwritten,
}
CUT = {
    **TRACEABLE,
    **{name: code for name, (_, code) in UNTRACEABLE.items() if name not in REFUSED},
    **UNSEEN,
}


@pytest.mark.parametrize("between", CUT)
def test_a_backbone_gives_what_its_network_gives_whether_truncated_or_not(between: str) -> None:
    network = Network(CUT[between])
    backbone = Backbone(network, "second", (8, 8))
    assert isinstance(backbone._segments.rest.run, Truncated if between in TRACEABLE else EarlyExit)
    images = torch.randn(2, 3, 8, 8)
    calls = watched_pass(network, None, (8, 8)).calls["second"]
    with torch.no_grad():
        torch.testing.assert_close(backbone(images), activation(network, "second", images, calls))
    hooks = sum(len(module._forward_hooks) for module in backbone.network.modules())
    assert hooks == (0 if between in TRACEABLE else 1)


def test_what_goes_around_a_layer_is_found() -> None:
    network = Network(TRACEABLE["a residual"])
    with pytest.raises(Inseparable, match="around 'second'"):
        truncate(network, LayerCall("second", 1), None)
    seen = watched_pass(network, None, (8, 8))
    with pytest.raises(SegmentError, match=r"cannot be taken apart at 'second'.*around"):
        take_apart(network, [LayerCall("second", 1)], None, seen)


def test_modules_with_hooks_of_their_own_run_as_they_are() -> None:
    network = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()), nn.Flatten())
    network[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    backbone = Backbone(network.eval(), "0.0", (8, 8))
    assert isinstance(backbone._segments.rest.run, EarlyExit)
    images = torch.randn(1, 3, 8, 8)
    torch.testing.assert_close(backbone(images), network[0][0](2 * images))


def test_a_map_of_one_of_several_cuts_is_not_written_over_by_what_follows() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.Flatten()).eval()
    images = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        first, _ = Backbone(network, "0,2", (8, 8)).maps(images)
        torch.testing.assert_close(first, network[0](images))
    assert (first < 0).any()


def test_kept_features_are_not_written_over() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3)).eval()
    backbone = Backbone(network, "", (8, 8))
    backbone.freeze("0", (8, 8))
    with torch.no_grad():
        features = backbone.stem(torch.randn(1, 3, 8, 8))
        before = features.clone()
        backbone.tail_maps(features)
    assert torch.equal(features, before)


@pytest.mark.parametrize("build", [lambda: Network(halved), Branching])
def test_a_backbone_survives_copy_and_pickle(build: Callable[[], nn.Module]) -> None:
    network = build().eval()
    backbone = Backbone(network, "second", (8, 8))
    images = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        expected = backbone(images)
        assert torch.equal(copy.deepcopy(backbone)(images), expected)
        assert torch.equal(pickle.loads(pickle.dumps(backbone))(images), expected)


def test_a_layer_that_is_not_reached_in_another_mode_is_an_error() -> None:
    class Shy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main, self.end = nn.Conv2d(3, 4, 1), nn.Identity()

        def forward(self, images: Tensor) -> Tensor:
            maps = self.main(images)
            return maps if self.training else self.end(maps)

    with pytest.raises(RuntimeError, match="ended before call 1 of 'end'"):
        Backbone(Shy(), "end", (8, 8)).train()(torch.randn(1, 3, 8, 8))

"""The recorder against the network itself: values by hooks, replays on other images, and what must be refused."""

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pixpnet.tracing import RecordingError, record
from tests.metrics.random_networks import Residual, networks
from tests.tracing.networks import Branching, BrightOnes, Counting, InPlace, Noticing, Several


def images(seed: int, size: int = 13) -> Tensor:
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=30)
@given(networks(), st.integers(1, 99))
def test_a_replay_on_another_image_gives_what_the_network_gives(network: nn.Module, seed: int) -> None:
    network = network.double().eval()
    recording = record(network, images(0))
    with torch.no_grad():
        torch.testing.assert_close(recording.result, network(images(0)), rtol=0, atol=0)
        torch.testing.assert_close(recording.program.replay(images(seed)), network(images(seed)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("network", [Several(), InPlace()])
def test_views_several_results_and_writing_in_place_are_replayed(network: nn.Module) -> None:
    network = network.double()
    program = record(network, images(0)).program
    with torch.no_grad():
        torch.testing.assert_close(program.replay(images(1)), network(images(1)), rtol=1e-12, atol=0)


def test_the_values_are_those_that_hooks_see_before_later_code_overwrites_them() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 5, 3), nn.ReLU(inplace=True))
    network = network.double()
    seen: list[Tensor] = []
    hooks = [
        module.register_forward_hook(lambda _, __, output: seen.append(output.clone()))  # type: ignore[func-returns-value]
        for module in network
    ]
    with torch.no_grad():
        network(images(0))
    for hook in hooks:
        hook.remove()
    recording = record(network, images(0))
    recorded = [recording.values[step.outputs[0]] for step in recording.program.steps]
    assert [str(step.operation) for step in recording.program.steps][1] == "aten.relu.default"
    assert len(recorded) == len(seen) == 4
    assert all(torch.equal(one, other) for one, other in zip(recorded, seen, strict=True))
    assert torch.equal(recording.values[recording.program.image], images(0))


def test_what_the_result_does_not_need_is_not_in_the_program() -> None:
    layer = nn.Conv2d(3, 4, 3).double()

    def network(x: Tensor) -> Tensor:
        layer(x).relu()
        return x * 2

    recording = record(network, images(0))
    assert [str(step.operation) for step in recording.program.steps] == ["aten.mul.Tensor"]
    assert len(recording.values) == 2


def _half_in_place(x: Tensor) -> Tensor:
    x = x * 1
    x[:, :1].mul_(2)
    return x


def _into_a_constant(x: Tensor) -> Tensor:
    result = torch.zeros(x.shape, dtype=x.dtype)
    result.copy_(x)
    return result


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (Branching(), "reads a value"),
        (Noticing(), "another image"),
        (_half_in_place, "view"),
        (_into_a_constant, "does not reach otherwise"),
        (lambda x: torch.ones(1), "not come from an operation"),
        (lambda x: torch.dropout(x, 0.5, True), "another image"),
    ],
)
def test_what_cannot_be_written_down_is_refused(network: Callable[[Tensor], Tensor], why: str) -> None:
    with pytest.raises(RecordingError, match=why):
        record(network, images(0))


def test_recording_leaves_no_trace() -> None:
    network = Residual(nn.Conv2d(3, 3, 3, padding=1), nn.Identity()).double().eval()
    state = {name: value.clone() for name, value in network.state_dict().items()}
    image = images(0)
    record(network, image)
    assert torch.equal(image, images(0))
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert not any(module._forward_hooks for module in network.modules())


def test_a_program_is_checked_once_for_an_owner_and_anew_when_it_is_another_program() -> None:
    network = Counting(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())).double()

    def calls(owner: nn.Module | None, image: Tensor) -> int:
        network.calls = 0
        record(network, image, owner)
        return network.calls

    assert [calls(network, images(seed)) for seed in range(3)] == [2, 1, 1]
    assert calls(None, images(0)) == 2
    assert calls(network, images(0, size=12)) == 2
    with torch.no_grad():
        network.network[0].weight.mul_(2)  # type: ignore[index, operator]
    assert calls(network, images(0)) == 1  # the same weights, with other values
    network.network.append(nn.Sigmoid())
    assert [calls(network, images(0)) for _ in range(2)] == [2, 1]
    network.network[1] = nn.LeakyReLU(0.2)
    assert calls(network, images(0)) == 2
    network.network[1] = nn.LeakyReLU(0.3)
    assert calls(network, images(0)) == 2


def test_another_branch_for_a_later_image_is_not_taken_for_the_one_that_was_checked() -> None:
    network = BrightOnes().double()
    record(network, images(0), network)
    with pytest.raises(RecordingError, match="another image"):
        record(network, images(0) + 99, network)


def test_what_was_checked_is_forgotten_with_its_owner() -> None:
    network = nn.Conv2d(3, 4, 3).double()
    forgotten = weakref.ref(network)
    record(network, images(0), network)
    del network
    gc.collect()
    assert forgotten() is None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda x: x + 1.0, True),
        (lambda x: x + 2.0, False),
        (lambda x: x - 1.0, False),
        (lambda x: torch.add(x, 1.0, alpha=2), False),
        (lambda x: x + torch.ones(13, dtype=x.dtype), False),
    ],
)
def test_programs_are_the_same_if_operations_constants_and_wires_are(
    change: Callable[[Tensor], Tensor], same: bool
) -> None:
    one = record(lambda x: x + 1.0, images(0)).program
    assert one.does_the_same_as(record(change, images(1)).program) is same


def test_wires_and_constant_tensors_count_too() -> None:
    one = record(lambda x: torch.relu(x) * torch.sin(x), images(0)).program
    assert one.does_the_same_as(record(lambda x: torch.relu(x) * torch.sin(x), images(0)).program)
    assert not one.does_the_same_as(record(lambda x: torch.relu(x) * torch.sin(torch.relu(x)), images(0)).program)
    factor = torch.arange(13, dtype=torch.float64)
    two = record(lambda x: x * factor, images(0)).program
    assert two.does_the_same_as(record(lambda x: x * factor.clone(), images(0)).program)
    assert not two.does_the_same_as(record(lambda x: x * (factor + 1), images(0)).program)

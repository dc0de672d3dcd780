"""A network taken apart at named layers: what runs before a layer, between two of them, and behind.

The parts share their modules with the network, so they have its weights, its mode and its device, and none of them
keeps any state of a run. A part that begins in the middle is the network's own code with every module before that
layer replaced by one that passes its input on; that is right only where the code before the layer is a chain of
modules, so it is checked by running it (`check_segments`) and refused by name otherwise.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from pixpnet.messages import first_line


class SegmentError(ValueError):
    """A network that cannot be taken apart at a layer; the message says which and why."""


class Reached(Exception):
    """Carries the output of a layer out of the code of a network."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


class Segment(nn.Module):
    """A stretch of a network, from the output of one layer to that of another."""

    def __init__(self, network: nn.Module, start: str, stop: str, order: Sequence[str]) -> None:
        """Prepares a stretch.

        Args:
            network: the whole.
            start: the path of the layer whose output it takes; "" for the image.
            stop: the path of the layer whose output it gives; "" for that of the network.
            order: paths of the modules of the network in the order in which they begin (`call_order`).
        """
        super().__init__()
        replaced: dict[str, nn.Module] = {}
        if start:
            before = order[: order.index(start)]
            replaced = {path: _PassOn() for path in before if path and not start.startswith(f"{path}.")}
            replaced[start] = _PassOn()
        if stop:
            replaced[stop] = _StopBehind(network.get_submodule(stop))
        self.network = _with(network, replaced, "")

    def forward(self, values: Tensor) -> Any:
        """Runs it."""
        try:
            return self.network(values)
        except Reached as reached:
            return reached.output


def call_order(network: nn.Module, run: Callable[[], Any]) -> list[str]:
    """The paths of the modules of a network that `run` calls, in the order in which they first begin."""
    order: list[str] = []
    handles = [
        module.register_forward_pre_hook(lambda _, __, path=path: order.append(path))
        for path, module in network.named_modules()
    ]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return list(dict.fromkeys(order))


def check_segments(run: Callable[[], Any], expected: Any, layer: str) -> None:
    """Compares what segments give, one after the other, with what the network gives.

    Raises:
        SegmentError: if they do not give the same.
    """
    hint = "choose a layer between the network's stages, where nothing but its output goes on"
    try:
        values = run()
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise SegmentError(f"the network cannot be taken apart at '{layer}' ({first_line(error)}): {hint}") from error
    found, wanted = tree_leaves(values), tree_leaves(expected)
    same = len(found) == len(wanted) and all(
        one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-5)
        for one, other in zip(found, wanted, strict=True)
        if isinstance(one, Tensor) and isinstance(other, Tensor)
    )
    if not same:
        raise SegmentError(
            f"the network cannot be taken apart at '{layer}': its code does more than call modules in a row; {hint}"
        )


class _PassOn(nn.Module):
    """Stands where a module was that ran before the segment begins."""

    def forward(self, values: Tensor, *others: Any) -> Tensor:
        return values


class _StopBehind(nn.Module):
    """Runs the last module of a segment and leaves the network's code with its output."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> Any:
        raise Reached(self.module(*inputs))


def _with(module: nn.Module, replaced: dict[str, nn.Module], path: str) -> nn.Module:
    """The module with some inner ones replaced; only those on the way are copied, and their tensors are shared."""
    if path in replaced:
        return replaced[path]
    prefix = f"{path}." if path else ""
    if not any(inner.startswith(prefix) for inner in replaced):
        return module
    clone = copy.copy(module)
    clone.__dict__ = dict(module.__dict__)
    children = {
        name: None if child is None else _with(child, replaced, f"{prefix}{name}")
        for name, child in module._modules.items()
    }
    clone.__dict__["_modules"] = children
    return clone

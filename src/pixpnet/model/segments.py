"""A network taken apart at named layers: what runs before a layer, between two of them, and behind.

A segment is a function of the network and of what goes in. It holds no module and keeps nothing from one call to the
next, so any number of threads may use it at once. It is the truncated code of the network where that can be had
(`truncation`), and the network's own code, left at the layer, where not (`early_exit`); either is compared with the
network before it is used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pixpnet.messages import first_line
from pixpnet.model.early_exit import EarlyExit, leave_if_reached
from pixpnet.model.truncation import Inseparable, LayerCall, Truncated, Untraceable, truncate

_HINT = "choose a layer between the network's stages, where nothing but its output goes on"


class SegmentError(ValueError):
    """A network that cannot be taken apart at a layer; the message says which and why."""


@dataclass(frozen=True)
class Segment:
    """A stretch of a network, from the output of one layer to that of another.

    Attributes:
        run: from the network, and an input, to an output.
        overwrites: whether its code writes into its input (as a ReLU in place does), which it is then given a copy of.
    """

    run: Truncated | EarlyExit
    overwrites: bool = False

    def __call__(self, network: nn.Module, values: Tensor) -> Any:
        """Runs it; of maps, with the channels last, in which convolutions are fastest."""
        values = _channels_last(values)
        return self.run(network, values.clone() if self.overwrites else values)


@dataclass(frozen=True)
class ForwardPass:
    """What was seen of one forward pass of a network up to a layer.

    Attributes:
        images: what went in.
        output: what came out.
        overwrites: whether the network writes into the images.
        calls: how often each module was called, by its first path, in the order in which they began.
        read: the ids of all tensors that an operation read.
    """

    images: Tensor
    output: Any
    overwrites: bool
    calls: dict[str, int]
    read: frozenset[int]

    @property
    def order(self) -> list[str]:
        """Paths of modules in the order in which they began."""
        return list(self.calls)

    def layer(self, path: str) -> LayerCall:
        """The last call of a module."""
        return LayerCall(path, self.calls[path])


def watched_pass(network: nn.Module, stop: LayerCall | None, size: tuple[int, int]) -> ForwardPass:
    """Runs a network up to a layer, on an image of noise, and takes note of what it does."""
    first = next(network.parameters(), torch.zeros(()))
    images = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0)).to(first)
    calls: dict[str, int] = {}

    def note(path: str) -> Callable[..., None]:
        return lambda *_: calls.update({path: calls.get(path, 0) + 1})

    handles = [module.register_forward_pre_hook(note(path)) for path, module in network.named_modules()]
    if stop is not None:
        handles.append(network.get_submodule(stop.path).register_forward_hook(leave_if_reached))
    try:
        with torch.no_grad(), _TensorsRead() as tensors:
            given = _channels_last(images).clone()
            version = given._version
            output = EarlyExit(stop)(network, given)
    finally:
        for handle in handles:
            handle.remove()
    return ForwardPass(images, output, given._version != version, calls, frozenset(tensors.read))


def take_apart(
    network: nn.Module, layers: Sequence[LayerCall], stop: LayerCall | None, run: ForwardPass
) -> tuple[Segment, ...]:
    """The segments between the images, some layers in the order in which they run, and a last one.

    Args:
        network: in eval mode; a hook stays on a layer that it must be left at.
        layers: where it is taken apart; none for one segment.
        stop: the layer at which it ends; None for the network's own output.
        run: of the network up to that layer.

    Raises:
        SegmentError: if the segments, one after the other, do not give what the network gives.
    """
    if not layers and stop is None:
        return (Segment(EarlyExit(None), run.overwrites),)
    ends = (None, *layers, stop)
    names = ", ".join(f"'{layer.path}'" for layer in layers)
    try:
        segments = [Segment(truncate(network, *pair)) for pair in pairwise(ends)]
        segments = _checked(segments, network, run, exactly=True)
    except Inseparable as error:
        raise SegmentError(f"the network cannot be taken apart at {names}: {error}; {_HINT}") from error
    except (Untraceable, _Differs):
        segments = [Segment(EarlyExit(end, _passed(begin, run.order))) for begin, end in pairwise(ends)]
        for segment in segments:
            assert isinstance(segment.run, EarlyExit)
            segment.run.install(network)
        try:
            segments = _checked(segments, network, run, exactly=False)
        except _Differs as error:
            raise SegmentError(f"the network cannot be taken apart at {names}: {error}; {_HINT}") from error
    return tuple(segments)


def _channels_last(values: Tensor) -> Tensor:
    return values.contiguous(memory_format=torch.channels_last) if values.dim() == 4 else values


class _Differs(Exception):
    """Segments that do not give what the network gives."""


def _checked(segments: Sequence[Segment], network: nn.Module, run: ForwardPass, exactly: bool) -> list[Segment]:
    """The segments, and whether each overwrites its input, after they gave what the network gives.

    Raises:
        _Differs: if they do not.
    """
    checked = []
    values: Any = run.images
    try:
        with torch.no_grad():
            for segment in segments:
                given = _channels_last(values).clone()
                version = given._version
                values = segment.run(network, given)
                checked.append(Segment(segment.run, overwrites=given._version != version))
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
        raise _Differs(first_line(error)) from error
    if not _same(values, run.output, exactly):
        raise _Differs("its code does more than call modules in a row")
    return checked


def _same(values: Any, expected: Any, exactly: bool) -> bool:
    leaves, wanted = tree_leaves(values), tree_leaves(expected)
    if len(leaves) != len(wanted):
        return False
    for one, other in zip(leaves, wanted, strict=True):
        if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
            continue
        if one.shape != other.shape:
            return False
        if one.is_meta:  # nothing to compare but shapes
            continue
        rtol, atol = (0.0, 0.0) if exactly else (1e-4, 1e-5)
        if not torch.allclose(one, other, rtol, atol, equal_nan=True):
            return False
    return True


def _passed(start: LayerCall | None, order: Sequence[str]) -> list[str]:
    """The modules that have run when the output of a layer is there, without those that contain it."""
    if start is None:
        return []
    before = order[: order.index(start.path)]
    outer = [path for path in before if path and not start.path.startswith(f"{path}.")]
    return [*(path for path in outer if not any(path.startswith(f"{other}.") for other in outer)), start.path]


class _TensorsRead(TorchDispatchMode):
    """Takes note of every tensor that an operation reads."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.read.update(id(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor))
        return func(*args, **(kwargs or {}))

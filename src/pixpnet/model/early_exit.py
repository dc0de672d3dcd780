"""Early exit: a network's own code, run up to a layer, where it cannot be truncated (`pixpnet.model.truncation`).

The network runs as it is. A hook on the layer raises an exception with the layer's output, which leaves the code and is
caught here. Which layer, and how many of its calls are still to come, belongs to the run: it lies in a context
variable, of which every thread has its own, and not in the network. Outside of such a run the hook does nothing.

A part that begins at a layer is the same code with every module before that layer replaced by one that passes its input
on, in a copy of the modules on the way that is made for each call. That is right only where the code before the layer
is a chain of modules, so `pixpnet.model.segments` compares its results with those of the network.
"""

import copy
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch import nn

from pixpnet.model.truncation import LayerCall


@dataclass
class _Exit:
    """Where one run of a network ends."""

    module: nn.Module
    calls_left: int


class _Reached(BaseException):  # so that no `except Exception` of a network's own code keeps it
    def __init__(self, run: _Exit, output: Any) -> None:
        super().__init__()
        self.run, self.output = run, output


_EXIT: ContextVar[_Exit | None] = ContextVar("exit", default=None)


def leave_if_reached(module: nn.Module, inputs: Any, output: Any) -> None:
    """A forward hook: leaves the network with the layer's output, where the current run ends here."""
    run = _EXIT.get()
    if run is not None and run.module is module:
        run.calls_left -= 1
        if not run.calls_left:
            raise _Reached(run, output)


class EarlyExit:
    """A network's own code from one layer to another.

    >>> import torch
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.ReLU())
    >>> first = EarlyExit(LayerCall("0"))
    >>> first.install(network)
    >>> first(network, torch.zeros(3, 2, 2)).shape
    torch.Size([3, 4])
    """

    def __init__(self, stop: LayerCall | None, passed: Sequence[str] = ()) -> None:
        """Says where the code begins and ends.

        Args:
            stop: the layer whose output it gives; None for the network's own output.
            passed: paths of the modules that have run already, that of the layer whose output it takes included.
        """
        self.stop = stop
        self._passed: dict[str, Any] = {}
        for path in passed:
            *way, name = path.split(".")
            inner = self._passed
            for step in way:
                inner = inner.setdefault(step, {})
            inner[name] = _PASS_ON

    def install(self, network: nn.Module) -> None:
        """Puts the hook on the layer, if it is not there."""
        if self.stop is not None:
            module = network.get_submodule(self.stop.path)
            if leave_if_reached not in module._forward_hooks.values():
                module.register_forward_hook(leave_if_reached)

    def __call__(self, network: nn.Module, values: Any) -> Any:
        """What the network makes of images, or of what the first layer gave.

        Raises:
            RuntimeError: if it does not reach the layer, as it may in another mode or for other images.
        """
        network = _with(network, self._passed)
        if self.stop is None:
            return network(values)
        run = _Exit(network.get_submodule(self.stop.path), self.stop.call)
        token = _EXIT.set(run)
        try:
            network(values)
        except _Reached as reached:
            if reached.run is not run:
                raise
            return reached.output
        finally:
            _EXIT.reset(token)
        raise RuntimeError(
            f"the network ended before call {self.stop.call} of '{self.stop.path}', at which it is cut: its code takes "
            "another way in this mode, or for these images"
        )


class _PassOn(nn.Module):
    """Stands where a module was that has run already."""

    def forward(self, values: Any, *others: Any, **options: Any) -> Any:
        return values


_PASS_ON = _PassOn()


def _with(module: nn.Module, replaced: dict[str, Any]) -> nn.Module:
    """The module with some inner ones replaced; only those on the way are copied, and they share their tensors."""
    if not replaced:
        return module
    made = copy.copy(module)
    made.__dict__ = dict(module.__dict__)
    made.__dict__["_modules"] = {
        name: inner if isinstance(inner := replaced.get(name, {}), nn.Module) or child is None else _with(child, inner)
        for name, child in module._modules.items()
    }
    return made

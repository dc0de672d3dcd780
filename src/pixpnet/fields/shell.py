"""A shell of a model: the same code and structure around tensors without data.

The fields depend on what a model's code does, not on its weights. So we never run the model itself: every
module is copied as a Python object (its attributes, containers and hooks, not its tensors), and every tensor
is replaced by a stand-in on the meta device. Whatever the forward pass caches or changes in its modules, it does
to the shell, so there is nothing to restore, also when an exception ends the run. What lies outside the modules (a
global table, a list that a hook's closure fills) is shared with the model and sees the tensors without data.
"""

import copy
from collections import deque
from collections.abc import Callable
from types import MethodType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.nn.parameter import is_lazy


def make_shell(model: nn.Module, replace: Callable[[Tensor], Tensor]) -> nn.Module:
    """Copies the structure of ``model`` with every tensor replaced by ``replace(tensor)``.

    Raises:
        ValueError: the model has lazy parameters that no input has given a shape yet.
    """
    memo: dict[int, Any] = {}

    def copied(value: Any) -> Any:
        if id(value) in memo:
            return memo[id(value)]
        if isinstance(value, Tensor):
            return keep(value, _replace(value, replace))
        # A compiled module keeps its tensors where Python cannot reach; its operations still pass by.
        if isinstance(value, torch.jit.ScriptModule):
            return value
        if isinstance(value, nn.Module):
            shell = keep(value, object.__new__(type(value)))
            shell.__dict__.update({name: copied(item) for name, item in vars(value).items()})
            shell.__dict__["_compiled_call_impl"] = None  # `module.compile()`: run its own code
            return shell
        if isinstance(value, (dict, list, set, deque)) or type(value) is SimpleNamespace:
            return _refill(keep(value, copy.copy(value)), copied)
        if type(value) is tuple:
            return keep(value, tuple(copied(item) for item in value))
        if isinstance(value, MethodType) and isinstance(value.__self__, nn.Module):
            return MethodType(value.__func__, copied(value.__self__))
        return value

    def keep(original: Any, made: Any) -> Any:
        memo[id(original)] = made
        return made

    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    shell: nn.Module = copied(model)
    return _Wrapped(shell) if isinstance(shell, torch.jit.ScriptModule) else shell


class _Wrapped(nn.Module):
    """Around a compiled model, which cannot be copied, so that it need not be given hooks."""

    def __init__(self, compiled: nn.Module) -> None:
        super().__init__()
        # Not as a submodule: it would be found, and hooked, under a name of its own.
        self.run = compiled.forward

    def forward(self, pixels: Tensor) -> Any:
        return self.run(pixels)


def _refill(container: Any, copied: Callable[[Any], Any]) -> Any:
    """Replaces the items of a copied container, whose type and other properties stay."""
    if isinstance(container, SimpleNamespace):
        container.__dict__.update({name: copied(item) for name, item in vars(container).items()})
    elif isinstance(container, dict):
        for key, item in container.items():
            container[key] = copied(item)
    else:
        items = [copied(item) for item in container]
        container.clear()
        (container.update if isinstance(container, set) else container.extend)(items)
    return container


def _replace(tensor: Tensor, replace: Callable[[Tensor], Tensor]) -> Tensor:
    if is_lazy(tensor):
        raise ValueError(
            "the model has lazy parameters without a shape; run it once on a real batch before asking for its fields"
        )
    return replace(tensor)

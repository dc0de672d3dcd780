"""A shell of a model: the same code and structure around tensors without data.

The fields depend on what a model's code does, not on its weights. So we never run the model itself: every
module is copied as a Python object (its attributes, containers and hooks, not its tensors), and every tensor
is replaced by a stand-in on the meta device. Whatever the forward pass caches or changes, it does to the
shell. The model is never touched, so there is nothing to restore, also when an exception ends the run.
"""

from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

_CONTAINERS: dict[type, Callable[..., Any]] = {list: list, tuple: tuple, set: set}


def make_shell(model: nn.Module, stand_in: Callable[[Tensor], Tensor]) -> nn.Module:
    """Copies the structure of ``model`` with every tensor replaced by ``stand_in(tensor)``.

    Raises:
        ValueError: the model has lazy parameters that no input has given a shape yet.
    """
    memo: dict[int, Any] = {}

    def copy(value: Any) -> Any:
        if id(value) in memo:
            return memo[id(value)]
        if isinstance(value, Tensor):
            return keep(value, _replace(value, stand_in))
        # A compiled module keeps its tensors where Python cannot reach; its operations still pass by.
        if isinstance(value, torch.jit.ScriptModule):
            return value
        if isinstance(value, nn.Module):
            shell = keep(value, object.__new__(type(value)))
            shell.__dict__.update({name: copy(item) for name, item in vars(value).items()})
            return shell
        if type(value) in (dict, OrderedDict):
            filled = keep(value, type(value)())
            filled.update({key: copy(item) for key, item in value.items()})
            return filled
        if type(value) in _CONTAINERS:
            return keep(value, _CONTAINERS[type(value)](copy(item) for item in value))
        if isinstance(value, MethodType) and isinstance(value.__self__, nn.Module):
            return MethodType(value.__func__, copy(value.__self__))
        return value

    def keep(original: Any, made: Any) -> Any:
        memo[id(original)] = made
        return made

    shell: nn.Module = copy(model)
    return shell


def _replace(tensor: Tensor, stand_in: Callable[[Tensor], Tensor]) -> Tensor:
    if is_lazy(tensor):
        raise ValueError(
            "the model has lazy parameters without a shape; run it once on a real batch before asking for its fields"
        )
    made = stand_in(tensor)
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(made, requires_grad=False)
    return made

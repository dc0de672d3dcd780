"""What would be lost before any operation passes by: the values of literals, and the sources of copies.

Literals are ``x[:, [2, 0, 1]]`` and ``torch.tensor([...], device=x.device)``.

torch turns a list into a tensor on the device of its neighbour before any operation passes by. Beside tensors
without data the list would lose its values. So lists are turned into ordinary tensors first, whose values are
then known like those of any other constant.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class KeepLiterals(TorchFunctionMode):
    """Makes tensors from literals on the CPU, whatever device is asked for, and minds copies."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            args = (args[0], _index(args[1]), *args[2:])
        elif func in _MAKERS and not isinstance(args[0] if args else None, Tensor):
            kwargs["device"] = "cpu"
        elif func is Tensor.__deepcopy__:
            return args[0].clone()
        elif func is Tensor.new_tensor:
            data = args[1] if len(args) > 1 else kwargs["data"]
            return torch.tensor(data, dtype=kwargs.get("dtype", args[0].dtype), device="cpu")
        return func(*args, **kwargs)


_MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)


def _index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_literal(item) for item in index)
    return _literal(index)


def _literal(item: Any) -> Any:
    if isinstance(item, (list, tuple, range, np.ndarray)) and not _holds_tensors(item):
        values = np.asarray(item)
        return torch.tensor(values if values.size else values.astype(np.int64))
    return item


def _holds_tensors(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return any(_holds_tensors(each) for each in item)
    return isinstance(item, Tensor)

"""Literals in a model's code keep their values: ``x[:, [2, 0, 1]]`` and ``torch.tensor([...], device=x.device)``.

torch turns a list into a tensor on the device of its neighbour before any operation passes by. Beside tensors
without data the list would lose its values. So lists are turned into ordinary tensors first, whose values are
then known like those of any other constant.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

# What makes tensors from literals.
MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)


def with_literals(index: Any) -> Any:
    """An index in which lists, ranges and arrays are ordinary tensors with values."""
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
        return any(_holds_tensors(element) for element in item)
    return isinstance(item, Tensor)

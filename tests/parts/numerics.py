"""What tests of parts share: gradients by finite differences, and networks of one's own cells."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pixpnet.parts import Comparison, GridMatches, Matches
from pixpnet.parts.matches import matches_of

Array = np.ndarray[Any, np.dtype[np.float64]]


def slope(function: Callable[[Tensor], Tensor], at: Tensor, step: float = 1e-6) -> Tensor:
    """The gradient of a function with one value, by central differences; it knows nothing of autograd."""
    result = torch.zeros_like(at)
    for position in np.ndindex(*at.shape):
        there, here = at.detach().clone(), at.detach().clone()
        there[position] += step
        here[position] -= step
        with torch.no_grad():
            result[position] = (function(there) - function(here)) / (2 * step)
    return result


def gradient(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The gradient by autograd."""
    leaf = at.detach().clone().requires_grad_()
    (result,) = torch.autograd.grad(function(leaf), leaf)
    return result


def matched(comparison: Comparison, embeddings: Tensor) -> Matches:
    """The matches of one grid."""
    result: GridMatches = comparison(embeddings)
    return matches_of((result,))

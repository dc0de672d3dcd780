"""The mode of a network: changed for a while and given back, or asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, and back to whatever mode each module was in."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def refuse_training_mode(model: nn.Module) -> None:
    """Makes sure that a network answers as it does in use; in training mode, batch norm looks at other images too.

    Raises:
        ValueError: if it is in training mode, or any part of it.
    """
    # A fifth of the time of `modules()`, which matters beside a small network.
    waiting: list[nn.Module | None] = [model]
    for module in waiting:
        if module is not None:
            if module.training:
                raise ValueError(
                    "the model is in training mode, in which an image's answer depends on others: call model.eval()"
                )
            waiting += module._modules.values()

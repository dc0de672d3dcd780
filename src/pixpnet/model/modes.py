"""The mode of a network: changed for a while and given back, or asked for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class _Held:
    """A module that is kept in eval mode: its mode before, and how many ask for it."""

    mode: bool
    holders: int = 0


_HELD: dict[int, _Held] = {}
_LOCK = threading.Lock()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, and back to whatever mode each module was in.

    Threads may do this with one model at the same time: the last of them gives the modes back, so that no model goes
    back to training while another thread still reads its answers.
    """
    modules = list(model.modules())
    with _LOCK:
        for module in modules:
            held = _HELD.setdefault(id(module), _Held(module.training))
            held.holders += 1
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        with _LOCK:
            for module in modules:
                held = _HELD[id(module)]
                held.holders -= 1
                if not held.holders:
                    module.training = _HELD.pop(id(module)).mode


def refuse_training_mode(model: nn.Module) -> None:
    """Makes sure that a network answers as it does in use; in training mode, batch norm looks at other images too.

    Raises:
        ValueError: if it is in training mode, or any part of it.
        TypeError: if it is no network at all.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is a PixPNet (PixPNet.load(path)), got {type(model).__name__}")
    # A fifth of the time of `modules()`, which matters beside a small network.
    waiting: list[nn.Module | None] = [model]
    for module in waiting:
        if module is not None:
            if module.training:
                raise ValueError(
                    "the model is in training mode, in which an image's answer depends on others: call model.eval()"
                )
            waiting += module._modules.values()


def refuse_batch_statistics(network: nn.Module) -> None:
    """Makes sure that a network may be run in parts of a batch: norms in training mode look at all of it.

    Raises:
        ValueError: if one of its norms does.
    """
    for path, module in network.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training:
            raise ValueError(
                f"'{path}' normalizes by the statistics of all windows, so a few at once would give others: keep the "
                "statistics of the weights (--frozen-statistics), or learn from all at once (--windows-at-once)"
            )

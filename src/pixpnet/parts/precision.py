"""Convolutions in full float32 where a GPU would round them to TensorFloat-32, which has three digits."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.Lock()
_BEFORE: list[bool] = []  # what the switch was, once for each thread that is inside


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """No TensorFloat-32 in convolutions; on the CPU, where there is none, nothing is switched.

    cuDNN has one switch for the whole process. So the first thread that comes in switches it and the last one back; a
    thread outside may meanwhile compute without TensorFloat-32 too. Where its last digits must not depend on others,
    switch it off for all: ``torch.backends.cudnn.allow_tf32 = False``.
    """
    if device.type != "cuda":
        yield
        return
    with _LOCK:
        _BEFORE.append(torch.backends.cudnn.allow_tf32)
        torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        with _LOCK:
            # The first thread's is what it was before anybody came in.
            before = _BEFORE.pop()
            if not _BEFORE:
                torch.backends.cudnn.allow_tf32 = before

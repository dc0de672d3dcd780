"""The switch of TensorFloat-32, which a process has one of."""

import threading

import pytest
import torch

from pixpnet.parts.precision import full_precision


@pytest.mark.parametrize("allowed", [True, False])
def test_the_last_thread_gives_the_switch_back(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
    device = torch.device("cuda")  # only its name is asked for
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with full_precision(device):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(60)
    with full_precision(device):
        leave.set()
        thread.join()
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32 is allowed


def test_nothing_is_switched_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with full_precision(torch.device("cpu")):
        assert torch.backends.cudnn.allow_tf32

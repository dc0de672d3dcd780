"""Freed memory that is used again: by the pages that the system hands out, and by what the C library is told."""

import subprocess
import sys
import threading

import pytest
import torch

from pixpnet.training import memory
from pixpnet.training.memory import reusing_memory

ROUNDS = 6
TRIM, LARGE = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
REUSING = [(TRIM, -1), (LARGE, 2**30)]
AS_IT_WAS = [(TRIM, 2**26), (LARGE, 2**25), "trim"]


class Recorder:
    """Stands for the C library, and notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def mallopt(self, parameter: int, value: int) -> None:
        """Notes it."""
        self.told.append((parameter, value))

    def malloc_trim(self, pad: int) -> None:
        """Notes it."""
        self.told.append("trim")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    allocator = memory._Allocator(recorder.mallopt, recorder.malloc_trim)
    monkeypatch.setattr(memory, "_c_library", lambda: allocator)
    return recorder


# Pages that were first touched while a tensor of 64 MB came and went several times, after the first time. In a process
# of its own: what other tests left free would be used instead.
MEASURED = f"""
import resource, torch
from pixpnet.training.memory import reusing_memory

def pages():
    torch.ones(2**24)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({ROUNDS}):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

outside = pages()
with reusing_memory():
    inside = pages()
print(inside, outside)
"""


@pytest.mark.skipif(memory._c_library() is None, reason="another C library, of which nothing is asked")
def test_inside_the_system_hands_out_far_fewer_pages() -> None:
    printed = subprocess.run([sys.executable, "-c", MEASURED], check=True, capture_output=True, text=True).stdout
    inside, outside = map(int, printed.split())
    assert 2 * inside < outside  # a round may find its block cut up, and get a new one


def test_it_lasts_until_the_last_of_several_threads_is_outside(library: Recorder) -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with reusing_memory():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=work)
    with reusing_memory():
        thread.start()
        entered.wait()
    assert library.told == REUSING
    leave.set()
    thread.join()
    assert library.told == REUSING + AS_IT_WAS


def test_an_error_inside_leaves_memory_as_it_was(library: Recorder) -> None:
    with pytest.raises(ValueError, match="no step"), reusing_memory():
        raise ValueError("no step")
    assert library.told == REUSING + AS_IT_WAS


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory._c_library() is None
    with reusing_memory():
        assert float(torch.ones(2).sum()) == 2

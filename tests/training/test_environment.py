"""A run says with how many threads it was computed, and whoever resumes it with others is told."""

import json
import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from pixpnet.training import resume
from pixpnet.training.environment import ENVIRONMENT_FILE, EnvironmentWarning, warn_of_other_threads
from tests.training.conftest import Trained
from tests.training.material import in_child


@pytest.fixture
def another_number_of_threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    yield before
    torch.set_num_threads(before)


def test_a_run_writes_down_its_number_of_threads(trained: Trained) -> None:
    written = json.loads((trained.path / ENVIRONMENT_FILE).read_text())
    assert written["threads"] == torch.get_num_threads()
    assert (written["torch"], written["pixpnet"]) == (torch.__version__, version("pixpnet"))


def test_going_on_with_another_number_of_threads_is_said(
    trained: Trained, tmp_path: Path, another_number_of_threads: int
) -> None:
    out = tmp_path / "run"
    torch.set_num_threads(another_number_of_threads)
    assert in_child("train", config=trained.config, out=str(out), kill="after a checkpoint") == -signal.SIGKILL
    torch.set_num_threads(another_number_of_threads + 1)
    with pytest.warns(EnvironmentWarning, match=f"OMP_NUM_THREADS={another_number_of_threads}"):
        resume(out)
    # It says what the run began with, which is what to set to get it again.
    assert json.loads((out / ENVIRONMENT_FILE).read_text())["threads"] == another_number_of_threads


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", [None, "", "{}", '{"threads": "many"}'])
def test_a_run_that_does_not_say_its_threads_goes_on_in_silence(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / ENVIRONMENT_FILE).write_text(text)
    warn_of_other_threads(tmp_path)

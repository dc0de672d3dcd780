"""How many processes load images: a rule of cores and devices."""

import pytest
import torch

from pixpnet.config import RunConfig, TrainerOptions, config_text
from pixpnet.data import workers
from pixpnet.data.workers import num_workers_for
from pixpnet.members.pixpnet import PRESETS
from pixpnet.training.preparing import workers_of


@pytest.mark.parametrize(
    ("cores", "device", "processes", "expected"),
    [
        (16, "cpu", 1, 0),
        (1, "cuda", 1, 1),
        (2, "cuda", 1, 1),
        (4, "mps", 1, 3),
        (16, "cuda", 1, 8),
        (16, "cuda", 4, 3),
        (64, "gpu", 8, 7),
        (4, "cuda", 8, 1),
    ],
)
def test_a_gpu_gets_its_share_of_the_cores_less_one_and_a_cpu_nobody(
    cores: int, device: str, processes: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: cores)
    assert num_workers_for("auto", device, processes) == expected
    assert num_workers_for("auto", device, processes, reads_images=False) == 0
    assert num_workers_for(5, device, processes, reads_images=False) == 5


def test_a_run_asks_for_workers_by_what_it_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: 12)
    config, on_gpu = RunConfig(), RunConfig(trainer=TrainerOptions(device="gpu", num_devices="2"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert (workers_of(config), workers_of(on_gpu)) == (0, 5)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert workers_of(config) == 8
    assert workers_of(RunConfig(trainer=TrainerOptions(device="cpu"))) == 0
    assert workers_of(RunConfig(num_workers=3)) == 3
    # Kept features: epochs read no images.
    assert workers_of(RunConfig(settings=PRESETS["frozen"])) == 0


def test_what_is_written_is_what_was_asked_for_not_what_this_machine_made_of_it() -> None:
    assert "num_workers: auto" in config_text(RunConfig())
    assert "num_workers: 2" in config_text(RunConfig(num_workers=2))

"""Processes that somebody else started must be those that the configuration wants."""

from pathlib import Path

import pytest

from pixpnet.training import RunError, train
from pixpnet.training.processes import refuse_other_count
from tests.training.material import small_config


def torchrun(count: int) -> dict[str, str]:
    return {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": str(count), "LOCAL_RANK": "0"}


def slurm(tasks: int, name: str = "job") -> dict[str, str]:
    return {"SLURM_NTASKS": str(tasks), "SLURM_JOB_NAME": name, "SLURM_PROCID": "0"}


@pytest.mark.parametrize(("environment", "wanted"), [(slurm(1), 2), (torchrun(1), 2), (torchrun(2), 1), (slurm(8), 4)])
def test_another_number_of_processes_is_refused_and_the_option_is_named(
    environment: dict[str, str], wanted: int
) -> None:
    with pytest.raises(RunError, match=f"and the configuration wants {wanted} .--num-devices times --num-nodes"):
        refuse_other_count(wanted, environment)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [({}, 4), (slurm(2), 2), (torchrun(4), 4), (slurm(8, "bash"), 1), ({"SLURM_NTASKS": "8"}, 1)],
)
def test_what_fits_or_was_started_by_nobody_passes(environment: dict[str, str], wanted: int) -> None:
    refuse_other_count(wanted, environment)


def test_training_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pictures: Path) -> None:
    for name, value in slurm(3).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunError, match="SLURM started 3 processes"):
        train(small_config(pictures), tmp_path / "run")
    assert not (tmp_path / "run").exists()

"""Several processes find what one finds, and a run with two of them comes to its end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pixpnet.model import PixPNet
from pixpnet.settings import Replacement
from tests.training.conftest import Trained
from tests.training.material import replaced_and_judged


@pytest.mark.parametrize(
    "replacement",
    [Replacement(), Replacement(unique="patch", assignment="nearest_first")],
    ids=["image, smallest total", "patch, nearest first"],
)
def test_two_processes_find_bit_for_bit_what_one_finds(
    trained: Trained, replacement: Replacement, tmp_path: Path
) -> None:
    (alone,), (leader, other) = (
        replaced_and_judged(tmp_path, world_size, trained.path, trained.config.data, replacement)
        for world_size in (1, 2)
    )
    assert leader == other
    # The loss is a sum of float32 numbers, whose last digits depend on the order; everything else is exact.
    losses = [result["evaluation"].pop("loss") for result in (leader, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert leader == alone


def test_a_run_with_two_processes_ends_with_a_model_and_one_of_them_writes(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "--config", str(trained.path / "config.yaml"), "--out", str(out)]
    words += ["--device", "cpu", "--num-devices", "2", "--epochs", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, "-m", "pixpnet", *words], capture_output=True, text=True, env=environment, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1
    assert done.stderr.count("epoch   2/2") == 1
    for noise in ("Grad strides", "Initializing distributed", "Warning", "warning"):
        assert noise not in done.stderr
    model = PixPNet.load(out)
    assert model.origins is not None
    assert len((out / "openings.jsonl").read_text().splitlines()) == 1
    assert len((out / "log.csv").read_text().splitlines()) == 3
    assert not list(out.rglob("*.part"))
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["validation"]["images"] == 9
    assert metrics["test"]["images"] == 12

"""Two processes that share out the samples find what one finds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.metrics import sharing


def without_sums(result: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """What is counted, and what is a sum of float64 numbers, whose last digit depends on the order."""
    sums = [prototype.pop("soft_stability") for prototype in result["prototypes"]]
    estimate = result.pop("soft_stability")
    return result, [value for value in (*sums, *(estimate or {}).values()) if value is not None]


def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    outs = [tmp_path / f"{rank}.json" for rank in range(2)]
    processes = [
        subprocess.Popen(
            [sys.executable, sharing.__file__, str(tmp_path / "store"), str(rank), "2", str(out)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, out in enumerate(outs)
    ]
    output = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], output
    assert not any("UserWarning" in errors for errors in output), output
    leader, other = (json.loads(out.read_text()) for out in outs)
    assert leader == other
    alone = json.loads(json.dumps(sharing.scores(0, 1)))
    assert alone[0]["class_images"] == [3, 2, 2]
    assert alone[0]["stability"]["mean"] < 1  # noise does something here
    for expected, result in zip(alone, leader, strict=True):
        (expected, expected_sums), (result, found_sums) = without_sums(expected), without_sums(result)
        assert result == expected
        assert found_sums == pytest.approx(expected_sums, rel=1e-12)

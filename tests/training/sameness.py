"""Whether two runs are bit for bit the same."""

import csv
from pathlib import Path
from typing import Any

import torch


def log_without_seconds(run: Path) -> list[dict[str, str]]:
    with (run / "log.csv").open() as file:
        return [{name: value for name, value in line.items() if name != "seconds"} for line in csv.DictReader(file)]


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, (list, tuple)):
        pairs = list(enumerate(value))
    else:
        return {path: value}
    return {name: leaf for key, item in pairs for name, leaf in flattened(item, f"{path}/{key}").items()}


def same(one: Path, two: Path) -> None:
    """Everything a run leaves is bit for bit the same, but for times."""
    for name in ("model.safetensors", "prototypes.json", "config.yaml", "metrics.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert log_without_seconds(one) == log_without_seconds(two)
    assert (one / "prototypes").exists() == (two / "prototypes").exists()
    # Of a member whose prototypes never become patches there are no pictures.
    pictures = sorted(path.name for path in (one / "prototypes").glob("*"))
    assert pictures == sorted(path.name for path in (two / "prototypes").glob("*"))
    for name in pictures:
        assert (one / "prototypes" / name).read_bytes() == (two / "prototypes" / name).read_bytes()
    first, second = (torch.load(run / "checkpoints" / "last.ckpt", weights_only=True) for run in (one, two))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "pixpnet", "epoch", "global_step"):
        here, there = flattened(first[part]), flattened(second[part])
        assert here.keys() == there.keys(), part
        for name in here:
            if isinstance(here[name], torch.Tensor):
                assert torch.equal(here[name], there[name]), f"{part}{name}"
            elif not name.endswith("/seconds"):
                assert here[name] == there[name], f"{part}{name}"

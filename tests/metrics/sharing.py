"""Consistency and stability in one of several processes: `python sharing.py STORE RANK WORLD_SIZE OUT`."""

import pixpnet._torchvision  # noqa: F401  isort: skip  before torchvision

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torchvision import tv_tensors

from pixpnet import zoo
from pixpnet.data import Preprocessing, Sample
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics import consistency_and_stability
from pixpnet.model import Backbone, PixPNet
from pixpnet.records import to_plain
from pixpnet.training.evaluation import shard


def network() -> PixPNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = Backbone(zoo.build("small-21"), "", (32, 32))
        architecture = Architecture(dim=8, prototypes_per_class=2)
        return PixPNet(backbone, architecture, ("a", "b", "c"), Preprocessing().scaled_to(32)).eval()


def samples() -> list[Sample]:
    """Seven pictures of three classes, of which the third shows its parts only sometimes."""
    generator = torch.Generator().manual_seed(3)
    return [
        Sample(
            image=tv_tensors.Image(torch.randn(3, 32, 32, generator=generator)),
            label=number % 3,
            id=f"picture {number}",
            source_size=(32, 32),
            to_source=torch.eye(3, dtype=torch.float64),
            keypoints=tv_tensors.KeyPoints(32 * torch.rand(5, 2, generator=generator), canvas_size=(32, 32)),
            visible=torch.rand(5, generator=generator) < (0.8 if number % 3 < 2 else 0.3),
        )
        for number in range(7)
    ]


def scores(rank: int, world_size: int) -> list[Any]:
    """Of all pictures; and of one, so that other processes have none."""
    model = network()
    return [
        to_plain(
            consistency_and_stability(
                model, shard(some, 1, rank, world_size), (0, 1, 2, 3, 0), region="claimed", noise=1.0, together=True
            )
        )
        for some in (samples(), samples()[:1])
    ]


if __name__ == "__main__":
    store, rank, world_size, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    try:
        Path(out).write_text(json.dumps(scores(rank, world_size)))
    finally:
        torch.distributed.destroy_process_group()

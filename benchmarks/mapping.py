"""What a heat map costs: mapping ten prototypes to pixels against the forward pass of the same image.

    python benchmarks/mapping.py

Random weights (the speed does not depend on them), 224 x 224, one thread, processor time, the contestants in turns, so
that a busy machine slows all of them alike. Medians of ratios within a round are shown. Then the memory that the maps
of 2000 prototypes take on top of what was there, in a process of its own; 401 MB of it are the maps themselves.
"""

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.mapping import MAPPINGS, scene
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, PixPNet
from results import arguments_of, record
from side_by_side import ratios

SIZE = 224
LIMITS = {("vgg11", "maxpool4"): 0.03, ("vgg16", "maxpool5"): 0.03, ("resnet18", "layer3"): 0.08}
MEMORY_LIMIT = 500e6
COMPARED = ("field", "field_flat", "upsampling")


def network(name: str, layer: str, classes: int) -> PixPNet:
    """Ten prototypes for each class."""
    torch.manual_seed(0)
    backbone = Backbone(zoo.build(name), layer, (SIZE, SIZE))
    names = [str(label) for label in range(classes)]
    return PixPNet(backbone, Architecture(), names, Preprocessing().scaled_to(SIZE)).eval()


def costs(name: str, layer: str, rounds: int) -> dict[str, float]:
    """Each mapping of ten prototypes over a forward pass."""
    model = network(name, layer, 12)
    image = torch.randn(3, SIZE, SIZE)
    view = scene(model, image, range(10))

    def forward() -> None:
        with torch.no_grad():
            model(image[None])

    def mapper(mapping: str) -> Callable[[], object]:
        return lambda: MAPPINGS[mapping](view)

    return ratios(
        {"forward": forward, **{mapping: mapper(mapping) for mapping in COMPARED}},
        rounds,
        f"mapping: {name} @ {layer}, ",
    )


def extra_memory(mapping: str) -> float:
    """Bytes that 2000 prototypes need at most, beyond the process with its model and similarities."""
    torch.set_num_threads(1)
    model = network("resnet18", "layer3", 200)
    view = scene(model, torch.randn(3, SIZE, SIZE), range(2000))
    before = _resident("VmRSS")
    MAPPINGS[mapping](view)
    return _resident("VmHWM") - before


def _resident(name: str) -> float:
    """Memory of this process, now (VmRSS) or at most so far (VmHWM), in bytes."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return float(lines[name].removesuffix("kB")) * 1024


def main() -> int:
    """Measures and prints; the exit code says whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31)
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    print("mapping 10 prototypes / forward pass")
    print(f"  {'':22s}" + "".join(f"{mapping:>12s}" for mapping in COMPARED) + f"{'wanted':>12s}")
    held = True
    for (name, layer), limit in LIMITS.items():
        result = costs(name, layer, arguments.rounds)
        shares = "".join(f"{result[mapping]:12.1%}" for mapping in COMPARED)
        print(f"  {name + ' @ ' + layer:22s}{shares}{limit:12.0%}", flush=True)
        held &= result["field"] <= limit
    print("extra memory of 2000 prototypes, resnet18 @ layer3")
    for mapping in COMPARED:
        # A fresh process for each: the peak of a process never falls.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            extra = pool.submit(extra_memory, mapping).result()
        record("mapping", f"memory of 2000 prototypes, {mapping}", extra / 1e6, unit="MB")
        print(f"  {mapping:22s}{extra / 1e6:6.0f} MB, wanted at most {MEMORY_LIMIT / 1e6:.0f}", flush=True)
        held &= mapping != "field" or extra <= MEMORY_LIMIT
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())

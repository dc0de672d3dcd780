"""The exact relevance ordering test: a step by incremental evaluation against a step by a whole forward pass.

    python benchmarks/ordering.py [--quick]
    python benchmarks/ordering.py --curve 1000      every step of a curve both ways, on the small network
    python benchmarks/ordering.py --windows         on windows: single pixels, and the points of the stepped test

Random weights (the speed does not depend on them), one thread, processor time. A pass over 224 x 224 pixels has 50,176
steps; here the beginning, the middle and the end of an order are walked, for a map with one hot spot (pixels next to
each other come next to each other) and for a random one. Preparing the first state is counted, spread over all steps
of a whole pass. The whole forward pass is measured in the same run, between the others, with the batch size that is
best for it. What a whole row of the paper's Table 2 would take is worked out from these steps: 50 samples with 10
prototypes each, all of whose pixels come back one by one, in an order of their own for each pair.
"""

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.ordering.by_cell import cellwise_distance_maps
from pixpnet.metrics.ordering.full import full_distance_maps
from pixpnet.metrics.ordering.incremental import incremental_distance_maps
from pixpnet.metrics.ordering.plan import Plan, plan
from pixpnet.metrics.ordering.spacing import Spacing, first_steps
from pixpnet.model import Backbone, PixPNet
from pixpnet.windows import Windows
from results import arguments_of, record

WANTED = {("vgg11", "maxpool4"): 20.0, ("vgg16", "maxpool4"): 12.0}
NETWORKS = [("vgg11", "maxpool4", 224), ("vgg16", "maxpool4", 224), ("resnet18", "layer2", 224), ("small-61", "", 96)]
BATCHES = (1, 2, 4, 8, 16)
PROTOTYPE = torch.tensor([0])
# A row of the paper's Table 2: so many samples, each with so many prototypes, and an order of its own for each pair.
SAMPLES, PROTOTYPES_EACH, CORES = 50, 10, 2
ROWS_OF_TABLE_2 = (("resnet18", "layer2"), ("vgg11", "maxpool4"))


def seconds(work: Callable[[], object]) -> float:
    """Processor time of some work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def network(name: str, at: str, size: int) -> PixPNet:
    """Twelve classes of ten prototypes, as in `cub12`."""
    torch.manual_seed(0)
    backbone = Backbone(zoo.build(name), at, (size, size))
    names = [str(label) for label in range(12)]
    return PixPNet(backbone, Architecture(), names, Preprocessing().scaled_to(size)).eval()


def orders(size: int) -> dict[str, torch.Tensor]:
    """The order of a map with one hot spot beside the middle, and a random one."""
    rows, cols = torch.arange(size)[:, None], torch.arange(size)
    spot = (rows - 0.55 * size).square() + (cols - 0.4 * size).square()
    chance = torch.randperm(size * size, generator=torch.Generator().manual_seed(1))
    return {"one hot spot": spot.flatten().argsort(stable=True), "random": chance}


def full_step(model: PixPNet, start: torch.Tensor, image: torch.Tensor, order: torch.Tensor) -> float:
    """Time of a step by whole passes, with the best batch size."""
    best = float("inf")
    for batch in BATCHES:
        steps = torch.arange(2 * batch) + len(order) // 2
        passes = seconds(lambda: list(full_distance_maps(model, start, image, order, PROTOTYPE, steps, batch)))  # noqa: B023
        best = min(best, passes / len(steps))
    return best


def incremental_step(
    model: PixPNet, prepared: Plan, start: torch.Tensor, image: torch.Tensor, order: torch.Tensor, count: int
) -> tuple[float, float]:
    """Time of a step from the beginning, the middle and the end of an order, and the largest relative error."""
    taken, largest = [], 0.0
    similarity = model.grids[0].comparison.similarity
    for first in (0, (len(order) - count) // 2, len(order) - count):
        before = start.flatten(1).clone()
        before[:, order[:first]] = image.flatten(1)[:, order[:first]]
        part = order[first : first + count]
        walk = incremental_distance_maps(model, prepared, before.reshape(image.shape), image, part, PROTOTYPE)
        preparing = seconds(lambda: next(walk))  # noqa: B023
        result: list[torch.Tensor] = []
        stepping = seconds(lambda: result.extend(walk))  # noqa: B023
        taken.append(stepping / count + preparing / len(order))
        (expected,) = full_distance_maps(model, start, image, order, PROTOTYPE, torch.tensor([first + count]))
        is_, should = (similarity(maps.double()) for maps in (result[-1][-1:], expected))
        largest = max(largest, float(((is_ - should) / should).abs().max()))
    return sum(taken) / len(taken), largest


def whole_curve(steps: int) -> int:
    """Walks the first steps of a curve both ways and compares the similarity maps of every one of them."""
    name, at, size = NETWORKS[-1]
    model = network(name, at, size)
    start, image = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    order = orders(size)["one hot spot"][:steps]
    moments = torch.arange(len(order) + 1)
    exact: list[torch.Tensor] = []
    full: list[torch.Tensor] = []
    prepared = plan(model, (size, size))
    fast = seconds(lambda: exact.extend(incremental_distance_maps(model, prepared, start, image, order, PROTOTYPE)))
    rest = torch.cat([order, orders(size)["one hot spot"][steps:]])
    slow = seconds(lambda: full.extend(full_distance_maps(model, start, image, rest, PROTOTYPE, moments)))
    similarity = model.grids[0].comparison.similarity
    is_, should = (similarity(torch.cat(maps).double()) for maps in (exact, full))
    largest = float(((is_ - should) / should).abs().max())
    print(f"{name}: {len(order)} steps, {slow:.1f} s / {fast:.1f} s = {slow / fast:.1f}, largest error {largest:.0e}")
    return 0 if largest < 1e-5 else 1


def on_windows() -> int:
    """Compares whole passes with passes over the windows that hold a pixel which came back, on windows of 7.7 %."""
    size, worst = 384, 0.0
    print("whole passes / windows that changed, CPU seconds a step of both, largest difference of a distance")
    for start_layer in ("layer1", ""):
        torch.manual_seed(0)
        backbone = Backbone(zoo.build("resnet18"), "layer4", (size, size), (), Windows(72, 40, start_layer))
        model = PixPNet(backbone, Architecture(), [str(n) for n in range(12)], Preprocessing().scaled_to(size)).eval()
        start, image = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
        for kind, order in orders(size).items():
            points = first_steps(Spacing(), size * size)[::6]
            # The first of these is a whole pass either way, which a curve has only one of.
            for name, steps in (
                ("single pixels", torch.arange(9) + 50_000),
                ("points of the stepped test", points[::6]),
            ):
                maps, taken = [], []
                for passes in (full_distance_maps, cellwise_distance_maps):
                    done: list[torch.Tensor] = []
                    taken.append(
                        seconds(lambda: done.extend(passes(model, start, image, order, PROTOTYPE, steps, 4)))  # noqa: B023
                    )
                    maps.append(torch.cat(done))
                once = taken[0] / len(steps)
                full, partly = taken[0] - once, taken[1] - once
                worst = max(worst, float((maps[0] - maps[1]).abs().max()))
                count = len(steps) - 1
                print(
                    f"  from {start_layer or 'the image':9s} {kind:13s} {name:27s} {full / partly:5.1f}   "
                    f"{full / count:.3f} {partly / count:.3f}   {worst:.0e}",
                    flush=True,
                )
    return 0 if worst < 1e-6 else 1


def main() -> int:
    """Measures and prints; the exit code says whether the wanted ratios are reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--curve", type=int, metavar="STEPS", help="compare every one of so many steps, both ways")
    parser.add_argument("--windows", action="store_true", help="on windows, where whole windows are computed again")
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    if arguments.curve:
        return whole_curve(arguments.curve)
    if arguments.windows:
        return on_windows()
    reached = True
    rows: list[str] = []
    print("whole forward pass / incremental step, milliseconds of both, largest relative error of a similarity map")
    for name, at, size in NETWORKS:
        model = network(name, at, size)
        prepared = plan(model, (size, size))
        start, image = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
        count = 4 * prepared.block if arguments.quick else 1000
        for kind, order in orders(size).items():
            full = full_step(model, start, image, order)
            step, error = incremental_step(model, prepared, start, image, order, count)
            ratio = full / step
            wanted = WANTED.get((name, at))
            record("ordering", f"whole pass / step, {name} @ {at}, {kind}", ratio, better="larger")
            if (name, at) in ROWS_OF_TABLE_2:
                rows.append(row_of_table_2(f"{name} @ {at}, {kind}", len(order), full, step))
            reached &= (wanted is None or ratio >= wanted) and error < 1e-5
            print(
                f"  {name:9s} {at:9s} {size:3d}  {kind:13s} {ratio:6.1f}   {1e3 * full:7.1f} {1e3 * step:7.2f}   "
                f"{error:.0e}" + (f"   wanted: at least {wanted:.0f}" if wanted else ""),
                flush=True,
            )
    print(
        f"a row of Table 2, {SAMPLES} samples x {PROTOTYPES_EACH} prototypes, every pixel a step, by these figures, "
        f"on {CORES} cores:"
    )
    print("\n".join(rows))
    return 0 if reached else 1


def row_of_table_2(name: str, steps: int, full: float, step: float) -> str:
    """What a whole row takes, from what a step takes by whole passes and by incremental evaluation."""
    walked = SAMPLES * PROTOTYPES_EACH * steps
    hours = walked * step / CORES / 3600
    record("ordering", f"row of Table 2, {name}", hours, unit=f"hours on {CORES} cores")
    return (
        f"  {name:35s} {hours:6.1f} hours instead of {walked * full / CORES / 3600:6.0f} "
        f"({walked * step / 86400:5.2f} instead of {walked * full / 86400:5.1f} CPU days)"
    )


if __name__ == "__main__":
    raise SystemExit(main())

"""What thousands of classes and several workers cost: steps, health, figures on disk, the cache of decoded images.

    python benchmarks/scale.py            # steps, health, metrics.json
    python benchmarks/scale.py --loading cub:../shared/data/cub12

Random weights, images and labels: neither speed nor memory depends on them. One thread, processor time, contestants in
turns; medians of ratios within a round. Steps use freed memory again, as they do in a run (`training/memory.py`): the
system's pages would be up to half of the time with 50,000 prototypes. Memory is what the process holds at most; with
`--loading` what all processes hold together, without the pages of the cache file, which belong to the system.
"""

import argparse
import json
import os
import resource
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.data import Loading, Preprocessing, open_data, training_loader
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.health.background import background
from pixpnet.metrics.health.coverage import coverage
from pixpnet.metrics.health.duplicates import duplicates
from pixpnet.metrics.health.patches import Patch
from pixpnet.metrics.owners import owners_of
from pixpnet.model import Backbone, Origin, PixPNet
from pixpnet.records import to_json, to_plain
from pixpnet.training.confusion import ConfusionTable
from pixpnet.training.evaluation import evaluation_of
from pixpnet.training.memory import reusing_memory
from results import arguments_of, record
from side_by_side import ratios
from training import LAPTOP, stepper

STEP_LIMIT, CLASSES_LIMIT, HEALTH_SECONDS, HEALTH_MB, METRICS_MB = 1.15, 2.0, 3.0, 500, 1.0
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


def network(backbone: str, at: str, size: int, classes: int, architecture: Architecture = LAPTOP) -> PixPNet:
    """Ten prototypes for each class."""
    torch.manual_seed(0)
    cut = Backbone(zoo.build(backbone), at, (size, size))
    names = [str(label) for label in range(classes)]
    return PixPNet(cut, architecture, names, Preprocessing().scaled_to(size))


def steps(rounds: int) -> float:
    """Prints what a step with 2000 prototypes costs beside one with 120, and the bare product; returns the ratio."""
    few, many = (network("resnet18", "layer2", 112, classes) for classes in (12, 200))
    comparison, cells = many.grids[0].comparison, torch.rand(16, LAPTOP.dim, 14, 14)

    def product() -> None:
        with torch.no_grad():
            comparison.measure.factors(cells, comparison.prototypes).products()

    contestants = {
        "120": stepper(few, 16, 112, 12),
        "2000": stepper(many, 16, 112, 200),
        "bare product of 2000": product,
    }
    result = ratios(contestants, rounds, "scale: step, prototypes: ")
    for name, ratio in result.items():
        print(f"  step, resnet18 @ layer2, 112 px, {name:22s} {ratio:6.3f}", flush=True)
    return result["2000"]


def many_classes(rounds: int) -> float:
    """Prints what a step with 5,000 classes costs beside one with 1,000; returns the ratio."""
    contestants = {
        str(classes): stepper(network("resnet18", "layer3", 224, classes), 4, 224, classes) for classes in (1000, 5000)
    }
    result = ratios(contestants, rounds, "scale: step, classes: ")
    print(f"  step, resnet18 @ layer3, 224 px, 5,000 classes / 1,000: {result['5000']:6.3f}", flush=True)
    return result["5000"]


def health(classes: int = 1000) -> tuple[float, float]:
    """Prints and returns seconds and megabytes of the prototype health of ten times as many prototypes."""
    model = network("small-61", "", 96, classes, Architecture()).eval()
    model.origins = tuple(
        Origin(number, int(label), f"{number}.jpg", 0, 0, (Box(0, 0, 9, 9),), IDENTITY, 0.0, "image")
        for number, label in enumerate(model.labels.tolist())
    )
    generator = torch.Generator().manual_seed(0)
    owners = owners_of(model)
    patches = [
        Patch(
            number,
            int(label),
            owners[number],
            (Box(0, 0, 9, 9),),
            torch.rand(15, generator=generator) < 0.8,
            torch.rand(15, generator=generator) < 0.3,
            None,
            masks=False,
        )
        for number, label in enumerate(model.labels.tolist())
    ]
    before, start = _peak(), time.process_time()
    background(patches, len(patches))
    coverage(patches, classes)
    duplicates(model)
    seconds, grown = time.process_time() - start, _peak() - before
    print(f"  health of {len(patches)} prototypes: {seconds:.2f} s, {grown:.0f} MB beside the model", flush=True)
    return seconds, grown


def figures(classes: int = 1000, images: int = 50_000) -> float:
    """Prints and returns the megabytes of a run's figures, with 30 % of the images given to any class."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(images) % classes
    wrong = torch.rand(images, generator=generator) < 0.3
    answers = torch.where(wrong, torch.randint(0, classes, (images,), generator=generator), labels)
    result = evaluation_of(ConfusionTable.of_answers(labels, answers, classes), 1.0)
    size = len(to_json([to_plain(result)] * 4)) / 1e6
    rows = len(json.dumps([[list(row) for row in result.confusion]] * 4, indent=1)) / 1e6
    print(f"  metrics.json of {classes} classes, {images} images: {size:.2f} MB (rows of all: {rows:.1f})", flush=True)
    return size


def loading(spec: str, num_workers: int) -> None:
    """Prints what loading costs without a cache and with one that workers share."""
    data = open_data(spec)
    augmentation = replace(data.augmentation, factor=4)
    for cache_bytes in (0, 2**31):
        with_cache = Loading(32, num_workers, cache_bytes)
        loader = training_loader(data, data.preprocessing, augmentation, with_cache, seed=0)
        for epoch in range(2):
            before, start = _seconds_of_all(), time.monotonic()
            loader.sampler.set_epoch(epoch)  # type: ignore[union-attr]
            for _ in loader:
                pass
            print(
                f"  {num_workers} workers, cache {cache_bytes >> 20:4d} MB, epoch {epoch}: "
                f"{_seconds_of_all() - before:5.1f} s of processor time, {time.monotonic() - start:5.1f} s, "
                f"{_memory_of_all():5.0f} MB",
                flush=True,
            )
        del loader


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _family() -> list[Path]:
    here = Path("/proc") / str(os.getpid())
    children = [number for task in (here / "task").iterdir() for number in (task / "children").read_text().split()]
    return [here, *(here.parent / number for number in children)]


def _seconds_of_all() -> float:
    ticks = 0
    for process in _family():
        numbers = (process / "stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(numbers[11]) + int(numbers[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory_of_all() -> float:
    lines = [line for process in _family() for line in (process / "smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> int:
    """Measures and prints; the exit code says whether all limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--loading", metavar="DATA", help="measure the cache on a data set instead")
    parser.add_argument("--num-workers", type=int, default=4)
    parser.add_argument("--without-classes", action="store_true", help="without the step of 5,000 classes (2 GB)")
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    if arguments.loading is not None:
        loading(arguments.loading, arguments.num_workers)
        return 0
    seconds, grown = health()
    reached: dict[str, tuple[float, float]] = {
        "seconds of health": (seconds, HEALTH_SECONDS),
        "megabytes of health": (grown, HEALTH_MB),
        "megabytes of metrics.json": (figures(), METRICS_MB),
    }
    with reusing_memory():
        reached["step, 2000 / 120 prototypes"] = (steps(arguments.rounds), STEP_LIMIT)
        if not arguments.without_classes:
            reached["step, 5,000 / 1,000 classes"] = (many_classes(max(3, arguments.rounds // 3)), CLASSES_LIMIT)
    for name, (value, limit) in reached.items():
        if not name.startswith("step"):
            record("scale", name, value, unit=name.split()[0])
        print(f"wanted: {name} at most {limit}, reached: {value:.3f}")
    return 0 if all(value <= limit for value, limit in reached.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Growth: what features, a fit, replacement, evaluation and an explanation cost as images, classes and prototypes grow.

    python benchmarks/growth.py [--quick]
    python benchmarks/growth.py --setting 384:72:52:layer1 --classes 200

Features are those of JPEG files of 500 x 375 pixels, read, augmented, computed two at a time on two threads and written
as a run does; a CPU second is of one core. Everything else is on one thread, with random weights and synthetic features
(costs do not depend on them), medians of repeated runs in one process, and the least of them: a busy machine makes a
CPU second worth less. Costs of a fit are those of a step of 32 images on features that are there; replacement and
evaluation go over the same images, class by class, as they do in a run. What a data set costs is worked out from these
figures, on two cores: CUB-200-2011 has 5,994 training and 5,794 test images. In reduced precision (`--precision
bf16-mixed`) augmented views are computed in bfloat16, plain ones never.
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch

from pixpnet import zoo
from pixpnet.data import Augmentation, DataSet, Entry, Preprocessing, open_data
from pixpnet.data.sample import NO_ANNOTATION, source_sample
from pixpnet.explanation.explaining import explain
from pixpnet.members.pixpnet import PRESETS, PixPNetConfig
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.parts.losses import Step, cluster, separation
from pixpnet.training.feature_sets import FeatureSet
from pixpnet.training.features import FeatureBatch, Features, ViewOf
from pixpnet.training.replacement import replace_prototypes
from pixpnet.windows import resolve_windows
from results import arguments_of, record

CUB_CLASSES, CUB_TRAIN, CUB_TEST, CORES, BATCH = 200, 5994, 5794, 2, 32
PHOTOGRAPH = (375, 500, 3)
TOGETHER = 4  # views that are timed as one


class Seconds(NamedTuple):
    """Processor time of one core in repeated runs: the median, and the least, which a busy machine disturbed least."""

    median: float
    least: float

    def over(self, number: int) -> "Seconds":
        """Of one of so many."""
        return Seconds(self.median / number, self.least / number)


class Cost(NamedTuple):
    """Of the features of one view.

    Attributes:
        cpu: of one core.
        bytes: on disk.
    """

    cpu: Seconds
    bytes: float


class Growth(NamedTuple):
    """Of one image, on kept features: a training step, an evaluation, a replacement."""

    step: Seconds
    evaluation: Seconds
    replacement: Seconds


def photographs(folder: Path, number: int) -> DataSet:
    """JPEG files of the size of CUB's, of two classes."""
    generator = np.random.default_rng(0)
    for index in range(number):
        coarse = generator.integers(0, 256, (24, 32, 3), np.uint8)
        path = folder / ("jay", "wren")[index % 2] / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), cv2.resize(coarse, PHOTOGRAPH[1::-1], interpolation=cv2.INTER_CUBIC))
    return open_data(f"folder:{folder}")


def feature_pass(model: PixPNet, data: DataSet, folder: Path, view: int, precision: torch.dtype) -> Cost:
    """Computes a view of every image, two at a time, and says what one costs."""
    features = Features(
        model.backbone, model.preprocessing, Augmentation(), data.reader, "", folder, learning_precision=precision
    )
    entries = (*data.train, *data.val, *data.test.open(lambda *_: None, "a benchmark"))
    torch.set_num_threads(CORES)
    features.compute([ViewOf(entry, view + 1000) for entry in entries[:2]])  # warms up
    before = size_of(features.augmented)
    taken = []
    for first in range(0, len(entries) - TOGETHER + 1, TOGETHER):
        began = time.process_time()
        features.compute([ViewOf(entry, view) for entry in entries[first : first + TOGETHER]])
        taken.append((time.process_time() - began) / TOGETHER)
    torch.set_num_threads(1)
    written = size_of(features.plain) if view == 0 else size_of(features.augmented) - before
    return Cost(Seconds(statistics.median(taken), min(taken)), written / (len(taken) * TOGETHER))


def size_of(sets: tuple[FeatureSet, ...]) -> int:
    """Bytes on disk."""
    return sum(path.stat().st_size for kind in sets for path in kind.folder.glob("*.safetensors"))


def seconds(work: Callable[[], object], repeats: int) -> Seconds:
    """Processor time, without the first run."""
    taken = []
    for _ in range(repeats + 1):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return Seconds(statistics.median(taken[1:]), min(taken[1:]))


def network(setting: str, classes: int, settings: PixPNetConfig) -> PixPNet:
    """A frozen ResNet-18 on windows with ten prototypes for each class."""
    size, window, stride, start = setting.split(":")
    torch.manual_seed(0)
    side = int(size)
    backbone = Backbone(zoo.build("resnet18"), "layer4", (side, side), (), resolve_windows(window, stride, start, side))
    backbone.freeze("all", (side, side))
    names = [f"class {label}" for label in range(classes)]
    return PixPNet(backbone, settings.architecture, names, Preprocessing().scaled_to(side), "resnet18").eval()


def batches_of(model: PixPNet, images: int, cells: tuple[int, ...]) -> tuple[list[FeatureBatch], list[Entry]]:
    """Synthetic features of images of all classes, in the order of classes."""
    generator = torch.Generator().manual_seed(1)
    labels = (torch.arange(images) * model.num_classes // images).tolist()
    entries = [Entry(f"{number:06}", label, "train") for number, label in enumerate(labels)]
    batches = []
    for first in range(0, images, BATCH):
        some = entries[first : first + BATCH]
        batches.append(
            FeatureBatch(
                torch.randn(len(some), *cells, generator=generator),
                torch.tensor([entry.label for entry in some]),
                tuple(entry.id for entry in some),
                torch.eye(3, dtype=torch.float64).repeat(len(some), 1, 1),
            )
        )
    return batches, entries


def reduced_step(model: PixPNet, batch: FeatureBatch, optimizer: torch.optim.Optimizer) -> None:
    """The same as `--precision bf16-mixed` has it; distances have 32 bits."""
    with torch.autocast("cpu", torch.bfloat16):
        training_step(model, batch, optimizer)


def training_step(model: PixPNet, batch: FeatureBatch, optimizer: torch.optim.Optimizer) -> None:
    """A step of the preset `frozen`: cross-entropy, cluster and separation, on features that are there."""
    model.train()
    embeddings = model.behind_stem.embed(batch.images)
    matches = model.match(embeddings)
    step = Step(model.head(matches), batch.labels, model.parts, matches, embeddings)
    loss = torch.nn.functional.cross_entropy(step.logits, step.labels) + 0.8 * cluster(step) + 0.08 * separation(step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()


def evaluation(model: PixPNet, batches: list[FeatureBatch]) -> None:
    """The answers to all images."""
    with evaluating(model):
        for batch in batches:
            model.behind_stem(batch.images).logits.argmax(dim=1)


def memory() -> float:
    """The most that the process has had so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> int:
    """Prints the figures, and what CUB-200-2011 would take by them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--setting", default="384:72:40:layer1", metavar="SIZE:WINDOWS:STRIDES:FROM")
    parser.add_argument("--classes", type=int, nargs="+", default=[12, 200, 1000])
    parser.add_argument("--views", type=int, default=3)
    parser.add_argument("--images", type=int, default=16, help="files whose features are computed")
    args = arguments_of(parser)
    torch.set_num_threads(1)
    repeats = 2 if args.quick else 5
    settings = PRESETS["frozen"]
    model = network(args.setting, 12, settings)
    views = _features(model, args.setting, args.images)
    cells = tuple(model.backbone.stem(torch.zeros(1, 3, *2 * [model.preprocessing.size])).shape[1:])
    print(
        "| classes | prototypes | step of 32, s | step, ms an image | evaluation, ms | replacement / it | "
        "fit of 30 images a class, CPU min | memory, GB |"
    )
    print("|---" * 8 + "|", flush=True)
    costs, reduced = {}, {}
    for classes in args.classes:
        model = network(args.setting, classes, settings)
        batches, entries = batches_of(model, max(2 * BATCH, (8 if classes <= 200 else 1) * classes), cells)
        parts = [part for grid in model.grids for part in (grid.add_on, grid.comparison)]
        optimizer = torch.optim.Adam([weights for part in parts for weights in part.parameters()], lr=1e-3)
        step = seconds(partial(training_step, model, batches[0], optimizer), repeats).over(BATCH)
        evaluated = seconds(partial(evaluation, model, batches), max(1, repeats // 2)).over(len(entries))
        replacing = partial(replace_prototypes, model, batches, entries, settings.replacement, "cpu")
        embed = model.behind_stem.embed
        replaced = seconds(partial(replacing, embed=embed), max(1, repeats // 2)).over(len(entries))
        costs[classes] = Growth(step, evaluated, replaced)
        if classes == CUB_CLASSES:
            reduced_seconds = seconds(partial(reduced_step, model, batches[0], optimizer), repeats).over(BATCH)
            reduced["bf16-mixed"] = Growth(reduced_seconds, evaluated, replaced)
        minutes = _fit(costs[classes], 30 * classes, args.views, settings).median / 60
        print(
            f"| {classes} | {model.num_prototypes} | {step.median * BATCH:.3f} | {1e3 * step.median:.2f} | "
            f"{1e3 * evaluated.median:.2f} | {replaced.median / evaluated.median:.2f} | {minutes:.1f} | "
            f"{memory():.2f} |",
            flush=True,
        )
        for part, cost in costs[classes]._asdict().items():
            record("growth", f"{part}, {classes} classes", 1e3 * cost.median, unit="CPU ms an image")
    if CUB_CLASSES in costs:
        for name, augmented in views.items():
            growth = reduced.get(name, costs[CUB_CLASSES])
            _project(args.views, name, views["32-true"][0], augmented[1], growth, settings)
        _explaining(network(args.setting, CUB_CLASSES, settings), repeats)
    return 0


def _features(model: PixPNet, setting: str, images: int) -> dict[str, tuple[Cost, Cost]]:
    """Prints and gives what plain and augmented views cost, by the precision that a run learns in."""
    costs = {}
    with tempfile.TemporaryDirectory() as scratch:
        data = photographs(Path(scratch) / "photographs", images)
        plain = feature_pass(model, data, Path(scratch) / "plain", 0, torch.float32)
        print(f"features, {setting}, {images} files:", flush=True)
        print(f"  plain view: {_cost_text(plain)}", flush=True)
        for name, precision in (("32-true", torch.float32), ("bf16-mixed", torch.bfloat16)):
            cost = feature_pass(model, data, Path(scratch) / name, 1, precision)
            print(f"  augmented, {name}: {_cost_text(cost)}", flush=True)
            costs[name] = (plain, cost)
    return costs


def _cost_text(cost: Cost) -> str:
    return f"{cost.cpu.median:.3f} CPU s (least {cost.cpu.least:.3f}), {cost.bytes / 1e3:.0f} kB"


def _total(*parts: tuple[float, Seconds]) -> Seconds:
    """The sum of costs, each so many times."""
    return Seconds(*(sum(times * cost[kind] for times, cost in parts) for kind in (0, 1)))


def _fit(costs: Growth, images: int, views: int, settings: PixPNetConfig) -> Seconds:
    """Of a fit on so many images; an epoch sees the views that are kept, and the plain image."""
    epochs, replacements = settings.optimization.epochs, settings.optimization.epochs - settings.replacement.start + 1
    held_out = images // 10
    train = images - held_out
    return _total(
        (epochs * (views + 1) * train, costs.step),
        (replacements * train, costs.replacement),
        ((epochs + replacements) * held_out, costs.evaluation),
    )


def _project(views: int, name: str, plain: Cost, augmented: Cost, costs: Growth, settings: PixPNetConfig) -> None:
    """Prints what CUB-200-2011 would take by these figures, and by the least of them."""
    train = CUB_TRAIN - CUB_TRAIN // 10
    disk = (CUB_TRAIN + CUB_TEST) * plain.bytes + views * train * augmented.bytes
    parts = {
        "features": _total((CUB_TRAIN + CUB_TEST, plain.cpu), (views * train, augmented.cpu)),
        f"fit of {settings.optimization.epochs} epochs": _fit(costs, CUB_TRAIN, views, settings),
        "evaluation": _total((2 * (CUB_TRAIN // 10 + CUB_TEST), costs.evaluation)),
    }
    print(
        f"CUB-200-2011, {views} views, {CORES} cores, --precision {name}: {CUB_TRAIN + CUB_TEST} plain and "
        f"{views * train} augmented views, {disk / 1e9:.1f} GB"
    )
    for kind, title in enumerate(("medians", "the least, which other processes disturbed least")):
        minutes = {part: cost[kind] / CORES / 60 for part, cost in parts.items()}
        listed = ", ".join(f"{part} {number:.1f} min" for part, number in minutes.items())
        print(f"  by {title}: {listed}: {sum(minutes.values()):.0f} min in all", flush=True)


def _explaining(model: PixPNet, repeats: int) -> None:
    side = model.preprocessing.size
    pixels = torch.randint(0, 256, (side, side, 3), dtype=torch.uint8).numpy()
    sample = source_sample(pixels, -1, "noise", NO_ANNOTATION, masks=None)
    image = torch.randn(1, 3, side, side)
    with evaluating(model):
        forward = seconds(lambda: model(image), repeats)
        explained = seconds(lambda: explain(model, sample), repeats)
    print(
        f"explanation with {model.num_prototypes} prototypes on {model.field.shape[1] * model.field.shape[2]} cells: "
        f"{explained.median:.3f} s, {explained.median / forward.median:.2f} forward passes"
    )


if __name__ == "__main__":
    raise SystemExit(main())

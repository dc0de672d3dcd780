"""Growth: what features, a fit, replacement, evaluation and an explanation cost as images, classes and prototypes grow.

    python benchmarks/growth.py [--quick]
    python benchmarks/growth.py --setting 384:72:52:layer1 --classes 200

Random weights and synthetic features (costs do not depend on them), one thread, processor time, medians of repeated
runs in one process. Costs of a fit are those of a step of 32 images on features that are there; replacement and
evaluation go over the same images, class by class, as they do in a run. What a data set costs is worked out from
these figures, on two cores: CUB-200-2011 has 5,994 training and 5,794 test images.
"""

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch

from pixpnet import zoo
from pixpnet.data import Entry, Preprocessing
from pixpnet.data.sample import NO_ANNOTATION, source_sample
from pixpnet.explanation.explaining import explain
from pixpnet.members.pixpnet import PRESETS, PixPNetConfig
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.parts.losses import Step, cluster, separation
from pixpnet.training.features import FeatureBatch
from pixpnet.training.replacement import replace_prototypes
from pixpnet.windows import resolve_windows

CUB_TRAIN, CUB_TEST, CORES, BATCH = 5994, 5794, 2, 32


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median processor time, without the first run."""
    taken = []
    for _ in range(repeats + 1):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken[1:])


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
    args = parser.parse_args()
    torch.set_num_threads(1)
    repeats = 2 if args.quick else 5
    settings = PRESETS["frozen"]
    model = network(args.setting, 12, settings)
    side = model.preprocessing.size
    image = torch.randn(1, 3, side, side)
    with evaluating(model):
        parts = model.backbone.stem_parts(image)
        view = seconds(lambda: model.backbone.stem_parts(image), repeats)
    cells, kept = tuple(model.backbone.stem(image).shape[1:]), sum(part.nbytes for part in parts)
    print(f"features, {args.setting}: {view:.3f} s and {kept / 1e3:.0f} kB for each view", flush=True)
    print(
        "| classes | prototypes | step of 32, s | step, ms an image | evaluation, ms | replacement / it | memory, GB |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    costs = {}
    for classes in args.classes:
        model = network(args.setting, classes, settings)
        batches, entries = batches_of(model, max(2 * BATCH, (8 if classes <= 200 else 1) * classes), cells)
        learns = [each for grid in model.grids for part in (grid.add_on, grid.comparison) for each in part.parameters()]
        optimizer = torch.optim.Adam(learns, lr=1e-3)
        step = seconds(partial(training_step, model, batches[0], optimizer), repeats)
        judged = seconds(partial(evaluation, model, batches), max(1, repeats // 2)) / len(entries)
        replacing = partial(replace_prototypes, model, batches, entries, settings.replacement, "cpu")
        embed = model.behind_stem.embed
        replaced = seconds(partial(replacing, embed=embed), max(1, repeats // 2)) / len(entries)
        costs[classes] = (step / BATCH, judged, replaced)
        print(
            f"| {classes} | {model.num_prototypes} | {step:.3f} | {1e3 * step / BATCH:.2f} | {1e3 * judged:.2f} | "
            f"{replaced / judged:.2f} | {memory():.2f} |",
            flush=True,
        )
    if 200 in costs:
        _project(args.views, view, kept, costs[200], settings)
        _explaining(network(args.setting, 200, settings), repeats)
    return 0


def _project(views: int, view: float, kept: int, costs: tuple[float, float, float], settings: PixPNetConfig) -> None:
    """What CUB-200-2011 would take by these figures; an epoch sees the views that are kept, and the plain image."""
    step, judged, replaced = costs
    epochs, replacements = settings.optimization.epochs, settings.optimization.epochs - settings.replacement.start + 1
    held_out = CUB_TRAIN // 10
    train = CUB_TRAIN - held_out
    number = CUB_TRAIN + views * train + CUB_TEST
    computing = number * view
    fit = (
        epochs * (views + 1) * train * step
        + replacements * train * replaced
        + (epochs + replacements) * held_out * judged
    )
    last = 2 * (held_out + CUB_TEST) * judged
    minutes = [part / CORES / 60 for part in (computing, fit, last)]
    print(
        f"CUB-200-2011, {views} views, {CORES} cores: {number} views of features {minutes[0]:.0f} min and "
        f"{number * kept / 1e9:.1f} GB, fit of {epochs} epochs {minutes[1]:.0f} min, evaluation {minutes[2]:.1f} min: "
        f"{sum(minutes):.0f} min in all",
        flush=True,
    )


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
        f"{explained:.3f} s, {explained / forward:.2f} forward passes"
    )


if __name__ == "__main__":
    raise SystemExit(main())

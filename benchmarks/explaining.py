"""What an explanation costs: `explain` against the forward pass that it contains.

    python benchmarks/explaining.py

120 prototypes of 12 classes with made up origins and pictures, random weights (the speed does not depend on them), one
thread, processor time, the contestants in turns on one image after the other, so that a busy machine slows both alike.
Medians of ratios are shown. The image is preprocessed: reading a file is no part of either. The first explanations,
which find regions that nobody asked for before, and the trace of the field, once for each size, are measured apart.

Which scores decide (`deciding`) is measured on 2000 prototypes of 200 classes, resnet18 @ layer3, against the forward
pass: the search is made anew for each image, regions of cells are known.
"""

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import numpy as np
import torch

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.data import Preprocessing, Sample, preprocess
from pixpnet.data.sample import NO_ANNOTATION, source_sample
from pixpnet.explanation import Explanation, explain, prove
from pixpnet.explanation.deciding import deciding
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, FieldWarning, Origin, PixPNet, picture_name
from results import arguments_of, record

LIMIT = 1.15
DECIDING_LIMIT = 0.02
CLASSES, MANY_CLASSES = 12, 200
CUTS = (("resnet18", "layer3", 224), ("vgg16", "maxpool4", 224), ("vgg16", "maxpool5", 224), ("small-61", "", 96))


def network(backbone: str, at: str, size: int, pictures: Path, classes: int = CLASSES) -> PixPNet:
    """A network as it comes out of a run: with origins and a folder of pictures."""
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore", category=FieldWarning):
        cut = Backbone(zoo.build(backbone), at, (size, size))
    names = [f"class {label}" for label in range(classes)]
    model = PixPNet(cut, Architecture(), names, Preprocessing().scaled_to(size), backbone).eval()
    matrix = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    model.origins = tuple(
        Origin(number, int(label), f"{number}.jpg", 0, 0, (Box(0, 0, 9, 9),), matrix, 0.0, "image")
        for number, label in enumerate(model.labels.tolist())
    )
    for number in range(len(model.labels)):
        for ending in ("png", "jpg"):
            (pictures / f"{picture_name(number, len(model.labels))}.{ending}").touch()
    model.pictures = pictures
    return model


def images(model: PixPNet, count: int) -> list[Sample]:
    """Different ones, so that best cells differ."""
    size, random = model.preprocessing.size, np.random.default_rng(0)
    coarse = random.integers(0, 256, (count, 8, 8, 3), np.uint8).repeat(size // 8, 1).repeat(size // 8, 2)
    samples = [source_sample(pixels, -1, f"{n}", NO_ANNOTATION, masks=None) for n, pixels in enumerate(coarse)]
    return [preprocess(sample, model.preprocessing) for sample in samples]


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def forward(model: PixPNet, sample: Sample) -> float:
    """Seconds of one forward pass."""
    image = sample.image.as_subclass(torch.Tensor)[None]
    with torch.no_grad():
        return timed(lambda: model(image))


def ratio(model: PixPNet, samples: list[Sample]) -> float:
    """Median cost of an explanation, as a multiple of a forward pass on the same image."""
    result = []
    for number, sample in enumerate(samples):
        # The order turns, so that nobody always comes second.
        if number % 2:
            whole, base = timed(lambda sample=sample: explain(model, sample)), forward(model, sample)
        else:
            base, whole = forward(model, sample), timed(lambda sample=sample: explain(model, sample))
        result.append(whole / base)
    return statistics.median(result)


def deciding_ratio(model: PixPNet, samples: list[Sample]) -> float:
    """Median cost of finding out which scores decide, as a share of a forward pass on the same image."""
    result = []
    for sample in samples + samples:
        image = sample.image.as_subclass(torch.Tensor)[None]
        start = time.process_time()
        with torch.no_grad():
            output = model(image)
        base = time.process_time() - start
        size = (image.shape[-2], image.shape[-1])
        result.append(
            timed(lambda output=output, size=size: deciding(model, output.matches, output.logits, 0, size)) / base
        )
    return statistics.median(result[len(samples) :])


def main() -> int:
    """Measures and prints; the exit code says whether the limit holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30)
    parser.add_argument("--prove", action="store_true", help="measure a proof as well, in forward passes")
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    worst = 0.0
    print("explain / forward pass                first time   again   (field traced once, in forward passes)")
    for backbone, at, size in CUTS:
        with tempfile.TemporaryDirectory() as folder:
            model = network(backbone, at, size, Path(folder))
            samples = images(model, arguments.images)
            for sample in samples[:3]:
                forward(model, sample)
            base = statistics.median(forward(model, sample) for sample in samples[:5])
            trace = timed(lambda model=model: model.field.mean_fraction_union) / base
            explain(model, samples[0])
            first, again = ratio(model, samples), ratio(model, samples)
            worst = max(worst, again)
            record("explaining", f"{backbone} {at}, {size} px".replace(" ,", ","), again)
            line = f"  {backbone + ' ' + at:20s} {size:3d} px  {1e3 * base:6.1f} ms    "
            line += f"{first:5.3f}   {again:5.3f}   {trace:5.1f}"
            if arguments.prove:
                known: Explanation = explain(model, samples[0])
                passes = timed(lambda model=model, known=known, s=samples[0]: prove(model, s, known)) / base
                line += f"   proof of {sum(len(explained.terms) for explained in known.classes)} terms: {passes:.0f}"
            print(line, flush=True)
    print(f"wanted: at most {LIMIT}, reached: {worst:.3f}")
    with tempfile.TemporaryDirectory() as folder:
        model = network("resnet18", "layer3", 224, Path(folder), MANY_CLASSES)
        share = deciding_ratio(model, images(model, arguments.images))
    record("explaining", f"which of {model.num_prototypes} scores decide", share)
    print(
        f"which of {model.num_prototypes} scores decide / forward pass: {share:.4f}, wanted: at most {DECIDING_LIMIT}"
    )
    return 0 if worst <= LIMIT and share <= DECIDING_LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())

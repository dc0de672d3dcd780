"""How far the stepped relevance ordering test is from the exact one, curve by curve.

    python studies/ordering_error.py --run RUN --mapping field --samples 12
    python studies/ordering_error.py --backbone resnet18 --at layer2 --weights WEIGHTS --data cub:PATH --samples 3

The exact curve of each (sample, prototype) is computed once; each spacing then reads its points off that curve, so all
spacings are evaluated on the same curves. Without a run the prototypes are patches of training images under a random
add-on: not trained, but the curves rise as they do for a trained network. Images are of the validation split.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import pixpnet._torchvision  # noqa: F401  isort: skip

import numpy as np
import torch

from pixpnet.config import read_config
from pixpnet.data import DataSet, open_data
from pixpnet.data.loader import PlainSamples
from pixpnet.mapping import MAPPINGS
from pixpnet.members.pixpnet import PRESETS
from pixpnet.metrics.ordering import (
    Curve,
    PairResult,
    Spacing,
    area_under_similarity,
    pixels_to_recovery,
    relevance_ordering,
)
from pixpnet.metrics.ordering.spacing import stepped_curve
from pixpnet.model import PixPNet
from pixpnet.model.build import build_backbone, build_model
from pixpnet.training import open_run_data

SPACINGS = [
    Spacing(points, finer, times)
    for points, finer, times in ((16, 8, 2), (24, 8, 2), (32, 0, 0), (32, 8, 1), (32, 8, 2), (64, 8, 2), (100, 8, 2))
]


def read_off(curve: Curve, spacing: Spacing) -> Curve:
    """What the stepped test would have seen of an exact curve."""
    return stepped_curve(lambda steps: curve.similarities[steps], len(curve.fractions) - 1, spacing)


def errors(pairs: Sequence[PairResult], spacing: Spacing) -> tuple[np.ndarray, np.ndarray]:
    """The differences of area and recovery to those of the exact curves."""
    areas, recoveries = [], []
    for pair in pairs:
        curve = read_off(pair.curve, spacing)
        area, recovery = area_under_similarity(curve), pixels_to_recovery(curve)
        if pair.area is not None and pair.recovery is not None and area is not None and recovery is not None:
            areas.append(area - pair.area)
            recoveries.append(recovery - pair.recovery)
    return np.array(areas), np.array(recoveries)


def described(values: np.ndarray) -> str:
    """The error of the mean, the typical error of one curve, and the largest."""
    percent = 100 * values
    sizes = np.abs(percent)
    return f"{percent.mean():+7.3f} {np.median(sizes):7.3f} {np.quantile(sizes, 0.9):7.3f} {sizes.max():7.3f}"


def untrained(arguments: argparse.Namespace, data: DataSet) -> PixPNet:
    """A backbone with weights, and patches of random training images as prototypes."""
    size = data.preprocessing.size
    backbone = build_backbone(arguments.backbone, arguments.at, arguments.weights, size, arguments.seed)
    architecture = PRESETS["laptop"].architecture
    model = build_model(
        backbone, arguments.backbone, architecture, data.class_names, data.preprocessing, arguments.seed
    ).eval()
    train = PlainSamples(data.train, data.reader, model.preprocessing)
    generator = torch.Generator().manual_seed(0)
    for label in range(model.num_classes):
        own = [index for index, entry in enumerate(data.train) if entry.label == label]
        for prototype in model.prototypes_of(label).tolist():
            image = train[own[int(torch.randint(len(own), (), generator=generator))]].image
            with torch.no_grad():
                (embeddings,) = model.embed(image.as_subclass(torch.Tensor)[None])
                cells = embeddings[0].flatten(1)
                chosen = int(torch.randint(cells.shape[1], (), generator=generator))
                model.prototypes[prototype] = cells[:, chosen, None, None]
    return model


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a trained run; otherwise a backbone is needed")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--at", default="layer2")
    parser.add_argument("--weights", default="none")
    parser.add_argument("--data", default="birds")
    parser.add_argument("--mapping", nargs="+", default=["field", "upsampling", "random"], choices=list(MAPPINGS))
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--prototypes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.run is not None:
        model = PixPNet.load(arguments.run)
        data = open_run_data(read_config(arguments.run / "config.yaml"))
    else:
        data = open_data(arguments.data)
        model = untrained(arguments, data)
    samples = PlainSamples(data.val, data.reader, model.preprocessing)
    print("errors in points of a hundred: of the mean, then of single curves: median, 90 % of them below, largest")
    for name in arguments.mapping:
        began = time.perf_counter()
        exact = relevance_ordering(
            model,
            samples,
            MAPPINGS[name],
            method="exact",
            sample_count=arguments.samples,
            prototypes_per_sample=arguments.prototypes,
            seed=arguments.seed,
        )
        assert exact.area is not None
        assert exact.recovery is not None
        print(
            f"{name}: {exact.area.count} curves, {exact.undefined} without a rise, AUSC {exact.area.mean:.3f}, "
            f"%2R {100 * exact.recovery.mean:.1f}, {time.perf_counter() - began:.0f} s, {exact.method}",
            flush=True,
        )
        for spacing in SPACINGS:
            areas, recoveries = errors(exact.pairs, spacing)
            print(
                f"  {spacing.points:3d} points, {spacing.times} x {spacing.finer:2d} finer:  "
                f"AUSC {described(areas)}   %2R {described(recoveries)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

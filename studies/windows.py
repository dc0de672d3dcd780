"""Windows of several sizes and depths, and variants of a preset: field, cost, and accuracy by cross-validation.

    python studies/windows.py --data cub:PATH --backbone resnet18 --at layer4 --weights WEIGHTS --out DIR
        --settings 384:64:64:layer1 448:64:64:layer1 384:::
        --variants - architecture.pooling=max optimization.views=1,optimization.epochs=32

A setting is SIZE:WINDOW:STRIDE:FROM. FROM may be empty (windows of the image itself), and so may WINDOW and STRIDE (no
windows); both may be several numbers with commas, for several grids. A variant is a list of values that differ from
the preset's, "-" for none. For each pair the study prints

- the mean share of the image that a cell sees;
- what a forward pass costs, in passes of the same backbone to the same layer on one image of 224 x 224 (CPU time,
  side by side);
- the accuracy after replacement on held-out folds of the training images, with the standard error of a share of so
  many images, and the mean difference to the first pair over the same folds and seeds, with the standard error of
  that mean;
- of the prototypes, the share whose centre lies on the annotated bounding box and near an annotated part.

The last epoch counts, so nothing is chosen by a fold that is evaluated on; the test split stays closed. Features are
kept, so a study that was interrupted, or is asked for another fold or preset, goes on with what is there.
"""

import argparse
import json
import shutil
import statistics
import time
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import torch
import yaml

from pixpnet.config import RunConfig, config_from_plain, plain_config
from pixpnet.data.splits import folds
from pixpnet.family import DEFAULT, MEMBERS, member_named
from pixpnet.metrics import prototype_places
from pixpnet.metrics.bootstrap import DefinedMean
from pixpnet.model import PixPNet
from pixpnet.model.build import build_backbone
from pixpnet.records import to_plain
from pixpnet.training import Nobody, open_run_data, train_on


@dataclass(frozen=True)
class FoldResult:
    """What one fold gave.

    Attributes:
        accuracy: of the last epoch after replacement, on the images that were held out.
        before: the same before replacement.
        images: how many those are.
        on_object: share of prototypes whose centre lies on the object's bounding box; None without boxes.
        near_part: share of prototypes whose centre lies near an annotated part; None without parts.
        field: mean share of the image that a cell sees.
        cpu_seconds: of the fit, and of features that were not there yet.
    """

    accuracy: float
    before: float
    images: int
    on_object: float | None
    near_part: float | None
    field: float
    cpu_seconds: float


class LastEpoch(Nobody):
    """Remembers the accuracy of the last epoch."""

    accuracy = before = 0.0

    def epoch_ended(self, line):
        """See `Watcher`."""
        self.accuracy, self.before = line.val_accuracy_after or 0.0, line.val_accuracy or 0.0


def cost_in_passes(config: RunConfig, size: int, repeats: int = 5) -> float:
    """CPU time of the backbone on one image, in passes of the plain one at 224."""
    windows = config.windows(size)
    here = build_backbone(config.backbone, config.at, config.weights, size, 0, (), windows).eval()
    plain = build_backbone(config.backbone, config.at, config.weights, 224, 0).eval()
    images, small = torch.randn(1, 3, size, size), torch.randn(1, 3, 224, 224)
    taken = {"here": [], "plain": []}
    with torch.inference_mode():
        for _ in range(repeats + 1):
            for name, network, image in (("here", here, images), ("plain", plain, small)):
                before = time.process_time()
                network(image)
                taken[name].append(time.process_time() - before)
    return statistics.median(taken["here"][1:]) / statistics.median(taken["plain"][1:])


def cross_validated(config: RunConfig, count: int, out: Path) -> list[FoldResult]:
    """The result of each fold. Folds are the same for every seed and setting."""
    data = open_run_data(config)
    known = (*data.train, *data.val)
    results = []
    for number, fold in enumerate(folds(known, count, 0)):
        watcher = LastEpoch()
        folder = out / f"fold-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        started = time.process_time()
        of_fold = replace(data, train=fold.remaining, val=fold.taken)
        metrics = train_on(of_fold, config, folder, watcher)
        spent = time.process_time() - started
        places = prototype_places(PixPNet.load(folder), of_fold)
        results.append(
            FoldResult(
                watcher.accuracy,
                watcher.before,
                len(fold.taken),
                _mean(places.on_object),
                _mean(places.near_part),
                metrics.mean_field,
                round(spent, 1),
            )
        )
    return results


def _mean(share: DefinedMean) -> float | None:
    return None if share.estimate is None else share.estimate.mean


def with_setting(config: RunConfig, setting: str) -> RunConfig:
    """The configuration with the size and windows of a setting."""
    size, window, stride, start = setting.split(":")
    return replace(
        config,
        size=int(size),
        window=_numbers(window),
        window_stride=_numbers(stride),
        window_from=start,
    )


def _numbers(text: str) -> float | str | None:
    """A number, several with commas as they are, or None for nothing."""
    if not text:
        return None
    return text if "," in text else float(text)


def with_variant(config: RunConfig, variant: str) -> RunConfig:
    """The configuration with other values: "architecture.dim=64,frame=crop"; "-" for none."""
    values: dict[str, Any] = plain_config(config)
    for assignment in variant.split(",") if variant != "-" else ():
        path, text = assignment.split("=")
        *groups, name = path.split(".")
        group = values
        for part in groups:
            group = group[part]
        if name not in group:
            raise SystemExit(f"there is no value {path}: see pixpnet train --help")
        group[name] = yaml.safe_load(text)
    return config_from_plain(values)


def line(setting: str, variant: str, passes: float, results: list[FoldResult], first: list[FoldResult]) -> str:
    """A row of the table."""
    accuracy = statistics.mean(result.accuracy for result in results)
    images = sum(result.images for result in results)
    differences = [100 * (here.accuracy - there.accuracy) for here, there in zip(results, first, strict=True)]
    spread = statistics.stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else 0.0
    size, window, stride, start = setting.split(":")
    shares = [
        statistics.mean(values) if None not in values else float("nan")
        for values in ([result.on_object for result in results], [result.near_part for result in results])
    ]
    cells = [
        size,
        window or "none",
        stride or "none",
        start or "image",
        variant,
        f"{results[0].field:.1%}",
        f"{passes:.1f}",
        " ".join(f"{result.accuracy:.1%}" for result in results),
        f"{accuracy:.1%} ± {100 * sqrt(accuracy * (1 - accuracy) / images):.1f}",
        f"{statistics.mean(differences):+.1f} ± {spread:.1f}",
        f"{shares[0]:.0%}",
        f"{shares[1]:.0%}",
        f"{statistics.mean(result.cpu_seconds for result in results):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Measures each pair of a setting and a variant, and prints a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--at", default="layer4")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--member", choices=MEMBERS, default=DEFAULT)
    parser.add_argument("--preset", default="frozen")
    parser.add_argument("--variants", nargs="+", default=["-"], metavar="KEY=VALUE[,KEY=VALUE]")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--settings", nargs="+", required=True, metavar="SIZE:WINDOW:STRIDE:FROM")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    base = RunConfig(
        member=args.member,
        data=args.data,
        backbone=args.backbone,
        at=args.at,
        weights=args.weights,
        evaluate_on_test=False,
        settings=member_named(args.member).preset(args.preset),
    )
    names = (
        *("size", "window", "stride", "from", "variant", "mean field", "passes at 224", "accuracy of folds"),
        *("mean", "difference", "on box", "near part", "CPU s a fold"),
    )
    print(f"| {' | '.join(names)} |\n{'|---' * len(names)}|", flush=True)
    done: list[dict[str, Any]] = []
    first: list[FoldResult] = []
    for setting in args.settings:
        config = with_setting(base, setting)
        passes = cost_in_passes(config, config.size)
        for variant in args.variants:
            results = []
            for seed in args.seeds:
                folder = args.out / "_".join((setting, variant, str(seed))).replace(":", "-")
                results += cross_validated(replace(with_variant(config, variant), seed=seed), args.folds, folder)
            first = first or results
            print(line(setting, variant, passes, results, first), flush=True)
            folds_done = [to_plain(result) for result in results]
            done.append({"setting": setting, "variant": variant, "passes": passes, "folds": folds_done})
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / "windows.json").write_text(json.dumps(done, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Windows of several sizes, strides and depths: exact field, cost, and accuracy by cross-validation inside train.

    python studies/windows.py --data cub:PATH --backbone resnet18 --at layer4 --weights WEIGHTS --out DIR
        --settings 384:72:40:layer1 384:44:36:layer1 512:72:56:layer1

A setting is SIZE:WINDOW:STRIDE:FROM (FROM may be empty: windows of the image itself). For each the study prints the
mean share of the image that a cell sees, what a forward pass costs in passes of the same backbone, to the same layer,
on one image of 224 x 224 (CPU time, side by side), and the accuracy after replacement on held-out folds of the training
images. The last epoch counts, so nothing is chosen by a fold that is judged on; the test split stays closed. Features
are kept, so a study that was interrupted, or is asked for another fold or preset, goes on with what is there.
"""

import argparse
import json
import shutil
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from pixpnet.config import RunConfig
from pixpnet.data.splits import folds
from pixpnet.family import DEFAULT, MEMBERS, member_named
from pixpnet.model.build import build_backbone
from pixpnet.training import Nobody, open_run_data, train_on
from pixpnet.windows import resolve_windows


class LastAccuracy(Nobody):
    """Remembers the accuracy of the last epoch, after replacement."""

    accuracy = 0.0

    def epoch_ended(self, line):
        """See `Watcher`."""
        self.accuracy = line.val_accuracy_after or 0.0


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


def cross_validated(config: RunConfig, count: int, out: Path) -> list[float]:
    """The accuracy of each fold."""
    data = open_run_data(config)
    known = (*data.train, *data.val)
    accuracies = []
    for number, fold in enumerate(folds(known, count, config.seed)):
        watcher = LastAccuracy()
        folder = out / f"fold-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        train_on(replace(data, train=fold.kept, val=fold.taken), config, folder, watcher)
        accuracies.append(watcher.accuracy)
    return accuracies


def main() -> int:
    """Measures each setting and prints a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--at", default="layer4")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--member", choices=MEMBERS, default=DEFAULT)
    parser.add_argument("--preset", default="frozen")
    parser.add_argument("--frame", choices=("crop", "stretch", "pad"))
    parser.add_argument("--views", type=int)
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", nargs="+", required=True, metavar="SIZE:WINDOW:STRIDE:FROM")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    base = RunConfig(
        data=args.data,
        backbone=args.backbone,
        at=args.at,
        weights=args.weights,
        seed=args.seed,
        judge_on_test=False,
        member=args.member,
        settings=member_named(args.member).preset(args.preset),
    )
    base = base.with_settings(frame=args.frame or base.settings.frame)
    if args.views is not None:
        base = base.with_settings(optimisation=replace(base.optimisation, views=args.views))
    results = []
    print(
        "| size | window | stride | from | mean field | passes at 224 | accuracy of folds | mean |\n" + "|---" * 8 + "|"
    )
    for setting in args.settings:
        size, window, stride, start = setting.split(":")
        config = replace(base, size=int(size), window=float(window), window_stride=float(stride), window_from=start)
        started = time.process_time()
        accuracies = cross_validated(config, args.folds, args.out / setting.replace(":", "-"))
        fitted = time.process_time() - started
        metrics = json.loads((args.out / setting.replace(":", "-") / "fold-0" / "metrics.json").read_text())
        cost = cost_in_passes(config, int(size))
        windows = resolve_windows(float(window), float(stride), start, int(size))
        shown = " ".join(f"{accuracy:.1%}" for accuracy in accuracies)
        mean = statistics.mean(accuracies)
        print(
            f"| {size} | {windows.size} | {windows.stride} | {start or 'image'} | {metrics['mean_field']:.1%} "
            f"| {cost:.1f} | {shown} | {mean:.1%} |",
            flush=True,
        )
        results.append({"setting": setting, "field": metrics["mean_field"], "passes": cost, "folds": accuracies,
                        "cpu_seconds": round(fitted)})  # fmt: skip
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "windows.json").write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

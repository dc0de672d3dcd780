"""Fine-tuning the last stage on windows after a frozen fit: what it gains over the frozen network, and what it costs.

    python studies/tail.py --data cub:PATH --weights WEIGHTS --out DIR --folds 4
        --variants optimization.lr_backbone=0.00003 optimization.lr_backbone=0.0001

On each fold inside train, a network is fitted with everything frozen. Each variant then goes on from that very network
(`--start`): the last stage before the cut learns too, for a few epochs with small learning rates. A variant is a list
of values that differ from `TUNING`, "-" for none. The last epoch counts, after replacement, so nothing is chosen by a
fold that is evaluated on; the test split stays closed. With `--test`, train as it is split for validation takes the
place of the folds, for each seed, and the frozen network and its variants are evaluated once on the test split.

What is in DIR/tail.jsonl is not computed again, and features are kept.
"""

import argparse
import json
import shutil
import statistics
import time
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

from pixpnet.config import RunConfig, TrainerOptions
from pixpnet.data import DataSet
from pixpnet.data.splits import folds
from pixpnet.family import DEFAULT, member_named
from pixpnet.training import open_run_data, train_on
from windows import LastEpoch, with_setting, with_variant

FROZEN = "optimization.views=2"
TUNING = (
    "optimization.views=1,optimization.epochs=3,optimization.warm_up_epochs=0,optimization.lr_backbone=0.00003,"
    "optimization.lr_add_on=0.0003,optimization.lr_prototypes=0.0003,optimization.lr_rise=0.2,"
    "replacement.start=2,replacement.every=1"
)


def fitted(data: DataSet, config: RunConfig, folder: Path) -> dict[str, Any]:
    """Trains, and says how accurate the last epoch is, on test where that is asked for, and what it cost."""
    watcher = LastEpoch()
    shutil.rmtree(folder, ignore_errors=True)
    wall, started = time.monotonic(), time.process_time()
    metrics = train_on(data, config, folder, watcher)
    result: dict[str, Any] = {
        "accuracy": watcher.accuracy,
        "before": watcher.before,
        "images": len(data.val),
        "cpu_seconds": round(time.process_time() - started, 1),
        "seconds": round(time.monotonic() - wall, 1),
    }
    if config.evaluate_on_test:
        assert metrics is not None and metrics.test is not None
        result |= {"accuracy": metrics.test.accuracy, "before": metrics.test_before.accuracy}
        result["images"] = metrics.test.images
    return result


def table(results: dict[str, Any]) -> str:
    """A row for each variant: accuracies, their mean, and the paired difference to the frozen network."""
    rows: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        variant, _, where = name.rpartition(" ")
        rows.setdefault(variant, {})[where] = result
    lines = ["| variant | accuracies | mean | gained | CPU s |", "|---" * 5 + "|"]
    for variant, parts in rows.items():
        accuracies = [100 * part["accuracy"] for part in parts.values()]
        gains = [100 * (part["accuracy"] - rows["frozen"][where]["accuracy"]) for where, part in parts.items()]
        error = statistics.stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else float("nan")
        lines.append(
            f"| {variant} | {', '.join(f'{accuracy:.1f}' for accuracy in accuracies)} | "
            f"{statistics.fmean(accuracies):.1f} | {statistics.fmean(gains):+.1f} ± {error:.1f} | "
            f"{statistics.fmean(part['cpu_seconds'] for part in parts.values()):.0f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Does what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--at", default="layer4")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--setting", default="384:72:40:layer1", metavar="SIZE:WINDOW:STRIDE:FROM")
    parser.add_argument("--variants", nargs="+", default=["-"], metavar="KEY=VALUE[,KEY=VALUE]")
    parser.add_argument("--precision", default="bf16-mixed", choices=("32-true", "bf16-mixed"), help="of fine-tuning")
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2, 3], help="which of four")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="with --test")
    parser.add_argument("--test", action="store_true", help="train with each seed and evaluate on the test split")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    base = RunConfig(
        data=args.data, backbone=args.backbone, at=args.at, weights=args.weights, evaluate_on_test=args.test
    )
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "tail.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    results = {line["job"]: line["result"] for line in lines}
    for number in args.seeds if args.test else args.folds:
        where = f"seed-{number}" if args.test else f"fold-{number}"
        first = args.out / f"frozen-{where}"
        jobs = [("frozen", "frozen", FROZEN, "")]
        jobs += [(f"tail {variant}", "tail", variant, str(first)) for variant in args.variants]
        for title, preset, variant, start in jobs:
            if f"{title} {where}" in results:
                continue
            config = with_setting(replace(base, settings=member_named(DEFAULT).preset(preset)), args.setting)
            config = replace(config, seed=number if args.test else 0, start=start)
            if start:
                config = replace(with_variant(config, TUNING), trainer=TrainerOptions(precision=args.precision))
            config = with_variant(config, variant)
            data = open_run_data(config)
            if not args.test:
                split = folds((*data.train, *data.val), 4, 0)[number]
                data = replace(data, train=split.remaining, val=split.taken)
            folder = first if not start else args.out / f"{title} {where}".replace(" ", "_")
            results[f"{title} {where}"] = fitted(data, config, folder)
            with file.open("a") as written:
                written.write(json.dumps({"job": f"{title} {where}", "result": results[f"{title} {where}"]}) + "\n")
            print(title, where, results[f"{title} {where}"], flush=True)
    print(table(results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Regions of several sizes in one network: accuracy, size of the winning regions, and terms of each size.

    python studies/scales.py --data cub:PATH --weights WEIGHTS --out DIR
        --settings 384:72:40:layer1 384:144:80:layer1 384:72,144:40,80:layer1
        --variants - architecture.prototypes_per_class=20,architecture.terms_per_class=10,architecture.field_price=10

A setting and a variant are those of `studies/windows.py`. Pairs are compared by cross-validation inside train; the last
epoch counts, so nothing is chosen by a fold that is evaluated on, and the test split stays closed. With `--test`, each
pair is trained with each seed, on train as it is split for validation, and evaluated once on the test split.

For each pair: accuracy after replacement; the mean share of the image that a winning region covers (the terms of the
predicted class, exact fields); the share of terms that each grid has, and of the sum of their scores. The study can be
interrupted: what is in DIR/scales.jsonl is not computed again, and features are kept.
"""

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import torch

from pixpnet.config import RunConfig
from pixpnet.data import DataSet, Entry
from pixpnet.data.splits import folds
from pixpnet.family import DEFAULT, member_named
from pixpnet.model import PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.training import open_run_data, train_on
from pixpnet.training.features import Features, plain_feature_loader
from pixpnet.training.run import Run
from windows import LastEpoch, with_setting, with_variant


def terms_of_answers(model: PixPNet, data: DataSet, entries: Sequence[Entry]) -> dict[str, Any]:
    """Of the terms of the predicted classes: mean region, and the share that each grid has of them and of their sum."""
    size = model.preprocessing.size
    model.backbone.freeze("all", (size, size))
    features = Features(model.backbone, model.preprocessing, data.augmentation, data.reader, repr(data.reader))
    areas = [torch.tensor(_areas(field)) for field in model.fields]
    grids = torch.cat([torch.full((len(grid.prototypes),), grid.number) for grid in model.grids])
    regions: list[float] = []
    counts, sums = torch.zeros(len(model.grids)), torch.zeros(len(model.grids))
    correct = 0
    with evaluating(model):
        for batch in plain_feature_loader(features, entries, 32):
            output = model.behind_stem(batch.images)
            correct += int((output.logits.argmax(dim=1) == batch.labels).sum())
            speaking = model.head.speaking(output.matches.scores)
            for row, label in enumerate(output.logits.argmax(dim=1).tolist()):
                own = model.prototypes_of(label)
                own = own[speaking[row, own]]
                cells = output.matches.cells[row, own]
                seen = [
                    float(areas[grid][tuple(cell)])
                    for grid, cell in zip(grids[own].tolist(), cells.tolist(), strict=True)
                ]
                regions.append(statistics.fmean(seen))
                counts += torch.bincount(grids[own], minlength=len(counts))
                sums += torch.zeros_like(sums).index_add(0, grids[own], output.matches.scores[row, own])
    return {
        "images": len(entries),
        "accuracy": correct / len(entries),
        "region": statistics.fmean(regions),
        "terms": (counts / counts.sum()).tolist(),
        "evidence": (sums / sums.sum()).tolist(),
        "fields": [field.mean_fraction_union for field in model.fields],
    }


def _areas(field: Any) -> list[list[float]]:
    rows, cols = field.shape[-2:]
    return [[field.region(row, col).fraction for col in range(cols)] for row in range(rows)]


def trained(data: DataSet, config: RunConfig, folder: Path, entries: Sequence[Entry] | None) -> dict[str, Any]:
    """Trains, and says what the model answers to held-out images, or to the test split, with what it cost."""
    watcher = LastEpoch()
    shutil.rmtree(folder, ignore_errors=True)
    started = time.process_time()
    metrics = train_on(data, config, folder, watcher)
    spent = time.process_time() - started
    model = PixPNet.load(folder)
    result: dict[str, Any] = {"last_epoch": watcher.accuracy, "before": watcher.before, "cpu_seconds": round(spent, 1)}
    if entries is None:
        assert metrics is not None and metrics.test is not None
        entries = data.test.open(Run(folder).recorder(), "which regions win in it")
        result |= {"test": metrics.test.accuracy, "test_before": metrics.test_before.accuracy}
    return result | terms_of_answers(model, data, entries)


def jobs(args: argparse.Namespace, base: RunConfig) -> Any:
    """What there is to do: a name, and what does it."""
    for setting in args.settings:
        for variant in args.variants:
            for seed in args.seeds:
                config = replace(with_variant(with_setting(base, setting), variant), seed=seed)
                name = f"{setting} {variant} {seed}"
                if args.test:
                    yield f"{name} test", config, None
                else:
                    for number in range(args.folds):
                        yield f"{name} {number}", config, number


def table(results: dict[str, Any]) -> str:
    """A row for each pair, over its folds or seeds."""
    pairs: dict[tuple[str, str], list[Any]] = {}
    for name, result in results.items():
        setting, variant, _, fold = name.split(" ")
        pairs.setdefault((f"{setting} {variant}", "test" if fold == "test" else "folds"), []).append(result)
    lines = ["| setting and variant | on | accuracies | mean | region | terms | evidence | CPU s |", "|---" * 8 + "|"]
    for (name, kind), rows in pairs.items():
        key = "test" if kind == "test" else "last_epoch"
        accuracies = [row[key] for row in rows]
        mean = statistics.fmean(accuracies)
        images = sum(row["images"] for row in rows) if kind == "folds" else rows[0]["images"]
        cells = [
            name,
            kind,
            ", ".join(f"{100 * value:.1f}" for value in accuracies),
            f"{100 * mean:.1f} ± {100 * sqrt(mean * (1 - mean) / images):.1f}",
            f"{statistics.fmean(row['region'] for row in rows):.1%}",
            *(_shares([row[share] for row in rows]) for share in ("terms", "evidence")),
            f"{statistics.fmean(row['cpu_seconds'] for row in rows):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _shares(rows: list[list[float]]) -> str:
    return " : ".join(f"{statistics.fmean(column):.0%}" for column in zip(*rows, strict=True))


def main() -> int:
    """Does what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--at", default="layer4")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--preset", default="frozen")
    parser.add_argument("--settings", nargs="+", required=True, metavar="SIZE:WINDOWS:STRIDES:FROM")
    parser.add_argument("--variants", nargs="+", default=["-"], metavar="KEY=VALUE[,KEY=VALUE]")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--test", action="store_true", help="train with each seed and evaluate on the test split")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    base = RunConfig(
        data=args.data,
        backbone=args.backbone,
        at=args.at,
        weights=args.weights,
        evaluate_on_test=args.test,
        settings=member_named(DEFAULT).preset(args.preset),
    )
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "scales.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    results = {line["job"]: line["result"] for line in lines}
    for name, config, fold in jobs(args, base):
        if name in results:
            continue
        data = open_run_data(config)
        held_out = None
        if fold is not None:
            split = folds((*data.train, *data.val), args.folds, 0)[fold]
            data, held_out = replace(data, train=split.remaining, val=split.taken), split.taken
        results[name] = trained(data, config, args.out / name.replace(" ", "_").replace(":", "-"), held_out)
        with file.open("a") as lines_written:
            lines_written.write(json.dumps({"job": name, "result": results[name]}) + "\n")
        print(name, results[name], flush=True)
    print(table(results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""PixPNet against a linear classifier on pooled features: the same cut, images, budget and seeds.

    python studies/cub12.py --backbone resnet18 --at layer3 --weights WEIGHTS --data cub:PATH --out runs/cub12

Trains both once for each seed, keeps the run folders, opens the test split once for each trained model (on record),
and prints accuracies with their spread over seeds. PixPNet's model is that of the last epoch whose validation accuracy
after replacement is within one standard error of the best, the linear classifier's is that of the last epoch. Settings
of both were chosen on images held out of train; nothing here looks at test results to choose anything.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from pixpnet.config import RunConfig, TrainerOptions
from pixpnet.data import Loading, plain_loader, record_in, training_loader
from pixpnet.family import DEFAULT, MEMBERS, member_named
from pixpnet.goldilocks.finetune import fit_pooled
from pixpnet.goldilocks.pooled import PooledLinear
from pixpnet.model.build import build_backbone
from pixpnet.training import Evaluation, LogLine, Nobody, evaluate, open_run_data, train


def train_linear(config: RunConfig, lr_backbone: float, lr_head: float, out: Path) -> Evaluation:
    """The comparison: same loaders, stages, schedule and optimiser; the last epoch is evaluated, there is no choice."""
    data = open_run_data(config)
    preprocessing = data.preprocessing if config.size is None else data.preprocessing.scaled_to(config.size)
    optim = config.optimization
    backbone = build_backbone(config.backbone, config.at, config.weights, preprocessing.size, config.seed, config.edits)
    torch.manual_seed(config.seed)
    model = PooledLinear(backbone, len(data.class_names))
    loading = Loading(optim.batch_size, config.num_workers)
    augmentation = data.augmentation if optim.views is None else replace(data.augmentation, factor=optim.views)
    loader = training_loader(data, preprocessing, augmentation, loading, config.seed)
    epochs = optim.pretraining_epochs + optim.epochs
    learning = replace(optim, epochs=epochs, lr_backbone=lr_backbone, lr_add_on=lr_head)
    fit_pooled(model, loader, learning, config.seed, half=config.trainer.precision == "bf16-mixed")
    entries = data.val
    if config.evaluate_on_test:
        entries = data.test.open(record_in(out / "openings.jsonl"), f"linear classifier, seed {config.seed}")
    return evaluate(model, len(data.class_names), plain_loader(data, entries, preprocessing, loading))


class Lines(Nobody):
    """Prints a line for each epoch."""

    def epoch_ended(self, line: LogLine) -> None:
        """See `Watcher`."""
        after = "" if line.val_accuracy_after is None else f" after {line.val_accuracy_after:.1%}"
        print(f"  epoch {line.epoch} {line.stage} loss {line.loss:.3f} train {line.train_accuracy:.1%} "
              f"val {line.val_accuracy or 0:.1%}{after}", flush=True)  # fmt: skip


def main() -> int:
    """Trains, evaluates, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--at", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--member", choices=MEMBERS, default=DEFAULT)
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--views", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--backbone-rate", type=float, help="of the backbone under the prototypes")
    parser.add_argument("--linear-rate", type=float, default=3e-4, help="of the backbone under the linear classifier")
    parser.add_argument("--head-rate", type=float, default=1e-2, help="of the linear classifier")
    parser.add_argument("--only", choices=("prototypes", "linear"))
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--no-test", action="store_true", help="evaluate on validation")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    preset = member_named(args.member).preset(args.preset)
    given = {"epochs": args.epochs, "views": args.views, "batch_size": args.batch, "lr_backbone": args.lr_backbone}
    optim = replace(preset.optimization, **{name: value for name, value in given.items() if value is not None})
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in args.seeds:
        config = RunConfig(
            data=args.data,
            backbone=args.backbone,
            at=args.at,
            weights=args.weights,
            size=args.size,
            seed=seed,
            evaluate_on_test=not args.no_test,
            member=args.member,
            settings=replace(preset, optimization=optim),
            trainer=TrainerOptions(device="cpu", precision=args.precision),
        )
        row: dict[str, object] = {"cut": f"{args.backbone}@{args.at}", "size": args.size, "seed": seed}
        if args.only != "linear":
            start = time.monotonic()
            named = f"{args.backbone}-{args.at}-{args.size}-{args.member}-{args.preset}-{seed}"
            metrics = train(config, args.out / named, Lines())
            assert metrics is not None
            after, before = (
                (metrics.validation, metrics.validation_before)
                if metrics.test is None or metrics.test_before is None
                else (metrics.test, metrics.test_before)
            )
            row |= {"before": before.accuracy, "after": after.accuracy, "images": after.images}
            row |= {"minutes": (time.monotonic() - start) / 60, "mean_field": metrics.mean_field}
        if args.only != "prototypes":
            start = time.monotonic()
            linear = train_linear(config, args.linear_rate, args.lr_head, args.out)
            row |= {"linear": linear.accuracy, "linear_minutes": (time.monotonic() - start) / 60}
        rows.append(row)
        print(json.dumps(row), flush=True)
        with (args.out / "results.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
    for name in ("before", "after", "linear"):
        values = [float(str(row[name])) for row in rows if name in row]
        if values:
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            print(f"{name:8s} {statistics.mean(values):.1%} +- {spread:.1%} over {len(values)} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())

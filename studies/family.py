"""All members of the family on the same data, cut and budget: the paper's Table 1 at the scale of a laptop.

    python studies/family.py --data cub:PATH --weights WEIGHTS --windows --out runs/family
    python studies/family.py --data birds --out runs/family-birds

Trains every member once (seed 0), and those named by `--several` for all `--seeds`; with `--windows` a PixPNet on
windows (its preset `photos`, four views) stands beside them. Features of the frozen backbone are computed once and
shared by all. Each run opens the test split at its end, once, for its accuracy; consistency and stability are then
measured on whole classes of test images (`--part-samples`), by which nothing is chosen. A run that is there is neither
trained nor measured again, one that was interrupted goes on, so the command can be repeated. The table is printed and
written to `family.md`, with figures beside it; `times.json` has what each run took, whenever it was made.

Drawn birds have no published weights. Where none are given, the small backbone first learns as a plain classifier, as
presets pretrain it (a linear layer on the largest values of each channel, no prototypes), from birds of another world:
so it was made for no member, and has seen none of the birds that are compared on. It is kept as `backbone.safetensors`;
`backbone.json` says how well it did.

Settings are the members' presets, the same budget for all; none was chosen by the results of this comparison.
Probabilities are not calibrated by folds, which would be five more trainings a run and change no answer.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from pixpnet.commands.family_text import COLUMNS, cells_of, csv_table, text_table
from pixpnet.config import RunConfig, read_config
from pixpnet.data import DataOptions, DrawnBirds, Loading, open_data, plain_loader, training_loader
from pixpnet.family import MEMBERS
from pixpnet.goldilocks.finetune import fit_pooled
from pixpnet.goldilocks.pooled import PooledLinear, PooledOutput
from pixpnet.members import budgets
from pixpnet.metrics.family_table import FamilyRow, facts_of, family_table
from pixpnet.metrics.suite import MeasureSettings, measure
from pixpnet.model.build import build_backbone
from pixpnet.model.weights import on_their_own
from pixpnet.training import Nobody, Run, evaluate, resume, train
from pixpnet.training.steps import largest_mean
from pixpnet.views.family_figures import accuracy_figure, venn_figure
from pixpnet.whole_file import written_whole

SEVERAL = ("pixpnet", "protopnet", "cosineprotopnet", "tesnet", "protopool", "prototree")
# Members that begin with, or learn from, another run: that of a ProtoPNet with the same seed.
BUILDS_ON = {"protopshare": "start", "proto2proto": "teacher"}
PHOTOGRAPHS = {"backbone": "resnet18", "at": "layer3", "size": 224}
# Of each bird itself and one augmented view: another bird costs no more than another view.
BIRDS = {"backbone": "small-37", "at": "", "size": 96, "views": 1}
ON_KEPT_FEATURES = ("frozen", "tail")
# How the small backbone learns: as many birds as the demo's, none of them among those that are compared on, for as many
# epochs as the preset scratch pretrains.
BACKBONE_BIRDS, BACKBONE_WORLD, BACKBONE_SEED = 3600, 1, 0
BACKBONE_LEARNING = replace(budgets.BIRDS, pretraining_epochs=0, epochs=budgets.SCRATCH.pretraining_epochs)


def configuration(args: argparse.Namespace, member: str, seed: int) -> RunConfig:
    """A member on the study's data, with the study's budget."""
    options = {"backbone": args.backbone, "weights": args.weights, "at": args.at, "size": args.size}
    config = RunConfig.of(member, args.preset, data=args.data, seed=seed, **options)
    config = replace(config, calibrate_by_folds=False)
    if args.data == "birds":
        config = replace(config, birds=args.birds)
    if args.views:
        config = config.with_settings(optimization=replace(config.optimization, views=args.views))
    if args.epochs:
        config = config.with_settings(optimization=replace(config.optimization, epochs=args.epochs))
    if member in BUILDS_ON:
        config = replace(config, **{BUILDS_ON[member]: str(args.out / f"protopnet-{seed}")})
    return config


def on_windows(args: argparse.Namespace, seed: int) -> RunConfig:
    """PixPNet as it is recommended for photographs, windows of 72 px on images of 384 px, with four views."""
    config = RunConfig.of("pixpnet", "photos", data=args.data, weights=args.weights, seed=seed)
    return config.with_settings(optimization=replace(config.optimization, views=4))


class LargestLinear(PooledLinear):
    """A linear layer on the mean of the largest values of each channel, as in pretraining."""

    def forward(self, images: Float[Tensor, "batch 3 height width"], frozen: bool = False) -> PooledOutput:
        """Logits."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            features = largest_mean(self.backbone(images), BACKBONE_LEARNING.pretraining_cells)
        return PooledOutput(self.head(features).float())


def plain_backbone(name: str, at: str, size: int, out: Path) -> Path:
    """The weights of a backbone that learnt to tell drawn birds apart without prototypes, learnt now or before."""
    path = out / "backbone.safetensors"
    if path.exists():
        return path
    data = open_data("birds", DataOptions(birds=DrawnBirds(world=BACKBONE_WORLD, train=BACKBONE_BIRDS)))
    preprocessing, optim = data.preprocessing.scaled_to(size), BACKBONE_LEARNING
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(BACKBONE_SEED)
        backbone = build_backbone(name, at, None, size, BACKBONE_SEED)
        model = LargestLinear(backbone, len(data.class_names))
    loading = Loading(optim.batch_size)
    loader = training_loader(data, preprocessing, data.augmentation, loading, BACKBONE_SEED)
    fit_pooled(model, loader, optim, BACKBONE_SEED)
    evaluation = evaluate(model, len(data.class_names), plain_loader(data, data.val, preprocessing, loading))
    learnt = {
        "backbone": name,
        "birds": len(data.train),
        "epochs": optim.epochs,
        "validation_accuracy": evaluation.accuracy,
        "validation_birds": evaluation.images,
    }
    (out / "backbone.json").write_text(json.dumps(learnt, indent=1))
    print(f"the backbone: {100 * evaluation.accuracy:.1f} % of {evaluation.images} validation birds", flush=True)
    with written_whole(path) as temporary:
        save_file(on_their_own(backbone.network.state_dict()), temporary)
    return path


def trained(config: RunConfig, path: Path) -> Path:
    """The run, trained now, to its end, or not at all where it is finished.

    Raises:
        ValueError: if there is a run with other settings.
    """
    if (path / "config.yaml").exists():
        there = read_config(path / "config.yaml")
        # How many processes read images decides nothing.
        if replace(there, start_model="", teacher_model="", num_workers=config.num_workers) != config:
            raise ValueError(f"{path} was trained with other settings: move it away, or choose another --out")
    if not (path / "config.yaml").exists():
        train(config, path, Nobody())
    elif not (path / "metrics.json").exists():
        resume(path, Nobody())
    return path


def measured(path: Path, part_samples: int) -> Path:
    """The run with its consistency and stability, and with what an audit finds, where they were not there yet."""
    if not (path / "measure").exists():
        settings = MeasureSettings(mappings=("field",), part_samples=part_samples, parts_only=True)
        try:
            measure(path, settings)
        except ValueError as error:
            print(f"{path.name}: no consistency and stability: {error}", flush=True)
    facts_of(Run(path))
    return path


class Times:
    """Seconds that each run took, CPU and wall clock, in all calls of this command."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: dict[str, dict[str, float]] = json.loads(file.read_text()) if file.exists() else {}
        self.restart()

    def restart(self) -> None:
        """The next run begins."""
        self.cpu, self.wall = time.process_time(), time.monotonic()

    def add(self, run: str, step: str) -> None:
        """Counts what passed since the last call for a step of a run."""
        cpu, wall = time.process_time() - self.cpu, time.monotonic() - self.wall
        steps = self.seconds.setdefault(run, {})
        # A repeated command finds everything there, in no time.
        if cpu > 2 or f"{step}_cpu" not in steps:
            steps[f"{step}_cpu"] = round(steps.get(f"{step}_cpu", 0.0) + cpu, 1)
            steps[f"{step}_wall"] = round(steps.get(f"{step}_wall", 0.0) + wall, 1)
            print(f"{run}, {step}: {cpu:.0f} s of CPU, {wall:.0f} s", flush=True)
        self.file.write_text(json.dumps(self.seconds, indent=1))
        self.restart()

    def total(self, kind: str) -> float:
        """Minutes of all runs."""
        return (
            sum(value for steps in self.seconds.values() for name, value in steps.items() if name.endswith(kind)) / 60
        )


def markdown(rows: tuple[FamilyRow, ...], command: str) -> str:
    """The table as a page."""
    lines = [f"`{command}`", "", "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cells_of(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Trains what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="cub:PATH, folder:PATH or birds")
    parser.add_argument("--weights", help="of the backbone; for birds it learns them first, where none are given")
    parser.add_argument("--backbone", help="by default resnet18, for birds small-37")
    parser.add_argument("--at", help="by default layer3, for birds the end")
    parser.add_argument("--size", type=int, help="by default 224, for birds 96")
    parser.add_argument("--preset", default="frozen", help="of all members")
    parser.add_argument("--epochs", type=int, help="by default those of the preset")
    parser.add_argument("--views", type=int, help="by default those of the preset, for birds 1")
    parser.add_argument("--birds", type=int, default=600, help="how many are drawn to learn from")
    parser.add_argument("--members", nargs="+", choices=tuple(MEMBERS), default=list(MEMBERS))
    parser.add_argument("--several", nargs="*", default=list(SEVERAL), help="members that get all seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--windows", action="store_true", help="also a PixPNet on windows, for each seed")
    parser.add_argument("--part-samples", type=int, default=120, help="images for consistency and stability, about")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    birds = args.data == "birds"
    if not birds and not args.weights:
        parser.error("say which weights the backbone has: --weights FILE")
    if birds and args.windows:
        parser.error("--windows is for photographs")
    defaults = BIRDS if birds else PHOTOGRAPHS
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    args.out.mkdir(parents=True, exist_ok=True)
    times = Times(args.out / "times.json")
    if not args.weights and args.preset in ON_KEPT_FEATURES:
        args.weights = str(plain_backbone(args.backbone, args.at, args.size, args.out))
        times.add("backbone", "training")
    # Others build on ProtoPNet, so it comes first.
    order = sorted(args.members, key=lambda member: (member != "protopnet", member in BUILDS_ON))
    failed: list[str] = []
    runs: list[Path] = []
    plan = [
        (member, seed) for seed in args.seeds for member in order if seed == args.seeds[0] or member in args.several
    ]
    planned = [(f"{member}-{seed}", lambda m=member, s=seed: configuration(args, m, s)) for member, seed in plan]
    if args.windows:
        planned += [(f"windows-{seed}", lambda s=seed: on_windows(args, s)) for seed in args.seeds]
    for name, config in planned:
        try:
            path = trained(config(), args.out / name)
            times.add(name, "training")
            runs.append(measured(path, args.part_samples))
            times.add(name, "measuring")
        except (ValueError, RuntimeError) as error:
            failed.append(f"{name}: {error}")
            print(failed[-1], flush=True)
    rows = family_table(runs)
    print(text_table(rows))
    print(
        f"{len(runs)} runs: {times.total('_cpu'):.0f} minutes of CPU, {times.total('_wall'):.0f} minutes by the clock"
    )
    for line in failed:
        print(f"not in the table: {line}")
    (args.out / "family.csv").write_text(csv_table(rows), encoding="utf-8")
    (args.out / "family.md").write_text(markdown(rows, "python " + " ".join(sys.argv)), encoding="utf-8")
    accuracy_figure(rows).savefig(args.out / "family.png")
    venn_figure(rows).savefig(args.out / "venn.png")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""All members of the family on the same data, cut and budget: the paper's Table 1 at the scale of a laptop.

    python studies/family.py --data cub:PATH --weights WEIGHTS --out runs/family
    python studies/family.py --data birds --out runs/family-birds

Trains every member once (seed 0), and those named by `--several` for all `--seeds`; with `--windows` a PixPNet on
windows (its preset `photos`) stands beside them. Features of the frozen backbone are computed once and shared by all.
Each run opens the test split once, at its end. A run that is there is not trained again, one that was interrupted goes
on, so the command can be repeated. The table is printed and written to `family.md`, with figures beside it.

Settings are the members' presets, the same budget for all; none was chosen for this comparison or by its results.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from pixpnet.commands.family_text import COLUMNS, cells_of, csv_table, text_table
from pixpnet.config import RunConfig, read_config
from pixpnet.family import MEMBERS, member_named
from pixpnet.metrics.family_table import FamilyRow, family_table
from pixpnet.training import Nobody, resume, train
from pixpnet.views.family_figures import accuracy_figure, venn_figure

SEVERAL = ("pixpnet", "protopnet", "cosineprotopnet", "tesnet", "protopool", "prototree")
# Members that begin with, or learn from, another run: that of a ProtoPNet with the same seed.
BUILDS_ON = {"protopshare": "start", "proto2proto": "teacher"}


def configuration(args: argparse.Namespace, member: str, seed: int) -> RunConfig:
    """A member on the study's data, with the study's budget."""
    birds = args.data == "birds"
    preset = args.preset or ("scratch" if birds else "frozen")
    options = {"backbone": args.backbone or "small-45"} if birds else {"backbone": args.backbone or "resnet18"}
    if not birds:
        options |= {"at": args.at, "weights": args.weights, "size": args.size}
    config = RunConfig.of(member, preset, data=args.data, seed=seed, **options)  # type: ignore[arg-type]
    if birds:
        config = replace(config, birds=args.birds)
    if args.epochs:
        config = config.with_settings(optimization=replace(config.optimization, epochs=args.epochs))
    if member in BUILDS_ON:
        config = replace(config, **{BUILDS_ON[member]: str(args.out / f"protopnet-{seed}")})
    return config


def on_windows(args: argparse.Namespace, seed: int) -> RunConfig:
    """PixPNet as it is recommended for photographs: windows of 72 px on images of 384 px."""
    return RunConfig.of("pixpnet", "photos", data=args.data, weights=args.weights, seed=seed)


def trained(config: RunConfig, path: Path) -> Path:
    """The run, trained now, to its end, or not at all where it is finished.

    Raises:
        ValueError: if there is a run with other settings.
    """
    began = time.process_time()
    if (path / "config.yaml").exists():
        there = read_config(path / "config.yaml")
        # How many processes read images decides nothing.
        if replace(there, start_model="", teacher_model="", num_workers=config.num_workers) != config:
            raise ValueError(f"{path} was trained with other settings: move it away, or choose another --out")
    if not (path / "config.yaml").exists():
        train(config, path, Nobody())
    elif not (path / "metrics.json").exists():
        resume(path, Nobody())
    else:
        return path
    print(f"{path.name}: {time.process_time() - began:.0f} s of CPU", flush=True)
    return path


def markdown(rows: tuple[FamilyRow, ...], command: str) -> str:
    """The table as a page."""
    lines = [f"`{command}`", "", "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cells_of(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Trains what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="cub:PATH, folder:PATH or birds")
    parser.add_argument("--weights", help="of the backbone; not for birds")
    parser.add_argument("--backbone", help="by default resnet18, for birds small-45")
    parser.add_argument("--at", default="layer3")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--preset", help="by default frozen, for birds scratch")
    parser.add_argument("--epochs", type=int, help="by default those of the preset")
    parser.add_argument("--birds", type=int, default=2400, help="how many are drawn to learn from")
    parser.add_argument("--members", nargs="+", choices=tuple(MEMBERS), default=list(MEMBERS))
    parser.add_argument("--several", nargs="*", default=list(SEVERAL), help="members that get all seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--windows", action="store_true", help="also a PixPNet on windows, for each seed")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.data != "birds" and not args.weights:
        parser.error("say which weights the backbone has: --weights FILE")
    if args.data == "birds" and args.windows:
        parser.error("--windows is for photographs")
    args.out.mkdir(parents=True, exist_ok=True)
    # Others build on ProtoPNet, so it comes first.
    order = sorted(args.members, key=lambda member: (member != "protopnet", member in BUILDS_ON))
    failed: list[str] = []
    runs: list[Path] = []
    plan = [
        (member, seed) for seed in args.seeds for member in order if seed == args.seeds[0] or member in args.several
    ]
    for member, seed in plan:
        path = args.out / f"{member}-{seed}"
        try:
            runs.append(trained(configuration(args, member, seed), path))
        except (ValueError, RuntimeError) as error:
            failed.append(f"{member_named(member).title}, seed {seed}: {error}")
            print(failed[-1], flush=True)
    for seed in args.seeds if args.windows else ():
        runs.append(trained(on_windows(args, seed), args.out / f"windows-{seed}"))
    rows = family_table(runs)
    print(text_table(rows))
    for line in failed:
        print(f"not in the table: {line}")
    (args.out / "family.csv").write_text(csv_table(rows), encoding="utf-8")
    (args.out / "family.md").write_text(markdown(rows, "python " + " ".join(sys.argv)), encoding="utf-8")
    accuracy_figure(rows).savefig(args.out / "family.png")
    venn_figure(rows).savefig(args.out / "venn.png")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

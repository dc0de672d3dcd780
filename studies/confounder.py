"""A trap, and a person who mends it: drawn birds with a mark of their species in a corner, which no test bird has.

    python studies/confounder.py --out DIR --seeds 0 1 2

For each seed: a network is trained on marked birds; its prototypes are reviewed, and those that lie on the mark (by the
drawing itself) are looked for in the order of suspicion; they are removed, without training; they are forbidden, with
the training patches that are nearest to each and lie on the mark too, as a person would who looks at a prototype's
page; and the network is trained again with `--feedback`. The clean test split is opened once for each of the three
models. With `--reference`, the same network is trained on birds without any mark.

Settings were chosen on seed 10, by validation birds that were drawn again without the mark. The study can be
interrupted: what is in DIR is not computed again, and trainings go on where they were. A table is printed at the end.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pixpnet as px
from pixpnet.box import Box
from pixpnet.config import RunConfig
from pixpnet.data import DataSet
from pixpnet.data.birds import draw_bird
from pixpnet.data.drawn import BirdReader
from pixpnet.metrics.review.suspicion import with_suspicion
from pixpnet.training import resume, train

SHARE_OF_MARK = 0.5
"""A patch lies on the mark when it sees at least this share of the mark's pixels."""


@dataclass(frozen=True)
class Settings:
    """What every seed has in common.

    Attributes:
        birds: to learn from, validation included.
        confounder: share of them with a mark.
        pretraining_epochs: in which the backbone learns to classify by the largest value of each channel.
        epochs: with prototypes.
        nearest: training patches that are forbidden with each prototype.
        forget_weight: of forbidden patches in the loss.
    """

    birds: int = 1500
    confounder: float = 1.0
    pretraining_epochs: int = 5
    epochs: int = 8
    nearest: int = 6
    forget_weight: float = 0.1


def config_of(seed: int, settings: Settings) -> RunConfig:
    """A network that can see the mark, and learns it faster than birds."""
    config = RunConfig.of(preset="birds", data="birds", seed=seed)
    config = replace(config, birds=settings.birds, confounder=settings.confounder)
    optim = replace(
        config.optimization,
        epochs=settings.epochs,
        pretraining_epochs=settings.pretraining_epochs,
        pretraining_cells=1,
    )
    return config.with_settings(optimization=optim)


def trained(config: RunConfig, path: Path) -> px.Run:
    """A finished run; goes on with one that was interrupted."""
    run = px.Run(path)
    if not run.finished:
        if (path / "config.yaml").exists():
            resume(path)
        else:
            train(config, path)
    return run


class Marks:
    """What the drawing knows of marks."""

    def __init__(self, data: DataSet) -> None:
        assert isinstance(data.reader, BirdReader)
        self.birds = data.reader.birds
        self.entries = {entry.id: entry for entry in (*data.train, *data.val)}

    def share(self, image: str, region: Sequence[Box]) -> float:
        """Of the mark's pixels in an image, those that a region sees; 0 without a mark."""
        entry, side = self.entries[image], self.birds.size
        drawing = draw_bird(self.birds.world, entry.index, entry.label, (side, side), self.birds.options)
        mask = drawing.confounder_mask
        if mask is None or not mask.any():
            return 0.0
        return float(sum(mask[y0:y1, x0:x1].sum() for y0, x0, y1, x1 in region) / mask.sum())

    def holds(self, image: str, region: Sequence[Box]) -> bool:
        """Whether a region lies on the mark."""
        return self.share(image, region) >= SHARE_OF_MARK


def on_mark(run: px.Run, marks: Marks) -> list[int]:
    """Prototypes that lie on the mark."""
    origins = run.model().origins
    assert origins is not None
    return [origin.prototype for origin in origins if marks.holds(origin.image, origin.boxes)]


def precision(ranking: Sequence[int], wanted: Sequence[int]) -> float:
    """The share of the first so many that are wanted, as many as there are wanted ones."""
    return len(set(ranking[: len(wanted)]) & set(wanted)) / len(wanted)


def without_annotations(reviews: px.Reviews) -> tuple[int, ...]:
    """The ranking by what needs no masks and no parts."""
    blind = [replace(review, on_background=None, object_share=None, purity=None) for review in reviews.reviews]
    judged = with_suspicion(blind, reviews.images)
    return replace(reviews, reviews=judged).ranking


def removable(run: px.Run, prototypes: Sequence[int]) -> list[int]:
    """Those that can be removed: a class keeps the last of its prototypes where it would lose all."""
    labels = run.model().labels.tolist()
    chosen = list(prototypes)
    for label in set(labels):
        own = [number for number, owner in enumerate(labels) if owner == label]
        if set(own) <= set(chosen):
            chosen.remove(own[-1])
    return chosen


def forbid(run: px.Run, prototypes: Sequence[int], marks: Marks, nearest: int) -> int:
    """Forbids prototypes, and the nearest training patches of each that lie on the mark too; says how many.

    The own patch of each comes last: where it is missing, somebody interrupted, and what is missing is made up for in
    the same order. The order decides which patches a training step is shown.
    """
    log = px.VerdictLog(run.path)
    model, data = run.model(), run.data()
    given = {number: {patch.key for patch in held.forbidden} for number, held in log.standing().items()}
    assert model.origins is not None
    for number in prototypes:
        known, origin = given.get(number, set()), model.origins[number]
        if (origin.image, tuple(sorted(origin.boxes))) in known:
            continue
        near = px.nearest_patches(run, number, 4 * nearest + 1, model=model, data=data).train
        others = [
            patch
            for patch in near
            if patch.own_class and patch.image != origin.image and marks.holds(patch.image, patch.region)
        ]
        for patch in others[:nearest]:
            exact = px.training_patch(run, patch, model=model, data=data)
            if exact.key not in known:
                px.give_verdict(run, px.Verdict(number, "forbid", patch=exact))
        px.give_verdict(run, px.Verdict(number, "forbid"))
    return len(log.forbidden())


def accuracy(run: px.Run, split: str) -> float:
    """Of a finished run."""
    return float(run.read_metrics()[split]["accuracy"])


def study(seed: int, folder: Path, settings: Settings) -> dict[str, Any]:
    """One seed, from the trap to the mended network."""
    config = config_of(seed, settings)
    base = trained(config, folder / "base")
    marks = Marks(base.data())
    wanted = on_mark(base, marks)
    reviews = px.review_prototypes(base)
    edited, dropped = px.Run(folder / "base+edited"), px.Run(folder / "base+dropped")
    preview = px.preview_edit(base, remove=removable(base, wanted))
    if not edited.finished:
        px.write_edit(base, preview, out=edited.path, way="scaled", test=True)
    if not dropped.finished:
        px.write_edit(base, preview, out=dropped.path, way="dropped", test=True)
    patches = forbid(base, wanted, marks, settings.nearest)
    told = replace(config, feedback=str(base.path / "verdicts.jsonl"), forget_weight=settings.forget_weight)
    mended = trained(told, folder / "mended")
    forbidden = {patch.key for patch in px.VerdictLog(base.path).forbidden()}
    origins = mended.model().origins or ()
    return {
        "seed": seed,
        "on_mark": len(wanted),
        "prototypes": len(reviews),
        "precision": precision(reviews.ranking, wanted),
        "precision_without_annotations": precision(without_annotations(reviews), wanted),
        "random": len(wanted) / len(reviews),
        "patches": patches,
        "marked_validation": accuracy(base, "validation"),
        "base": accuracy(base, "test"),
        "removed": accuracy(edited, "test"),
        "dropped": accuracy(dropped, "test"),
        "mended": accuracy(mended, "test"),
        "mended_marked_validation": accuracy(mended, "validation"),
        "mended_on_mark": len(on_mark(mended, marks)),
        "forbidden_again": sum((origin.image, tuple(sorted(origin.boxes))) in forbidden for origin in origins),
    }


def reference(seed: int, folder: Path, settings: Settings) -> float:
    """Test accuracy of the same network, trained on birds without any mark."""
    return accuracy(trained(config_of(seed, replace(settings, confounder=0.0)), folder / "reference"), "test")


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Markdown, percent."""
    columns = {
        "seed": "seed",
        "on the mark": "on_mark",
        "precision at that number": "precision",
        "without masks and parts": "precision_without_annotations",
        "random order": "random",
        "marked validation": "marked_validation",
        "clean test, before": "base",
        "removed (scaled)": "removed",
        "removed (dropped)": "dropped",
        "retrained": "mended",
        "on the mark then": "mended_on_mark",
        "without marks": "reference",
    }
    rows = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]

    def cell(value: object) -> str:
        return f"{100 * value:.1f}" if isinstance(value, float) else str(value)

    def mean(values: Sequence[float]) -> str:
        counts = all(isinstance(value, int) for value in values)
        average = statistics.fmean(values)
        return f"{average if counts else 100 * average:.1f}"

    for line in lines:
        rows.append("| " + " | ".join(cell(line.get(name, "")) for name in columns.values()) + " |")
    known = {
        name: [line[name] for line in lines if isinstance(line.get(name), (int, float))] for name in columns.values()
    }
    means = [mean(known[name]) if known[name] else "" for name in list(columns.values())[1:]]
    return "\n".join([*rows, "| " + " | ".join(["mean", *means]) + " |"])


def main() -> None:
    """Carries out what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--forget-weight", type=float, default=Settings.forget_weight)
    parser.add_argument("--nearest", type=int, default=Settings.nearest)
    parser.add_argument("--reference", action="store_true", help="train without marks too")
    args = parser.parse_args()
    settings = replace(Settings(), forget_weight=args.forget_weight, nearest=args.nearest)
    lines = []
    for seed in args.seeds:
        folder = args.out / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        line = study(seed, folder, settings)
        if args.reference:
            line["reference"] = reference(seed, folder, settings)
        lines.append(line)
        (folder / "result.json").write_text(json.dumps(line, indent=1), encoding="utf-8")
        print(table(lines), flush=True)


if __name__ == "__main__":
    main()

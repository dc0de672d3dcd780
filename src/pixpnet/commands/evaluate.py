"""``pixpnet evaluate``: the accuracy of a trained model, with every opening of the test split on record."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, TRUST_HELP, WORKERS_HELP, choose_device
from pixpnet.config import NumWorkers, refuse_other_workers
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars
from pixpnet.wording import percent

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.data import DataSet
    from pixpnet.metrics import TransferScores
    from pixpnet.metrics.certainty import CertaintyTable
    from pixpnet.model import PixPNet
    from pixpnet.training import Evaluation

EXAMPLES = """examples:
  pixpnet evaluate runs/birds                         the test split of the data it was trained on; on record
  pixpnet evaluate runs/birds --split val             the images that it was chosen by
  pixpnet evaluate runs/photos --data folder:other --split all    other images of the same classes"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `evaluate` takes."""
    from typing import Literal

    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("--data", type=str, default=None, help="another data set with the same classes")
    parser.add_argument(
        "--split", type=Literal["test", "val", "all"], default="test", help="which images; all is for other data sets"
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        default=None,
        metavar="RUN",
        help="also compare the matches with those of this run, the teacher (Proto2Proto): AAP, AJS and PMS",
    )
    parser.add_argument(
        "--teacher-threshold", type=float, default=100.0, help="largest distance of a cell that counts as matched"
    )
    parser.add_argument("--batch-size", type=int, default=64, help="images at a time")
    parser.add_argument("--num-workers", type=NumWorkers, default="auto", help=WORKERS_HELP)
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Evaluates a run's model on images and prints the result."""
    from pixpnet.data import Loading, plain_loader
    from pixpnet.data.registry import same_place
    from pixpnet.data.workers import num_workers_for
    from pixpnet.metrics.evaluating import evaluate_with_certainty
    from pixpnet.records import to_plain
    from pixpnet.training import Run, open_data_of, refuse_other_classes
    from pixpnet.training.location import located

    run_folder = Run(args.run)
    config = located(run_folder.config, args.run)
    model = run_folder.model(args.trust_code)
    device = choose_device(args.device)
    console = plain_console()
    with progress_bars(console) as progress:
        data = open_data_of(run_folder, progress, args.data)
    refuse_other_classes(model.class_names, data)
    own_data = args.data is None or same_place(args.data, config.data)
    if args.split != "val" and own_data:
        if args.split == "all":
            raise ValueError("--split all would evaluate a model on what it learnt from: it goes with --data of others")
        if not run_folder.finished:
            raise ValueError(
                f"{args.run} is not finished, so its model is not fixed and the test split stays closed: go on with it "
                f"(pixpnet train --resume {args.run}), or look at --split val"
            )
    entries = data.val
    if args.split != "val":
        entries = data.test.open(run_folder.recorder(), f"pixpnet evaluate on {args.data or config.data}")
    if args.split == "all":
        entries = (*data.train, *data.val, *entries)
    refuse_other_workers(args.num_workers)
    loading = Loading(args.batch_size, num_workers_for(args.num_workers, device.type))
    batches = plain_loader(data, entries, model.preprocessing, loading)
    with progress_bars(console) as progress:
        labels = [entry.label for entry in entries]
        both = evaluate_with_certainty(model.to(device), labels, batches, args.split, device, progress, own_data)
    evaluation = both.evaluation
    scores = None
    if args.teacher is not None:
        from pixpnet.metrics import transfer_scores

        teacher = Run(args.teacher).model(args.trust_code).to(device)
        with progress_bars(console) as progress:
            scores = transfer_scores(model, teacher, batches, args.teacher_threshold, device, progress)
    if args.json:
        record = {"run": str(args.run), "data": data.name, "split": args.split, **to_plain(evaluation)}
        record["certainty"] = to_plain(both.certainty)
        if scores is not None:
            record["transfer"] = to_plain(scores)
        sys.stdout.write(json.dumps(record, indent=1) + "\n")
    else:
        sys.stdout.write(_report(evaluation, model, data, args.split))
        if both.certainty is not None:
            sys.stdout.write("\n" + "\n".join(certainty_lines(both.certainty)) + "\n")
        if scores is not None:
            sys.stdout.write(_transferred(scores))
    return 0


def certainty_lines(table: CertaintyTable) -> list[str]:
    """How honest a model is about its answers, a line each for probabilities, sets and doubt."""
    from pixpnet.metrics.certainty import FITTED_TO_THESE, error_words

    sets = table.sets
    lines = [
        f"probabilities are off by {error_words(table.after)} on average; without calibration by "
        f"{error_words(table.before)}; temperature {table.temperature:.3g}",
    ]
    if sets.too_few:
        lines.append(f"sets that cover {percent(sets.wanted)} hold all classes: too few images to calibrate on")
    else:
        lines.append(
            f"sets that are to cover {percent(sets.wanted)} hold the true class of {percent(sets.held)} (95 % interval "
            f"{percent(sets.interval.low)} to {percent(sets.interval.high)}); {sets.mean_size:.2f} classes on average"
        )
    if table.warned is not None and table.warned_interval is not None:
        low, high = table.warned_interval.low, table.warned_interval.high
        lines.append(
            f"doubt about {percent(table.warned)} of the images (95 % interval {percent(low)} to {percent(high)})"
        )
    if table.own_images:
        lines.append(FITTED_TO_THESE)
    return lines


def _transferred(scores: TransferScores) -> str:
    """What a student has of its teacher, in lines."""
    lines = [
        "",
        f"beside its teacher, with cells matched at a distance of at most {scores.threshold:g}:",
        f"  matched cells of an image (AAP)           {scores.student_cells.mean:.1f}, the teacher "
        f"{scores.teacher_cells.mean:.1f}",
        f"  share of them that both match (AJS)       {percent(scores.overlap.mean)}",
        f"  prototypes that pick the same cells (PMS) {percent(scores.matching)}",
    ]
    return "\n".join(lines) + "\n"


def _report(evaluation: Evaluation, model: PixPNet, data: DataSet, split: str) -> str:
    low, high = evaluation.interval.low, evaluation.interval.high
    width = max(map(len, model.class_names))
    lines = [
        f"{data.name}, {split}: {percent(evaluation.accuracy)} of {evaluation.images} images "
        f"(95 % interval {percent(low)} to {percent(high)}), cross-entropy {evaluation.loss:.3f}",
        *readings_lines(evaluation),
        "",
    ]
    for label, (name, accuracy) in enumerate(zip(model.class_names, evaluation.class_accuracy, strict=True)):
        if accuracy is None:
            lines.append(f"{name:{width}s}    no images")
            continue
        wrong = [(count, other) for other, count in evaluation.confusion.given(label).items() if other != label]
        taken = ", ".join(f"{count} for {model.class_names[other]}" for count, other in sorted(wrong, reverse=True)[:3])
        lines.append(f"{name:{width}s}  {percent(accuracy):>7s}" + (f"   taken: {taken}" if taken else ""))
    return "\n".join(lines) + "\n"


def readings_lines(evaluation: Evaluation) -> list[str]:
    """What other readings of the same scores would have had, a line each."""
    return [
        f"  read as {name}: {percent(reading.accuracy)}, the same answer for {percent(reading.agreement)} of the images"
        for name, reading in (evaluation.readings or {}).items()
    ]

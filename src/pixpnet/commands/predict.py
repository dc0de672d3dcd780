"""``pixpnet predict``: which class each picture is taken for."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.answer_forms import COLUMNS, FORMS, Answers
from pixpnet.commands.calling import command
from pixpnet.commands.device import DEVICE_HELP, TRUST_HELP, choose_device
from pixpnet.commands.output import check_output
from pixpnet.commands.picture_files import picture_files
from pixpnet.messages import on_one_line
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.commands.answer_forms import Sets, Write
    from pixpnet.model import PixPNet

EXAMPLES = """examples:
  pixpnet predict runs/birds jay.jpg wren.png
  pixpnet predict runs/birds photos --out answers.csv           every picture of a folder: file, class, probability, ...
  pixpnet predict runs/birds "photos/**/*.jpg" --json           a pattern; the probabilities of all classes
  pixpnet predict runs/birds jay.jpg --coverage 0.95            every class that it may be, in 95 of 100 such pictures

Pictures are read and answered batch by batch, so that thousands of them take no more memory than one batch."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `predict` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a model.safetensors")
    parser.add_argument(
        "images", type=str, nargs="+", metavar="IMAGE", help="picture files, folders of them, or patterns in quotes"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="FILE",
        help="write predictions to this file: .csv (the best two classes) or .json (all classes)",
    )
    parser.add_argument(
        "--coverage",
        type=float,
        default=None,
        metavar="SHARE",
        help="also name the set of classes that holds the true one for this share of pictures (0.95), as long as "
        "they are like those that the model was calibrated on",
    )
    parser.add_argument("--csv", action="store_true", help=f"print a table of {', '.join(COLUMNS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON list with all logits and probabilities")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="pictures at a time")
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)


def run(args: Namespace) -> int:
    """Prints the classes of pictures; a picture that cannot be read is said, and the others go on."""
    if args.csv and args.json:
        raise ValueError("--csv and --json are two ways to print the same: choose one")
    if args.out is not None:
        check_output(args.out, (".csv", ".json"))
    paths = picture_files(args.images)

    from pixpnet.explanation.certainty import calibration_words
    from pixpnet.model import PixPNet
    from pixpnet.model.predicting import Unreadable, predict_files

    device = choose_device(args.device)
    model = PixPNet.load(args.run, trust_code=args.trust_code).to(device)
    _warn_of_training(args.run)
    answers = Answers(model.class_names, model.calibration, _sets(args.coverage, model))
    failed = answered = 0
    with _writer(args, answers) as write, progress_bars(plain_console()) as progress:
        for done, answer in enumerate(predict_files(model, paths, args.batch_size), start=1):
            if isinstance(answer, Unreadable):
                failed += 1
                sys.stderr.write(f"error: {on_one_line(answer.path)}: {answer.reason}\n")
            else:
                answered += 1
                write(answer)
            progress("reading pictures", done, len(paths))
    if args.out is not None:
        sys.stdout.write(f"{answered} answers -> {args.out}\n")
    elif answered and not (args.csv or args.json):
        sys.stdout.write(f"({calibration_words(model.calibration).rstrip('.')}; logits in brackets)\n")
    return 1 if failed else 0


def _sets(coverage: float | None, model: PixPNet) -> Sets | None:
    """Which classes a picture may be of; says where that is all of them, because too little is known."""
    if coverage is None:
        return None
    import torch

    from pixpnet.model.calibration import fewest_images, prediction_set, set_limit

    known = model.calibration
    if known is None:
        raise ValueError(
            "--coverage needs a calibrated model, and this one was trained by an earlier version: train it again"
        )
    if set_limit(known, coverage) is None:
        sys.stderr.write(
            f"warning: the model was calibrated on {known.images} images, and sets that cover {coverage:g} need "
            f"{fewest_images(coverage)}: they hold all classes\n"
        )
    return lambda ranking: prediction_set(known, torch.tensor(ranking.logits), coverage)


def _warn_of_training(path: Path) -> None:
    """A run that has not come to its end may yet keep another model."""
    # As `Run.finished` says, without what trains: predicting needs none of it.
    if (path / "config.yaml").exists() and not (path / "metrics.json").exists():
        sys.stderr.write(
            f"warning: {path} is still in training, or was interrupted: these are answers of the model that it kept so "
            f"far. Where nothing trains it, go on with it: {command('train', '--resume', path)}\n"
        )


@contextmanager
def _writer(args: Namespace, answers: Answers) -> Iterator[Write]:
    """Yields a function that writes an answer as soon as it is there, in the form that was asked for."""
    from pixpnet.whole_file import written_whole

    if args.out is None:
        form = "csv" if args.csv else "json" if args.json else "text"
        with FORMS[form](sys.stdout, answers) as write:
            yield write
        return
    with (
        written_whole(args.out) as temporary,
        # A file's name may hold bytes that are no text.
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
        FORMS[args.out.suffix.lower()[1:]](file, answers) as write,
    ):
        yield write

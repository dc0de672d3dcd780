"""``pixpnet calibrate``: probabilities, prediction sets and doubt of a finished run, measured again or first."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, MOVED_HELP, TRUST_HELP, choose_device
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.training.calibrating import CalibratedRun

EXAMPLES = """examples:
  pixpnet calibrate runs/old              a run of an earlier version gets honest probabilities
  pixpnet calibrate runs/photos           with five folds of the training images, where validation images are few
  pixpnet calibrate runs/photos --no-folds        from the validation images alone

No test image is used, and no answer changes. The model's file does, so measurements of it are made again."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `calibrate` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--no-folds", action="store_true", help="do not train networks on folds of the training images for it"
    )
    parser.add_argument("--data", type=str, default=None, help=MOVED_HELP)
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Calibrates a run and prints what changed."""
    from pixpnet.records import to_plain
    from pixpnet.training.calibrating import calibrate_run

    with progress_bars(plain_console()) as progress:
        result = calibrate_run(
            args.run,
            folds=not args.no_folds,
            device=choose_device(args.device),
            trust_code=args.trust_code,
            moved_to=args.data,
            progress=progress,
        )
    if args.json:
        sys.stdout.write(json.dumps({"run": str(args.run), **to_plain(result)}, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(result, args.run)) + "\n")
    return 0


def _lines(result: CalibratedRun, run: Path) -> list[str]:
    from pixpnet.explanation.certainty import calibration_words, limits_words
    from pixpnet.training.folds import FEWEST

    before, after = result.before, result.after
    lines = [calibration_words(after)]
    if after.source == "folds":
        lines.append(
            f"Models of folds learnt from fewer images; on validation images their temperature is to be multiplied by "
            f"{after.correction:.3f}, which is in it."
        )
    elif result.fold_note and after.images < FEWEST:
        lines.append(f"{after.images} images are few. Folds of the training images were not used: {result.fold_note}.")
    if before is None:
        lines.append("It was not calibrated before.")
    else:
        lines.append(f"Before: temperature {before.temperature:.3g}, from {before.images} images ({before.source}).")
    lines.append(limits_words(after))
    if after.least_logit is None:
        lines.append(f"{after.images} images are too few for one.")
    lines.append(f"The run: {run}; how honest it is on images that did not calibrate it: pixpnet report {run}")
    return lines

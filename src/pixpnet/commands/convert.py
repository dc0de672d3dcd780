"""``pixpnet convert``: turns a trained network into another kind of itself, without training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import TRUST_HELP
from pixpnet.wording import percent

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

EXAMPLES = """examples:
  pixpnet convert runs/tree --to hard --out runs/hard-tree     a soft tree becomes a hard one"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `convert` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--to",
        type=str,
        required=True,
        metavar="NAME",
        help="what to turn it into; `pixpnet members` lists what there is for each member",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="NEW", help="a new folder, which opens like any run")
    parser.add_argument(
        "--test",
        action="store_true",
        help="evaluate the new model on the test split, which is recorded",
    )
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)


def run(args: Namespace) -> int:
    """Turns a run's model into another one."""
    from pixpnet.training.converting import convert

    metrics = convert(args.run, args.to, args.out, args.test, args.trust_code)
    for split, evaluation in (("validation", metrics.validation), ("test", metrics.test)):
        if evaluation is not None:
            sys.stdout.write(f"{split} accuracy  {percent(evaluation.accuracy):>7s} of {evaluation.images} images\n")
    sys.stdout.write(f"the run: {args.out}\n")
    return 0

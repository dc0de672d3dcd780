"""``pixpnet doubt``: how well a model tells images of its own kind from others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, TRUST_HELP, choose_device
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars
from pixpnet.wording import aligned, percent

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.metrics.bootstrap import Estimate
    from pixpnet.metrics.doubt import DoubtResult

EXAMPLES = """examples:
  pixpnet doubt runs/birds noise                      random pixels
  pixpnet doubt runs/birds noise folder:photos        photographs, too; of another data set no test image is opened
  pixpnet doubt runs/photos birds --json              drawn birds against a model of photographs

Known images are those that the run was evaluated on, whose scores it kept: nothing is opened for them. The model warns
by the last sign, the rarer of the largest logit and the largest score. The result is kept in RUN/doubt, where the
report finds it.

What it does not mean: other images than these may look more, or less, like something known."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `doubt` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "against",
        type=str,
        nargs="+",
        metavar="DATA",
        help="noise, or data sets of other things: birds, folder:PATH ...",
    )
    parser.add_argument("--images", type=int, default=500, metavar="N", help="of each other data set, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of all draws")
    parser.add_argument("--batch-size", type=int, default=32, help="images at a time")
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def run(args: Namespace) -> int:
    """Measures signs of doubt against other data, prints them, and draws a figure."""
    from pixpnet.metrics.doubt_of_run import DOUBT_FOLDER, check_other_data, doubt_of_run, keep_doubt
    from pixpnet.records import to_plain
    from pixpnet.views.trust_figures import doubt_figure
    from pixpnet.whole_file import written_whole

    device = choose_device(args.device)
    with progress_bars(plain_console()) as progress:
        check_other_data(args.against, progress)
        results = doubt_of_run(
            args.run,
            args.against,
            images=args.images,
            seed=args.seed,
            batch_size=args.batch_size,
            device=device,
            trust_code=args.trust_code,
            progress=progress,
            ended=lambda result: keep_doubt(args.run, [result]),
        )
    figure = args.run / DOUBT_FOLDER / "doubt.png"
    with written_whole(figure) as temporary:
        doubt_figure(results).savefig(temporary, format="png")
    if args.json:
        sys.stdout.write(json.dumps(to_plain(list(results)), indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(map(_text, results)) + f"\nfigure: {figure}\n")
    return 0


def _text(result: DoubtResult) -> str:
    head = (
        f"{len(result.known_logits)} {result.known_split} images against {len(result.other_logits)} of {result.against}"
    )
    rows = [("", "AUROC", "95 %", "false positives at 95 % recall", "95 %", "undefined")]
    for sign in result.signs:
        if sign.auroc is None or sign.false_positives is None:
            rows.append((f"  {sign.sign}", "-", "", "-", "", f"{sign.undefined}: {sign.reason}"))
            continue
        area, passed = sign.auroc, sign.false_positives
        rows.append(
            (
                f"  {sign.sign}",
                f"{area.mean:.3f}",
                "" if area.low is None or area.high is None else f"{area.low:.3f} to {area.high:.3f}",
                percent(passed.mean),
                _interval(passed),
                str(sign.undefined),
            )
        )
    interval = result.warned_interval
    if not result.other_logits:
        warned = f"There is no image in {result.against}: nothing was measured."
    elif result.warned is None:
        warned = "The model has no limit for doubt: it was trained by an earlier version, or on too few images."
    else:
        between = "" if interval is None else f" (95 % interval {percent(interval.low)} to {percent(interval.high)})"
        warned = f"It warns of {percent(result.warned)} of them{between}: {_by_sign(result)}."
    return "\n".join([head, *aligned(rows), warned, ""])


def _by_sign(result: DoubtResult) -> str:
    """How many of the others are below each limit."""
    signs = [("logit", result.limit, result.other_logits), ("score", result.score_limit, result.other_scores)]
    return "; ".join(
        f"largest {name} below {limit:.4g}: {percent(sum(value < limit for value in values) / len(values))}"
        for name, limit, values in signs
        if limit is not None
    )


def _interval(estimate: Estimate) -> str:
    return (
        "" if estimate.low is None or estimate.high is None else f"{percent(estimate.low)} to {percent(estimate.high)}"
    )

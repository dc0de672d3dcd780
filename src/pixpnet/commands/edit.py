"""``pixpnet edit``: a run without some of its prototypes, without retraining."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.class_names import printable
from pixpnet.commands.calling import command
from pixpnet.commands.device import TRUST_HELP
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars
from pixpnet.wording import percent

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.training.mending.record import EditOutcome, EditPreview

EXAMPLES = """examples:
  pixpnet edit runs/birds --remove 0 3 --preview                 what that would do to validation answers
  pixpnet edit runs/birds --remove 0 3                           a new run, runs/birds+edited
  pixpnet edit runs/birds                                        what the run's verdicts ask for (pixpnet verdicts)
  pixpnet edit runs/birds --remove 3 --way dropped --out runs/without
  pixpnet edit runs/weighted --require 5=0.5 --remove 3 --preview
                                                                 for heads whose weights were learnt

Ways: scaled (a class that loses r of K prototypes counts the others K / (K - r) fold), dropped (scores are left out and
nothing else changes), refitted (weights of the others in closed form, for heads whose weights were learnt; the estimate
of what that costs stands beside the true loss; above the limit it is written only with --way refitted)."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `edit` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--remove", type=int, nargs="+", default=[], metavar="P", help="numbers of prototypes to remove"
    )
    parser.add_argument(
        "--require", type=str, nargs="+", default=[], metavar="P=WEIGHT", help="prototypes with their least weights"
    )
    parser.add_argument(
        "--way", type=str, default=None, choices=["scaled", "dropped", "refitted"], help="see below; else what suits"
    )
    parser.add_argument("--preview", action="store_true", help="say what it would do, and write nothing")
    parser.add_argument("--out", type=Path, default=None, metavar="NEW", help="a new folder; RUN+edited by default")
    parser.add_argument("--test", action="store_true", help="evaluate the edited model on the test split (recorded)")
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print the preview as one JSON object")


def run(args: Namespace) -> int:
    """Previews an edit, and makes it."""
    from pixpnet.records import to_plain
    from pixpnet.training.mending.preview import preview_edit, without_weights
    from pixpnet.training.mending.writing import write_edit
    from pixpnet.verdicts import VerdictLog

    remove, require = list(args.remove), _required(args.require)
    if not remove and not require:
        log = VerdictLog(args.run)
        remove, require = list(log.removed()), log.required()
        if not remove and not require:
            raise ValueError(
                f"nothing to do: name prototypes (--remove 0 3), or say so beforehand: "
                f"{command('verdicts', 'add', args.run, 'remove', 'PROTOTYPE')}"
            )
    with progress_bars(plain_console()) as progress:
        preview = preview_edit(args.run, remove, require, progress, args.trust_code)
        if args.way or not args.preview:
            preview.outcome(args.way)  # refuses before anything is printed
        new = None
        if not args.preview:
            new = write_edit(
                args.run, preview, args.out, args.way, test=args.test, progress=progress, trust_code=args.trust_code
            )
    if args.json:
        sys.stdout.write(json.dumps(to_plain(without_weights(preview)), indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(_text(preview)) + "\n")
    if new is not None:
        sys.stdout.write("" if args.json else f"the run: {new.path}\n")
    return 0


def _required(texts: list[str]) -> dict[int, float]:
    required = {}
    for text in texts:
        number, sign, weight = text.partition("=")
        try:
            if not sign:
                raise ValueError
            required[int(number)] = float(weight)
        except ValueError as error:
            raise ValueError(
                f"--require takes a prototype and its least weight, such as 5=0.5, got {text!r}"
            ) from error
    return required


def _text(preview: EditPreview) -> list[str]:
    lines = [
        f"validation accuracy now      {percent(preview.accuracy):>7s} of {preview.images} images",
        *(_outcome_line(outcome) for outcome in preview.outcomes),
    ]
    refit = preview.refit
    if refit is not None:
        verdict = "allowed" if refit.allowed else f"NOT allowed: above {refit.limit:g} (only with --way refitted)"
        lines.append(f"refitted, nothing removed: {refit.refitted_right} of {preview.images} right")
        lines.append(
            f"closed form: training loss {refit.loss:.4f} rises by {refit.estimated_cost:.4f} (estimated), "
            f"{refit.true_cost:.4f} (true): {verdict}"
        )
    lines += preview.refusals
    changed = preview.outcomes[0].changed
    if changed:
        lines.append(f"answers that change ({preview.outcomes[0].way}):")
        lines += [
            f"  {printable(answer.image)} ({printable(answer.class_name)}): {printable(answer.before)} -> "
            f"{printable(answer.after)}{_judged(answer.mended, answer.broken)}"
            for answer in changed[:20]
        ]
        if len(changed) > 20:
            lines.append(f"  and {len(changed) - 20} more (--json has all)")
    return lines


def _outcome_line(outcome: EditOutcome) -> str:
    mended, broken = sum(a.mended for a in outcome.changed), sum(a.broken for a in outcome.changed)
    return (
        f"then, {outcome.way + ':':22s} {percent(outcome.accuracy):>7s}; {len(outcome.changed)} answers change, "
        f"{mended} become right and {broken} wrong"
    )


def _judged(mended: bool, broken: bool) -> str:
    return ", now right" if mended else ", now wrong" if broken else ""

"""``pixpnet verdicts``: what a person says of prototypes, without a browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.class_names import printable
from pixpnet.commands.calling import command
from pixpnet.commands.device import TRUST_HELP
from pixpnet.verdicts import KINDS
from pixpnet.wording import aligned

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.verdicts import Standing, Verdict, VerdictLine

RUN_HELP = "the folder of a finished run"
LIST_EXAMPLES = """examples:
  pixpnet verdicts list runs/birds                    what holds now of each prototype
  pixpnet verdicts list runs/birds --all              every line, those that were taken back too
  pixpnet verdicts list runs/birds --json             what holds now, as one JSON list"""
ADD_EXAMPLES = """examples:
  pixpnet verdicts add runs/birds remove 0 3                     to be removed: see pixpnet edit
  pixpnet verdicts add runs/birds require 5 --weight 0.5         for heads whose weights were learnt
  pixpnet verdicts add runs/birds name 1 --text "red belly"      shown everywhere from then on
  pixpnet verdicts add runs/birds forbid 3 4 --nearest 8         no prototype may be like these patches, nor like the
                                                                 8 training patches that are nearest to each
  pixpnet train --config runs/birds/config.yaml --feedback runs/birds/verdicts.jsonl --out runs/mended"""
UNDO_EXAMPLES = """examples:
  pixpnet verdicts undo runs/birds                    takes back the last verdict that stands
  pixpnet verdicts undo runs/birds 1                  takes back line 1"""
_SHOWN = 60


def add_list_arguments(parser: ArgumentParser) -> None:
    """Declares what `verdicts list` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument("--all", action="store_true", help="every line of the log, with serial and time")
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def add_add_arguments(parser: ArgumentParser) -> None:
    """Declares what `verdicts add` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument("kind", type=str, choices=KINDS, metavar="KIND", help=f"one of {', '.join(KINDS)}")
    parser.add_argument("prototypes", type=int, nargs="+", metavar="PROTOTYPE", help="numbers of prototypes")
    parser.add_argument("--text", type=str, default="", help="the name, for `name`; else a note")
    parser.add_argument("--weight", type=float, default=None, help="for `require`: the least weight, above 0")
    parser.add_argument(
        "--nearest",
        type=int,
        default=0,
        metavar="N",
        help="for `forbid` and `remember`: the N training patches that are nearest to a prototype too (of images of "
        "its own class)",
    )
    parser.add_argument(
        "--expect",
        type=int,
        default=-1,
        metavar="SERIAL",
        help="refuse if the log has other than this many lines (default: whatever it has)",
    )
    parser.add_argument("--trust-code", action="store_true", help=f"for --nearest: {TRUST_HELP}")


def add_undo_arguments(parser: ArgumentParser) -> None:
    """Declares what `verdicts undo` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument("serial", type=int, nargs="?", default=None, metavar="SERIAL", help="which line; else the last")


def list_verdicts(args: Namespace) -> int:
    """Prints what holds now, or every line."""
    from pixpnet.records import to_plain
    from pixpnet.verdicts import VerdictLog

    log = VerdictLog(args.run)
    if args.json:
        shown: list[object] = list(log.lines()) if args.all else list(log.standing().values())
        sys.stdout.write(json.dumps(to_plain(shown), indent=1, ensure_ascii=False) + "\n")
        return 0
    if not log.lines():
        sys.stdout.write(f"no verdicts yet: {command('verdicts', 'add', args.run, 'remove', 'PROTOTYPE')}\n")
        return 0
    rows = [_line_row(line) for line in log.lines()] if args.all else []
    rows = rows or [("prototype", "verdict", "name", "forbidden", "remembered"), *map(_row, log.standing().values())]
    sys.stdout.write("\n".join(aligned(rows)) + f"\n{log.serial} lines in {log.path}\n")
    return 0


def add(args: Namespace) -> int:
    """Adds a verdict for each prototype."""
    from pixpnet.training.mending.giving import give_verdict
    from pixpnet.verdicts import PATCH_KINDS, Verdict

    if args.nearest < 0 or (args.nearest and args.kind not in PATCH_KINDS):
        raise ValueError("--nearest is a number of patches, for forbid and remember")
    if args.kind == "name" and len(args.prototypes) > 1:
        raise ValueError("a name is given to one prototype at a time")
    expected, lines = args.expect, []
    for number in args.prototypes:
        verdicts = [Verdict(number, args.kind, args.text, args.weight)]
        if args.nearest:
            verdicts += _nearest(args, number)
        for verdict in verdicts:
            lines.append(give_verdict(args.run, verdict, expected))
            expected = -1 if expected < 0 else lines[-1].serial
    for line in lines:
        sys.stdout.write(f"{line.serial}: {_sentence(line)}\n")
    return 0


def undo(args: Namespace) -> int:
    """Takes a verdict back."""
    from pixpnet.verdicts import VerdictLog

    line = VerdictLog(args.run).undo(args.serial)
    sys.stdout.write(f"{line.serial}: {_sentence(line)}\n")
    return 0


def _nearest(args: Namespace, prototype: int) -> list[Verdict]:
    """Verdicts about the nearest training patches, the prototype's own apart."""
    from pixpnet.metrics.review import nearest_patches, training_patch
    from pixpnet.training import Run
    from pixpnet.verdicts import Verdict
    from pixpnet.views.console import plain_console
    from pixpnet.views.progress import progress_bars

    run = Run(args.run)
    model = run.model(trust_code=args.trust_code)
    data = run.data()
    own = None if model.origins is None else model.origins[prototype]
    with progress_bars(plain_console()) as progress:
        # One more, since its own patch is mostly the first; and room for images of other classes.
        near = nearest_patches(run, prototype, 4 * args.nearest + 1, progress, model=model, data=data).train
    others = [patch for patch in near if patch.own_class and (own is None or patch.image != own.image)][: args.nearest]
    return [
        Verdict(prototype, args.kind, args.text, patch=training_patch(run, patch, model=model, data=data))
        for patch in others
    ]


def _row(current: Standing) -> tuple[str, ...]:
    weight = "" if current.weight is None else f" ({current.weight:g})"
    return (
        str(current.prototype),
        f"{current.action or '-'}{weight}",
        printable(current.name) or "-",
        str(len(current.forbidden) or "-"),
        str(len(current.remembered) or "-"),
    )


def _line_row(line: VerdictLine) -> tuple[str, ...]:
    return str(line.serial), line.time, _sentence(line)


def _sentence(line: VerdictLine) -> str:
    if line.verdict is None:
        return f"line {line.undoes} is taken back"
    verdict = line.verdict
    about = f"{verdict.kind} prototype {verdict.prototype}"
    if verdict.weight is not None:
        about += f" with a weight of at least {verdict.weight:g}"
    if verdict.text:
        about += f": {printable(verdict.text)}"
    if verdict.patch is not None:
        y0, x0, y1, x1 = verdict.patch.boxes[0]
        about += f" (rows {y0}:{y1}, columns {x0}:{x1} of {printable(verdict.patch.image)[-_SHOWN:]})"
    return about

"""``pixpnet report``: one page about a run, in one file that opens from disk and can be sent to anybody."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, MOVED_HELP, TRUST_HELP, choose_device
from pixpnet.commands.output import check_output
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

EXAMPLES = """examples:
  pixpnet report runs/birds                           runs/birds/report.html, with validation images as examples
  pixpnet report runs/birds --images jay.jpg wren.jpg --out jays.html
  pixpnet report runs/birds --split test              test images as examples; on record as an opening"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `report` takes."""
    from typing import Literal

    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--images",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="explain these pictures instead of sampled ones",
    )
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="the page; RUN/report.html if not given")
    parser.add_argument(
        "--split",
        type=Literal["val", "test"],
        default="val",
        help="split that examples are sampled from; using test is recorded",
    )
    parser.add_argument(
        "--examples", type=int, default=4, metavar="N", help="how many right, and how many wrong answers are explained"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random choice of examples")
    parser.add_argument("--data", type=str, default=None, help=MOVED_HELP)
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)


def run(args: Namespace) -> int:
    """Writes the report of a run and says how to open it."""
    out = args.run / "report.html" if args.out is None else args.out
    if args.examples < 0:
        raise ValueError(f"--examples is how many to show, got {args.examples}")
    if not args.run.is_dir():
        raise ValueError(f"{args.run} is no folder of a run: `pixpnet train --out RUN` makes one")
    check_output(out, (".html", ".htm"))
    from pixpnet.views.reporting import report

    with progress_bars(plain_console()) as progress:
        page = report(
            args.run,
            images=args.images,
            split=args.split,
            examples=args.examples,
            seed=args.seed,
            device=choose_device(args.device),
            trust_code=args.trust_code,
            moved_to=args.data,
            progress=progress,
        )
    if page.missing is not None:
        sys.stderr.write(f"warning: {page.missing}\n")
    size = page.write(out)
    sys.stdout.write(f"{out} ({size / 1e6:.1f} MB)\n{how_to_open(out)}\n")
    return 0


def how_to_open(page: Path) -> str:
    """What to type to see a page."""
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return f"Open it:  {opener} {quote(str(page))}   (or in any browser: {page.resolve().as_uri()})"

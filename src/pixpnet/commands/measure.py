"""``pixpnet measure``: the paper's Table 2 for a run, its curves, and the health and places of its prototypes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.calling import command
from pixpnet.commands.device import DEVICE_HELP, MOVED_HELP, TRUST_HELP, choose_device
from pixpnet.commands.measured_text import few_images, table_text
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.metrics.suite import MeasuredFolder

EXAMPLES = """examples:
  pixpnet measure runs/birds                          Table 2 of the paper for this run, on test samples; on record
  pixpnet measure runs/birds --split val              where figures are to decide between models
  pixpnet measure runs/birds --mappings field upsampling --samples 10 --part-samples 100      a quick look
  pixpnet measure runs/birds --parts-only --mappings field random          S_con and S_sta, against chance
  pixpnet measure runs/birds --method exact --prototypes 0    every pixel, every prototype of the class, as the paper
  pixpnet measure runs/birds --attacks pgd --attacked class --attack-samples 20    misalignment, all own prototypes
  pixpnet measure runs/birds --attacks --dialects --against       Table 2, health and places alone

Beside Table 2 it says which parts and places prototypes and answers point at (purity, distinctiveness, coverage), with
one forward pass for each image of the split and, where parts are annotated, one for each training image; and what other
papers print (consistency and stability in their dialect, misalignment, sizes, doubt), all of it sorted by Co-12.
It may be stopped (Ctrl-C) and goes on where it was when it is started again, also with more samples or mappings."""

CURVES_FILE = "curves.png"


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `measure` takes."""
    from typing import Literal

    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--mappings",
        type=str,
        nargs="+",
        default=["field", "upsampling", "prp", "random"],
        metavar="NAME",
        help="how cells are mapped to pixels; field_flat is available, too",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=None,
        metavar="N",
        help="images sampled for the relevance ordering test; by default 50, and 10 on windows (up to half an hour on "
        "two cores)",
    )
    parser.add_argument(
        "--prototypes",
        type=int,
        default=3,
        metavar="N",
        help="prototypes of the image's class that are sampled for each; 0 for all",
    )
    parser.add_argument(
        "--part-samples",
        type=int,
        default=0,
        metavar="N",
        help="images for consistency and stability, at most N, drawn as whole classes (at least one); 0 for all",
    )
    parser.add_argument(
        "--parts-only",
        action="store_true",
        help="consistency and stability alone, in seconds to minutes: no relevance ordering, health or places",
    )
    parser.add_argument(
        "--method",
        type=Literal["stepped", "exact"],
        default="stepped",
        help="stepped: some points of each curve (the table states the error); exact: every point",
    )
    parser.add_argument(
        "--split", type=Literal["test", "val"], default="test", help="which images; using test is recorded"
    )
    parser.add_argument(
        "--attacks",
        type=Literal["noise", "pgd"],
        nargs="*",
        default=["noise", "pgd"],
        help="on pixels outside of a prototype's region (misalignment): noise, and 40 steps of gradient descent",
    )
    parser.add_argument(
        "--protected",
        type=Literal["box", "field"],
        nargs="+",
        default=["box", "field"],
        help="what attacks may not touch: the published box, the exact field",
    )
    parser.add_argument(
        "--attacked",
        type=Literal["best", "class"],
        default="best",
        help="the prototype with the largest score, or all of the image's class",
    )
    parser.add_argument(
        "--attack-samples", type=int, default=None, metavar="N", help="images that are attacked; as many as --samples"
    )
    parser.add_argument(
        "--dialects",
        type=Literal["evalprotopnet", "pixpnet"],
        nargs="*",
        default=["evalprotopnet", "pixpnet"],
        help="of consistency and stability; their figures cannot be compared with each other",
    )
    parser.add_argument(
        "--against",
        type=str,
        nargs="*",
        default=["noise"],
        metavar="DATA",
        help="what doubt is measured against: noise, or data sets such as folder:other",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    parser.add_argument("--out", type=Path, default=None, metavar="DIR", help="RUN/measure if not given")
    parser.add_argument("--data", type=str, default=None, help=MOVED_HELP)
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Measures a run, prints its table and draws its curves."""
    from pixpnet.metrics.suite import MeasureSettings, measure, plain_table
    from pixpnet.metrics.suite.co12 import co12
    from pixpnet.records import to_plain

    settings = MeasureSettings(
        mappings=tuple(args.mappings),
        samples=args.samples,
        prototypes=args.prototypes or None,
        method=args.method,
        split=args.split,
        part_samples=args.part_samples or None,
        seed=args.seed,
        attacks=tuple(args.attacks),
        protected=tuple(args.protected),
        attacked=args.attacked,
        attack_samples=args.attack_samples,
        dialects=tuple(args.dialects),
        against=tuple(args.against),
        parts_only=args.parts_only,
    )
    device = choose_device(args.device)
    try:
        with progress_bars(plain_console()) as progress:
            measured = measure(
                args.run,
                settings,
                out=args.out,
                device=device,
                trust_code=args.trust_code,
                moved_to=args.data,
                progress=progress,
            )
    except KeyboardInterrupt:
        folder = args.run / "measure" if args.out is None else args.out
        sys.stderr.write(f"\nstopped; what was found is kept in {folder}. The same command goes on from there:\n")
        sys.stderr.write(f"  {command(*_words(args))}\n")
        return 130
    curves = None if args.parts_only else draw_curves(measured)
    if args.json:
        sys.stderr.writelines(f"{line}\n" for line in few_images(measured.table))
        sorted_by = to_plain(co12(measured.table))
        sys.stdout.write(json.dumps({**plain_table(measured.table), "co12": sorted_by}, indent=1) + "\n")
    else:
        sys.stdout.write(table_text(measured.table) + ("" if curves is None else f"\ncurves: {curves}\n"))
    return 0


def draw_curves(measured: MeasuredFolder) -> Path:
    """Writes the figure beside the table."""
    from pixpnet.views.curve_figure import curve_figure
    from pixpnet.whole_file import written_whole

    path = measured.path / CURVES_FILE
    with written_whole(path) as temporary:
        curve_figure(measured.table).savefig(temporary, format="png")
    return path


def _words(args: Namespace) -> list[str]:
    """The command that goes on."""
    words = ["measure", str(args.run), "--mappings", *args.mappings]
    for name in ("attacks", "protected", "dialects", "against"):
        words += [f"--{name}", *args[name]]
    for name in (
        "samples",
        "prototypes",
        "part_samples",
        "attacked",
        "attack_samples",
        "method",
        "split",
        "seed",
        "device",
    ):
        words += [] if args[name] is None else [f"--{name.replace('_', '-')}", str(args[name])]
    for name in ("out", "data"):
        words += [] if args[name] is None else [f"--{name}", str(args[name])]
    flags = {"--parts-only": "parts_only", "--trust-code": "trust_code", "--json": "json"}
    return [*words, *(option for option, name in flags.items() if args[name])]

"""``pixpnet audit``: the paper's three desiderata put to one trained model, with evidence, and an exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, MOVED_HELP, TRUST_HELP, choose_device
from pixpnet.commands.family_text import MARKS, UNKNOWN, in_percent
from pixpnet.commands.measured_text import draw_words
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars
from pixpnet.wording import aligned

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace
    from rich.console import Console

    from pixpnet.data import DataSet
    from pixpnet.metrics.auditing import Audit, Finding, Verdict
    from pixpnet.metrics.suite import MeasuredParts
    from pixpnet.model import PixPNet
    from pixpnet.training import Run

EXAMPLES = """examples:
  pixpnet audit runs/birds                            prototypes are patches? cells see parts? reasoning is linear?
  pixpnet audit runs/birds --threshold 0.4            a mean field and winning region of at most 40 % of the image
  pixpnet audit runs/birds --json                     the same as one JSON object

exit codes:
  0  every claim was checked and holds
  1  the audit could not be made (no such run, damaged files)
  2  wrong usage
  3  a claim does not hold
  4  no claim was found wrong, but some could not be checked (the data set is not at hand)"""

EXIT_CODES = {"holds": 0, "fails": 3, "not checked": 4}
LEGEND = """✓ holds, ✗ does not hold, ? could not be checked, – not measured.
BBox          whether pictures were cropped to annotated boxes first; neither answer is a failure
D1 D2 D3      the paper's three desiderata, one by one below
f             the network, and the layer it is cut at
Expl. size    how many numbers explain one answer: those that speak for it (+), and all of them (±)
P             how many prototypes there are
MRF           mean receptive field: the share of the image that a cell can see, %
Win. region   the share of the image that the part shown for a prototype covers on average, %
Acc., 95 %    share of test images that are recognised, %, and its 95 % confidence interval
S_con S_sta   consistency (a prototype shows the same part in every image) and stability (and still does when noise is
              added) of its parts, %; more is better (`pixpnet measure` measures them)
Val. set      whether the model was chosen on validation images that it did not learn from"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `audit` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.25,
        help="largest mean receptive field, and largest mean winning region, that count as a part (0 to 1)",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        help="largest difference between a component of a prototype and of its patch",
    )
    parser.add_argument("--pixels", type=int, default=8, help="how many pixels the NaN probe tests on the real network")
    parser.add_argument("--data", type=str, default=None, help=MOVED_HELP)
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Audits a run; the exit code says what was found."""
    from pixpnet.metrics.auditing import audit
    from pixpnet.training import Run

    if args.pixels < 1:
        raise ValueError(f"--pixels is how many to probe, at least 1, got {args.pixels}")
    run_folder = Run(args.run)
    model = run_folder.model(args.trust_code).to(choose_device(args.device))
    console = plain_console()
    data = _open(run_folder, args.data, console)
    with progress_bars(console) as progress:
        result = audit(
            args.run,
            model,
            data,
            threshold=args.threshold,
            tolerance=args.tolerance,
            pixels=args.pixels,
            progress=progress,
        )
    parts = _measured(run_folder)
    row, where = table_row(result, model, run_folder, parts), _measured_on(parts)
    if args.json:
        sys.stdout.write(json.dumps(_record(args.run, result, row, where), indent=1) + "\n")
    else:
        sys.stdout.write(_text(result, row, where))
    return EXIT_CODES[result.verdict]


def table_row(result: Audit, model: PixPNet, run: Run, parts: MeasuredParts | None) -> dict[str, str]:
    """The run's row of the paper's Table 1.

    The paper's ± is over runs. One run has an interval for images like these, in its place.

    Args:
        result: of the audit.
        model: of the run.
        run: the run.
        parts: consistency and stability, where this very model was measured.
    """
    evaluation = None if result.conduct.metrics is None else result.conduct.metrics.test
    at = f" @ {model.backbone.cut}" if model.backbone.cut else ""
    size = result.reasoning.size
    return {
        "BBox": "yes" if run.config.crop_to_box else "no",
        "D1": MARKS[result.grounding.verdict],
        "D2": MARKS[result.localization.verdict],
        "D3": MARKS[result.reasoning.verdict],
        "f": f"{model.backbone_name}{at}",
        "Expl. size +": str(size.positive),
        "Expl. size ±": str(size.both),
        "P": str(model.num_prototypes),
        "MRF": in_percent(result.localization.mean_field),
        "Win. region": in_percent(result.localization.winning_region),
        "Acc.": in_percent(None if evaluation is None else evaluation.accuracy),
        "95 %": UNKNOWN
        if evaluation is None
        else f"{in_percent(evaluation.interval.low)}–{in_percent(evaluation.interval.high)}",
        "S_con": in_percent(None if parts is None else parts.consistency),
        "S_sta": in_percent(None if parts is None else parts.stability),
        "Val. set": MARKS[result.conduct.findings[0].verdict],
    }


def _measured(run: Run) -> MeasuredParts | None:
    """What `pixpnet measure` found for this very model; the audit stands without it."""
    from pixpnet.metrics.suite import measured_parts

    try:
        return measured_parts(run.path, run.fingerprint())
    except ValueError as error:
        sys.stderr.write(f"warning: no S_con and S_sta: {error}\n")
        return None


def _measured_on(parts: MeasuredParts | None) -> str:
    if parts is None:
        return "not measured"
    table = parts.table
    return f"{table.settings.split}, {draw_words(parts.draw)}, window of {table.window} x {table.window} pixels"


def _open(run: Run, moved_to: str | None, console: Console) -> DataSet | None:
    """The run's data set, or a warning that it is not at hand."""
    from pixpnet.data import DataError
    from pixpnet.training import RunError

    try:
        with progress_bars(console) as progress:
            return run.data(progress, moved_to)
    except (DataError, RunError, OSError) as error:
        sys.stderr.write(f"warning: {run.config.data} is not at hand, so not all can be checked: {error}\n")
        return None


def _parts(result: Audit) -> tuple[tuple[str, Verdict, tuple[Finding, ...]], ...]:
    return (
        ("D1  prototypes are image patches", result.grounding.verdict, result.grounding.findings),
        ("D2  they localise to parts", result.localization.verdict, result.localization.findings),
        ("D3  reasoning is a linear or simple tree model", result.reasoning.verdict, result.reasoning.findings),
        ("    how it was chosen", result.conduct.verdict, result.conduct.findings),
    )


def _text(result: Audit, row: dict[str, str], where: str) -> str:
    lines = [
        *aligned([tuple(row), tuple(row.values())]),
        f"S_con, S_sta: {where}",
        "",
        LEGEND,
    ]
    for title, verdict, findings in _parts(result):
        lines += ["", f"{title}: {verdict}"]
        for finding in findings:
            lines += [f"  {MARKS[finding.verdict]} {finding.claim}", f"      {finding.evidence}"]
    verdicts = {
        "holds": "Every claim was checked and holds.",
        "fails": "A claim does not hold (exit code 3).",
        "not checked": "Nothing was found wrong, but not everything could be checked (exit code 4).",
    }
    return "\n".join([*lines, "", verdicts[result.verdict]]) + "\n"


def _record(path: Path, result: Audit, row: dict[str, str], where: str) -> dict[str, object]:
    from pixpnet.records import to_plain

    verdicts = {
        "grounding": result.grounding.verdict,
        "localization": result.localization.verdict,
        "reasoning": result.reasoning.verdict,
        "conduct": result.conduct.verdict,
    }
    about = {"run": str(path), "verdict": result.verdict, "verdicts": verdicts, "row": row, "parts_measured_on": where}
    return {**about, **to_plain(result)}

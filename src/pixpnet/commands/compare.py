"""``pixpnet compare``: trained runs side by side, as in the paper's Table 1; measured ones as in Table 2, too."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, MOVED_HELP, TRUST_HELP, choose_device
from pixpnet.commands.family_text import csv_table, in_percent, latex_table, spread_words, text_table
from pixpnet.commands.output import check_output
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars
from pixpnet.wording import aligned, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.metrics.bootstrap import Estimate
    from pixpnet.metrics.family_table import FamilyRow
    from pixpnet.metrics.recurring import Recurring
    from pixpnet.metrics.suite import RunGroup, Spread

EXAMPLES = """examples:
  pixpnet compare runs/pixpnet runs/tesnet            the paper's Table 1 for these runs, each audited
  pixpnet compare runs/seed0 runs/seed1 runs/seed2    they differ in the seed alone: one row, mean ± deviation
  pixpnet compare runs/* --format latex               the same for a paper; csv and json as well
  pixpnet compare runs/* --out family.png             a figure: accuracy against field
  pixpnet compare runs/* --venn venn.png              a figure: who satisfies which desiderata"""

_COLUMNS = ("run", "seeds", "MRF", "Acc.", "mapping", "S_con", "S_sta", "AUSC", "%2R")
_FIGURES = (".png", ".svg", ".pdf")


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `compare` takes."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="run folders, or folders that measure --out wrote"
    )
    parser.add_argument(
        "--format",
        type=str,
        choices=("text", "csv", "latex", "json"),
        default="text",
        help="how the tables are printed; csv and latex print Table 1 alone",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw accuracy against field: x.png, x.svg or x.pdf")
    parser.add_argument(
        "--venn", type=Path, metavar="FILE", help="draw a Venn diagram of the desiderata: x.png, x.svg or x.pdf"
    )
    parser.add_argument("--data", type=str, default=None, help=MOVED_HELP)
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)


def run(args: Namespace) -> int:
    """Prints runs side by side."""
    from pixpnet.metrics.suite import compare
    from pixpnet.model.file import MODEL_FILE
    from pixpnet.records import to_plain

    for path in filter(None, (args.out, args.venn)):
        check_output(path, _FIGURES)
    trained = [path for path in args.runs if (path / MODEL_FILE).exists()]
    measured = [path for path in args.runs if path not in trained or (path / "measure" / "table.json").exists()]
    form = "json" if args.json else args.format
    if not trained and (form in ("csv", "latex") or args.out or args.venn):
        raise ValueError("Table 1 is about runs, and these folders hold measurements alone: name the run folders")
    # What cannot be compared is said before hours of audits.
    groups = compare(measured) if measured else ()
    _warn_of_other_ways(groups)
    rows = _audited(trained, args)
    _draw(rows, args)
    if form == "json":
        tables = {
            "family": [_family_record(row) for row in rows],
            "measured": [_record(group) for group in groups],
            "recurring": [to_plain(result) for result in _recurring(rows)],
        }
        sys.stdout.write(json.dumps(tables, indent=1) + "\n")
    elif form in ("csv", "latex"):
        sys.stdout.write(csv_table(rows) if form == "csv" else latex_table(rows))
    else:
        texts = [text_table(rows)] if rows else []
        texts += [_text(groups)] if groups else []
        texts += map(_recurring_text, _recurring(rows))
        sys.stdout.write("\n".join(texts))
    return 0


def _audited(runs: Sequence[Path], args: Namespace) -> tuple[FamilyRow, ...]:
    from pixpnet.metrics.family_table import family_table

    if not runs:
        return ()
    with progress_bars(plain_console()) as progress:
        return family_table(
            runs, args.data, trust_code=args.trust_code, device=str(choose_device(args.device)), progress=progress
        )


def _recurring(rows: Sequence[FamilyRow]) -> list[Recurring]:
    """Which prototypes recur, for each row with several seeds whose prototypes are patches."""
    from pixpnet.metrics.recurring import recurring

    results = [recurring(row.runs) for row in rows if len(row.runs) > 1]
    return [result for result in results if result is not None]


def _recurring_text(result: Recurring) -> str:
    """The prototypes that recur, in words."""
    chance = "" if result.by_chance is None else f"; {percent(result.by_chance)} by chance"
    share, in_all, image = map(_with_interval, (result.share, result.in_all, result.same_image))
    return (
        f"Of the prototypes of one seed, {share} recur in another{chance}, and {in_all} in all {len(result.runs) - 1} "
        "others: of the same class and training image, with exact regions that overlap by half or more. "
        f"{image} have the image in common.\n  {', '.join(result.runs)}\n"
    )


def _with_interval(share: Estimate | None) -> str:
    if share is None:
        return "none"
    interval = "" if share.low is None or share.high is None else f" ({percent(share.low)} to {percent(share.high)})"
    return f"{percent(share.mean)}{interval}"


def _draw(rows: Sequence[FamilyRow], args: Namespace) -> None:
    from pixpnet.views.family_figures import accuracy_figure, venn_figure
    from pixpnet.whole_file import written_whole

    for path, figure_of in ((args.out, accuracy_figure), (args.venn, venn_figure)):
        if path is None:
            continue
        figure = figure_of(rows)
        with written_whole(path) as temporary:
            figure.savefig(temporary, format=path.suffix.lower().removeprefix("."))
        sys.stderr.write(f"written: {path}\n")


def _family_record(row: FamilyRow) -> dict[str, object]:
    from pixpnet.metrics.suite import spread
    from pixpnet.records import to_plain

    return {
        **to_plain(row),
        "title": row.title,
        "desiderata": list(row.desiderata),
        "accuracy": to_plain(row.accuracy),
        "winning_region": to_plain(row.winning_region),
        "S_con": to_plain(spread(row.consistency)),
        "S_sta": to_plain(spread(row.stability)),
        "validation": row.validation,
    }


def _warn_of_other_ways(groups: Sequence[RunGroup]) -> None:
    ways = dict.fromkeys(json.dumps(_way(group)) for group in groups)
    if len(ways) > 1:
        sys.stderr.write(
            "warning: these were not measured in the same way, so their figures do not compare: "
            + "; ".join(", ".join(f"{name} {value}" for name, value in json.loads(way).items()) for way in ways)
            + "\n"
        )


def _way(group: RunGroup) -> dict[str, object]:
    from pixpnet.records import to_plain

    way: dict[str, object] = to_plain(group.tables[0].settings)
    return {"data": group.tables[0].data, **{name: value for name, value in way.items() if name != "mappings"}}


def _figures(group: RunGroup, mapping: str) -> dict[str, Spread | None]:
    rows = [next(row for row in table.rows if row.mapping == mapping) for table in group.tables]
    return {
        "S_con": _spread_of([None if row.window is None else row.window.consistency for row in rows]),
        "S_sta": _spread_of([None if row.window is None else row.window.stability for row in rows]),
        "AUSC": _spread_of([row.area for row in rows]),
        "%2R": _spread_of([row.recovery for row in rows]),
    }


def _spread_of(estimates: Sequence[Estimate | None]) -> Spread | None:
    from pixpnet.metrics.suite import spread

    return spread([None if estimate is None else estimate.mean for estimate in estimates])


def _accuracy(group: RunGroup) -> Spread | None:
    from pixpnet.metrics.suite import spread

    return spread([table.accuracy.share for table in group.tables])


def _record(group: RunGroup) -> dict[str, object]:
    from pixpnet.records import to_plain

    return {
        "runs": [table.run for table in group.tables],
        "seeds": list(group.seeds),
        "backbone": group.tables[0].backbone,
        "way": _way(group),
        "mean_field": group.tables[0].mean_field,
        "accuracy": to_plain(_accuracy(group)),
        "mappings": {mapping: to_plain(_figures(group, mapping)) for mapping in group.mappings},
    }


def _text(groups: Sequence[RunGroup]) -> str:
    cells: list[tuple[str, ...]] = [_COLUMNS]
    for group in groups:
        first = group.tables[0]
        seeds = ", ".join(map(str, group.seeds))
        head = (first.backbone, seeds, in_percent(first.mean_field), spread_words(_accuracy(group)))
        for index, mapping in enumerate(group.mappings):
            figures = _figures(group, mapping)
            shown = [spread_words(figures[name], number=_area if name == "AUSC" else in_percent) for name in figures]
            cells.append((*(head if index == 0 else ("",) * len(head)), mapping, *shown))
    lines = aligned(cells)
    if any(len(group.tables) > 1 for group in groups):
        lines += ["", "± is the standard deviation over runs that differ in their seed alone."]
    return "\n".join(lines) + "\n"


def _area(value: float) -> str:
    return f"{value:.2f}"

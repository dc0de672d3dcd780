"""``pixpnet compare``: several measured runs side by side, mean and deviation over seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.metrics.bootstrap import Estimate
    from pixpnet.metrics.suite import RunGroup, Spread

EXAMPLES = """examples:
  pixpnet compare runs/a runs/b                       their figures side by side (pixpnet measure comes first)
  pixpnet compare runs/seed0 runs/seed1 runs/seed2    they differ in the seed alone: one row, mean ± deviation"""

_COLUMNS = ("run", "seeds", "MRF", "Acc.", "mapping", "S_con", "S_sta", "AUSC", "%2R")


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `compare` takes."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="measured runs, or folders that measure --out wrote"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Prints measured runs side by side."""
    from pixpnet.metrics.suite import compare

    groups = compare(args.runs)
    ways = dict.fromkeys(json.dumps(_way(group)) for group in groups)
    if len(ways) > 1:
        sys.stderr.write(
            "warning: these were not measured in the same way, so their figures do not compare: "
            + "; ".join(", ".join(f"{name} {value}" for name, value in json.loads(way).items()) for way in ways)
            + "\n"
        )
    if args.json:
        sys.stdout.write(json.dumps([_record(group) for group in groups], indent=1) + "\n")
    else:
        sys.stdout.write(_text(groups))
    return 0


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
        head = (first.backbone, seeds, f"{100 * first.mean_field:.1f}", _words(_accuracy(group), 100, 1))
        for index, mapping in enumerate(group.mappings):
            figures = _figures(group, mapping)
            shown = [_words(figures[name], *((1, 2) if name == "AUSC" else (100, 1))) for name in figures]
            cells.append((*(head if index == 0 else ("",) * len(head)), mapping, *shown))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(f"{cell:{width}s}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    if any(len(group.tables) > 1 for group in groups):
        lines += ["", "± is the standard deviation over runs that differ in their seed alone."]
    return "\n".join(lines) + "\n"


def _words(spread: Spread | None, factor: float, digits: int) -> str:
    if spread is None:
        return "–"
    mean = f"{factor * spread.mean:.{digits}f}"
    deviation = "" if spread.deviation is None else f" ± {factor * spread.deviation:.{digits}f}"
    return mean + deviation + (f" (undefined in {spread.undefined})" if spread.undefined else "")

"""The paper's Table 1 as text, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from pixpnet.class_names import printable
from pixpnet.wording import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pixpnet.metrics.auditing import Verdict
    from pixpnet.metrics.family_table import FamilyRow
    from pixpnet.metrics.suite import Spread

UNKNOWN = "–"
MARKS = {"holds": "✓", "fails": "✗", "not checked": "?"}
_LATEX_MARKS = {"✓": r"$\checkmark$", "✗": r"$\times$", "?": "?", UNKNOWN: "--"}
_LATEX_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
    }
)
COLUMNS = (
    "network",
    "BBox",
    "D1",
    "D2",
    "D3",
    "f",
    "size +",
    "size ±",
    "P",
    "MRF",
    "win. region",
    "Acc.",
    "S_con",
    "S_sta",
    "val. set",
    "seeds",
)
NOTES = (
    "D1 prototypes are image patches, D2 they localize to parts, D3 reasoning is linear or a simple tree: each derived",
    "by an audit of the run (✓ holds, ✗ does not, ? could not be checked). MRF, win. region: mean share of the image",
    "that a cell sees, and that the region of a winning cell covers, %. Acc.: test accuracy, %, after replacement",
    "(where D1 fails, prototypes may never be replaced); ± is the standard deviation over runs that differ in their",
    "seed alone. Other data or budgets do not compare.",
)


def cells_of(row: FamilyRow) -> tuple[str, ...]:
    """A row of the table, as a person reads it."""
    from pixpnet.metrics.suite import spread

    facts = row.facts[0]
    counts = sorted({of_run.prototypes for of_run in row.facts})
    return (
        row.title,
        "yes" if facts.cropped else "no",
        *map(_mark, row.desiderata),
        printable(facts.backbone),
        str(facts.positive),
        str(facts.both),
        str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}",
        in_percent(facts.mean_field),
        spread_words(row.winning_region, deviation=False),
        spread_words(row.accuracy),
        spread_words(spread(row.consistency)),
        spread_words(spread(row.stability)),
        _mark(row.validation),
        ", ".join(map(str, row.seeds)),
    )


def text_table(rows: Sequence[FamilyRow]) -> str:
    """For a terminal, with a legend."""
    return "\n".join([*aligned([COLUMNS, *map(cells_of, rows)]), "", *NOTES]) + "\n"


def csv_table(rows: Sequence[FamilyRow]) -> str:
    """For a spreadsheet: the same cells."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(cells_of, rows))
    return file.getvalue()


def latex_table(rows: Sequence[FamilyRow]) -> str:
    r"""For a paper: a `tabular` that needs amssymb for \checkmark, and no other package."""
    lines = [r"\begin{tabular}{l" + "c" * (len(COLUMNS) - 1) + "}", r"\hline"]
    lines += [
        _latex_line(COLUMNS),
        r"\hline",
        *(_latex_line(cells_of(row)) for row in rows),
        r"\hline",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def in_percent(share: float | None) -> str:
    """A cell of a column that is in percent, with one digit behind the point, so that rows compare at a glance.

    >>> in_percent(0.8333), in_percent(None)
    ('83.3', '–')
    """
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def spread_words(values: Spread | None, deviation: bool = True, number: Callable[[float], str] = in_percent) -> str:
    """A mean in percent, or as `number` writes it, with its deviation where there are several."""
    if values is None:
        return UNKNOWN
    spread = "" if values.deviation is None or not deviation else f" ± {number(values.deviation)}"
    return number(values.mean) + spread + (f" (undefined in {values.undefined})" if values.undefined else "")


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(_LATEX_MARKS.get(cell, _latex(cell)) for cell in cells) + r" \\"


def _latex(text: str) -> str:
    r"""Text with every letter that LaTeX would read as a command made harmless.

    >>> _latex("S_con 50% \\input{x}")
    'S\\_con 50\\% \\textbackslash{}input\\{x\\}'
    """
    return re.sub(r"[^\S ]+", " ", text).translate(_LATEX_SPECIAL)


def _mark(verdict: Verdict) -> str:
    return MARKS[verdict]

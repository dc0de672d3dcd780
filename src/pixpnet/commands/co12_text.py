"""What was measured, sorted by Co-12, in words: a line for each figure, and a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixpnet.commands.estimate_text import estimate_words, percent_with_interval
from pixpnet.wording import aligned

if TYPE_CHECKING:
    from pixpnet.metrics.suite import Table
    from pixpnet.metrics.suite.co12 import Co12Figure

_PARTS = "images with annotated parts"
_COLUMNS = ("by Co-12", "value (95 % interval)", "unit", "good", "undefined", "")
LEGEND = """S_con, S_sta  as above, in two published dialects that must not be compared with each other: evalprotopnet
              (every point a part, images cropped to the object's box, 36 px to every side of the enlarged map's
              largest pixel, noise of at most 0.25) and pixpnet (left and right one part, whole images, 72 px window)
noise, pgd    attacks on pixels outside of a region: uniform noise up to 0.4 in the normalised image; 40 steps of
              gradient descent from there. What other papers print are figures of noise
PAC           by how much the score of the best prototype falls; negative where it grows. Fixed-cell: of the cell that
              was named, which cannot move where the exact field is protected
PLC, PRC, AC  share of the map's highest tenth that moves; prototypes of other classes that overtake; accuracy lost
local size    prototypes that add more than 0.001 to the logit of the predicted class, or to that of any class
AUROC         pairs of a known and another image that a sign of doubt puts in the right order; 0.5 is guessing"""


def co12_lines(table: Table) -> list[str]:
    """All twelve properties; none in tables of earlier versions, which have too little for it."""
    from pixpnet.metrics.suite.co12 import co12

    if table.further is None:
        return []
    properties = co12(table)
    # Questions stand between the rows, so that their length does not move the columns.
    header, *rows = aligned([_COLUMNS, *(_cells(figure) for entry in properties for figure in entry.figures)])
    lines, left = [header], iter(rows)
    for entry in properties:
        lines.append(f"{entry.name}: {entry.question}")
        lines += [next(left) for _ in entry.figures]
        if not entry.figures:
            lines.append(f"  not measured here; it takes {entry.missing or _missing(table)}")
    notes = [f"Not measured: {note}." for note in table.further.notes]
    return [
        *lines,
        *notes,
        "",
        LEGEND,
        'What each figure does not mean: "Can I trust it?" in the documentation (docs/trust.md).',
    ]


def _missing(table: Table) -> str:
    """What would have given a property its figures, as far as it was left out."""
    about = table.settings
    left_out = {
        "--attacks": not about.attacks,
        "--dialects": not about.dialects,
        "--against": not about.against,
        "--mappings field upsampling": not {"field", "upsampling"} & set(about.mappings),
    }
    options = ", ".join(option for option, missing in left_out.items() if missing)
    return f"options that were left out ({options}), or images with annotated parts" if options else _PARTS


def _cells(figure: Co12Figure) -> tuple[str, ...]:
    value = (
        percent_with_interval(figure.estimate)
        if figure.percent
        else estimate_words(figure.estimate, 1, 2 if figure.estimate and abs(figure.estimate.mean) < 10 else 0)
    )
    unit = "%" if figure.percent else ""
    return f"  {figure.name}", value, unit, figure.better, str(figure.undefined), figure.note

"""Fields as HTML for notebooks: a table of layers, each with a drawing of what one of its cells sees; and one layer.

Drawings are inline SVG of the exact region, in pixels of the input; where a region has very many gaps, its hull is
drawn dashed instead, and that is said. Names of layers come from others, so every one of them is escaped.
"""

from pixpnet.box import Box, hull
from pixpnet.fields.field import Field
from pixpnet.fields.fields import Fields
from pixpnet.fields.table import HEADER, Row
from pixpnet.markup import color, document, escaped, ink_on, mark
from pixpnet.outline import svg_path
from pixpnet.wording import percent, times

_MOST_BOXES = 64
_THUMB, _DRAWING = 40, 240
_ROWS = 14
"""Rows of a table that are seen without scrolling."""
_STYLE = f"""
.pixpnet .layers{{overflow:auto;max-height:{_ROWS * (_THUMB + 9) + 40}px;display:inline-block;max-width:100%}}
.pixpnet table{{border-collapse:collapse;font-size:.93em;margin:0;color:inherit;border:0}}
.pixpnet th,.pixpnet td{{padding:3px 14px 3px 0;text-align:left;border:0;border-bottom:1px solid var(--line);
background:none;color:inherit;vertical-align:middle;white-space:nowrap;max-width:none}}
.pixpnet thead th{{position:sticky;top:0;background:var(--paper);color:var(--muted);font-weight:600;z-index:1}}
.pixpnet tbody th{{font-weight:600}} .pixpnet .n{{text-align:right}}
.pixpnet tbody tr:hover>*{{background:var(--soft)}}
.pixpnet .input{{fill:var(--soft);stroke:var(--fill);stroke-width:1px;vector-effect:non-scaling-stroke}}
.pixpnet .seen{{fill:var(--accent);fill-opacity:.55;stroke:var(--accent);stroke-width:1px;
vector-effect:non-scaling-stroke}} .pixpnet .field .halo{{display:none}}
.pixpnet .hull{{stroke-dasharray:3 2;fill-opacity:.2}}
.pixpnet .field{{display:flex;flex-wrap:wrap;gap:12px 24px;align-items:flex-start}}
.pixpnet .field>div{{min-width:0}} .pixpnet .field td{{white-space:normal}}
.pixpnet .key{{display:inline-block;width:1.7em;line-height:1.7em;text-align:center;font-weight:700;margin-right:.5em}}
.pixpnet .cells{{list-style:none;margin:0 0 .5em;padding:0}} .pixpnet .cells li{{margin:0;padding:2px 4px}}
@supports selector(:has(a)){{.pixpnet .field .mark{{opacity:1;transition:opacity .15s}}
.pixpnet .field:has(li:is(:hover,:focus)) .mark{{opacity:.12}}
.pixpnet .field:has(.c0:is(:hover,:focus)) .g0,.pixpnet .field:has(.c1:is(:hover,:focus)) .g1,
.pixpnet .field:has(.c2:is(:hover,:focus)) .g2{{opacity:1}}}}
"""


def html_of_fields(fields: Fields) -> str:
    """The layers in the order of execution, each with what the cell in its middle sees."""
    flat = len(fields.input_shape) == 3
    heads = [*(["field"] if flat else []), *HEADER]
    cells = "".join(f'<th scope="col"{_number(head)}>{head}</th>' for head in heads)
    size = times(fields.input_shape[1:])
    body = [
        f"<p><b>Receptive fields of {len(fields)} layer{'' if len(fields) == 1 else 's'}</b> "
        f'<span class="muted">for an input of {size} pixels{"; drawn: what the middle cell sees" if flat else ""}'
        "</span></p>",
        '<div class="layers" tabindex="0" role="group" aria-label="receptive fields of layers"><table><thead>'
        f"<tr>{cells}</tr></thead><tbody>",
    ]
    body += [_row(row, field, flat) for row, field in zip(fields.table(), fields.values(), strict=True)]
    body.append("</tbody></table></div>")
    return document("pixpnet-fields", _STYLE, body)


def html_of_field(field: Field) -> str:
    """One layer in numbers, and what a corner, an edge and the middle cell see."""
    facts = [
        ("output", times(field.shape)),
        ("mean field", f"{percent(field.mean_fraction)} of the input, over all neurons"),
        ("channels united", f"{percent(field.mean_fraction_union)}, at most {percent(field.max_fraction)}"),
        ("field size", times(field.size)),
        ("stride", times(["-" if step is None else f"{step:g}" for step in field.stride])),
        ("solid", "yes" if field.is_solid else "no, fields have gaps"),
    ]
    if field.sees_everything:
        facts.append(("sees", "every cell sees the whole input"))
    rows = "".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in facts)
    body = ['<div class="field">']
    if len(field.space) == 2:
        body.append(_drawing(field))
    body.append(f"<div>{_cells(field)}<table><tbody>{rows}</tbody></table></div></div>")
    return document("pixpnet-fields", _STYLE, body)


def _row(row: Row, field: Field, flat: bool) -> str:
    name, *rest = row.cells()
    values = "".join(f"<td{_number(head)}>{value}</td>" for head, value in zip(HEADER[1:], rest, strict=True))
    drawing = f"<td>{_thumbnail(field)}</td>" if flat else ""
    return f'<tr>{drawing}<th scope="row">{escaped(name)}</th>{values}</tr>'


def _number(head: str) -> str:
    return ' class="n"' if head in HEADER[2:6] else ""


def _thumbnail(field: Field) -> str:
    cells = field.landmark_cells()
    region = _region(field, cells.get("center", next(iter(cells.values()))))
    shown, kind = (region, "seen") if len(region) <= _MOST_BOXES else ((hull(region),), "seen hull")
    path = svg_path([box for box in shown if box is not None])
    seen = percent(sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in region) / (field.space[0] * field.space[1]))
    note = " (drawn: the smallest box around its many gaps)" if "hull" in kind else ""
    alt = f"the middle cell sees {seen} of the input{note}"
    return f'{_open_svg(field, _THUMB, alt)}<path class="{kind}" d="{path}"/></svg>'


def _drawing(field: Field) -> str:
    marks = []
    for number, cell in reversed(list(enumerate(field.landmark_cells().values()))):
        region = _region(field, cell)
        around = hull(region)
        if len(region) > _MOST_BOXES and around is not None:
            region = (around,)
        height, width = field.space
        # A number would cover what is smaller than itself; the colour says which it is.
        small = around is None or min(around.y1 - around.y0, around.x1 - around.x0) < max(field.space) / 8
        marks.append(mark(region, number, "" if small else str(number + 1), (height, width)))
    alt = f"what {', '.join(field.landmark_cells())} cells see of the input"
    return f"{_open_svg(field, _DRAWING, alt)}{''.join(marks)}</svg>"


def _cells(field: Field) -> str:
    items = []
    for number, (name, cell) in enumerate(field.landmark_cells().items()):
        region = field.region(*cell)
        cell_name = f"cell {', '.join(map(str, cell))}" if cell else "the only cell"
        around = "nothing" if region.hull is None else f"rows and columns {_slices(tuple(region.hull))}"
        gaps = "" if region.is_solid or region.hull is None else ", with gaps"
        items.append(
            f'<li class="c{number}" tabindex="0"><span class="key" style="background:{color(number)};'
            f'color:{ink_on(number)}">{number + 1}</span>{name} ({cell_name}) sees {percent(region.fraction)}: '
            f"{around}{gaps}</li>"
        )
    return f'<ul class="cells">{"".join(items)}</ul>'


def _slices(corners: tuple[int, ...]) -> str:
    half = len(corners) // 2
    return ", ".join(f"{start}:{stop}" for start, stop in zip(corners[:half], corners[half:], strict=True))


def _region(field: Field, cell: tuple[int, ...]) -> tuple[Box, ...]:
    return tuple(Box(*box) for box in field.boxes(*cell))


def _open_svg(field: Field, longest: int, alt: str) -> str:
    height, width = field.space
    scale = longest / max(height, width)
    return (
        f'<svg width="{max(2, width * scale):.0f}" height="{max(2, height * scale):.0f}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(alt)}">'
        f'<rect class="input" width="{width}" height="{height}"/>'
    )

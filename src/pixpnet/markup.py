"""HTML for notebooks, made by hand: one theme, one way to escape, pictures as data URIs, outlines as SVG.

A notebook runs no server and may strip scripts, so that everything here is HTML, CSS and inline SVG. It follows the
theme of the notebook (JupyterLab, VS Code, Colab), or else that of the system, on a background of its own, so that its
colours can be read whatever is around it.
"""

from collections.abc import Sequence
from html import escape

from pixpnet.box import Box
from pixpnet.class_names import printable
from pixpnet.colors import BLUE, GREEN_TEXT, GRID, INK, MUTED, ON_REGIONS, REGIONS, VERMILION_TEXT
from pixpnet.outline import svg_path

_LIGHT = (
    f"--ink:{INK};--muted:#57606a;--line:{GRID};--paper:#fff;--soft:#f5f7f9;--good:{GREEN_TEXT};"
    f"--bad:{VERMILION_TEXT};--accent:{BLUE};--fill:{MUTED};color-scheme:light"
)
_DARK = (
    "--ink:#e6e9ed;--muted:#a3adb8;--line:#333b45;--paper:#14171c;--soft:#1c2128;--good:#5ccfa6;"
    "--bad:#ff9a62;--accent:#7cc4ee;--fill:#a3adb8;color-scheme:dark"
)
_FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif'
_THEME = f"""
.pixpnet{{{_LIGHT}}}
@media (prefers-color-scheme:dark){{.pixpnet{{{_DARK}}}}}
:is(body[data-jp-theme-light="true"],body.vscode-light,html[theme="light"]) .pixpnet{{{_LIGHT}}}
:is(body[data-jp-theme-light="false"],body.vscode-dark,html[theme="dark"]) .pixpnet{{{_DARK}}}
.pixpnet{{background:var(--paper);color:var(--ink);font:14px/1.5 {_FONT};font-variant-numeric:tabular-nums;
padding:12px 16px;max-width:72em;overflow-wrap:anywhere;box-sizing:border-box}}
.pixpnet *{{box-sizing:border-box}}
.pixpnet p{{margin:0 0 .5em;max-width:52em}}
.pixpnet .muted{{color:var(--muted)}} .pixpnet .good{{color:var(--good)}} .pixpnet .bad{{color:var(--bad)}}
.pixpnet summary{{cursor:pointer}}
.pixpnet :focus-visible{{outline:2px solid var(--accent);outline-offset:2px}}
.pixpnet svg,.pixpnet img{{display:block;max-width:none;margin:0}}
.pixpnet .halo,.pixpnet .edge{{fill:none;vector-effect:non-scaling-stroke}}
.pixpnet .halo{{stroke:#fff;stroke-width:5px}} .pixpnet .edge{{stroke-width:2.5px}}
.pixpnet .mark text{{font-weight:700;text-anchor:middle}}
"""


def document(kind: str, style: str, body: Sequence[str]) -> str:
    """A piece of HTML that holds everything it shows.

    Args:
        kind: the class of its own, beside ``pixpnet``.
        style: what it adds to the theme.
        body: HTML, escaped.
    """
    return f'<div class="pixpnet {kind}"><style>{_THEME}{style}</style>\n' + "\n".join(body) + "\n</div>"


def escaped(text: object) -> str:
    """Text of others, fit for the inside of an element or of a quoted attribute.

    >>> escaped('<b> "jay"')
    '&lt;b&gt; &quot;jay&quot;'
    """
    return escape(printable(str(text)))


def color(number: int) -> str:
    """The colour of a region, by its number from 0."""
    return REGIONS[number % len(REGIONS)]


def ink_on(number: int) -> str:
    """What is printed in on the colour of a region."""
    return ON_REGIONS[number % len(ON_REGIONS)]


def mark(region: Sequence[Box], number: int, words: str, size: tuple[int, int]) -> str:
    """The outline of a region in its colour, with its number at the top left; empty for the empty region.

    Args:
        region: disjoint boxes.
        number: of the region, from 0; the class of the group is ``g`` and this.
        words: what its tag says; empty for no tag.
        size: height and width of the picture that it lies on, in the same pixels.
    """
    if not region:
        return ""
    path = svg_path(region)
    group = (
        f'<g class="mark g{number}"><path class="halo" d="{path}"/>'
        f'<path class="edge" stroke="{color(number)}" d="{path}"/>'
    )
    if words:
        height = max(size) / 14
        width = height * (0.6 + 0.6 * len(words))
        top, left = min((y0, x0) for y0, x0, _, _ in region)
        x, y = min(left, size[1] - width), min(top, size[0] - height)
        group += (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color(number)}"/>'
            f'<text x="{x + width / 2:.1f}" y="{y + 0.76 * height:.1f}" font-size="{0.75 * height:.1f}" '
            f'fill="{ink_on(number)}">{escaped(words)}</text>'
        )
    return group + "</g>"

"""The nodes of a tree's path on a slide, from the root on: what was looked for, whether it was found, and the leaf."""

from collections.abc import Sequence

from pixpnet.colors import GRID, INK, MUTED, REGIONS
from pixpnet.explanation.path_text import leaf_text, short_turn_text, unlikely
from pixpnet.explanation.quality import mostly_text
from pixpnet.explanation.record import ClassExplanation, Explanation, Term, TreePath
from pixpnet.views.pictures import cut_out, image_pixels, prototype_pixels
from pixpnet.views.slide import SMALLEST, Heat, Slide
from pixpnet.views.term_rows import Room, or_gray, proof_line
from pixpnet.views.words import grid_words, listing, prototype_words, same_region

ALONE, BESIDE = 10, 6
"""Nodes that fit on a slide: of one path, of each of two."""
_WORDS, _GAP, _LINE = 2.2, 0.35, 0.168


def path_rows(
    slide: Slide,
    explanation: Explanation,
    explained: ClassExplanation,
    path: TreePath,
    room: Room,
    most: int,
    heat: Sequence[Heat] | None,
) -> None:
    """Draws a path.

    Args:
        slide: to draw on.
        explanation: of the image.
        explained: the class that the path is for.
        path: of the class.
        room: where.
        most: nodes that fit.
        heat: maps to show in the place of what the nearest cells saw.
    """
    listed = listing(explained, most)
    columns = 2 if most == ALONE and len(listed.shown) > 3 else 1
    rows = max(1, -(-len(listed.shown) // columns))
    top, foot = room.y + 0.26, room.bottom - 0.95
    height = (foot - top) / rows
    width = (room.width - _GAP * (columns - 1)) / columns
    styles = {index: style for style, group in enumerate(same_region(listed.shown)) for index in group}
    side = min(height - 0.1, (width - _WORDS) / 3)
    height = min(height, side + 0.3)
    for column in range(columns):
        names = ("heat map" if heat is not None else "nearest", "looked for", "from here")
        _legend(slide, room.x + column * (width + _GAP), room.y, side, names)
    for index, term in enumerate(listed.shown):
        column, down = divmod(index, rows)
        x, y = room.x + column * (width + _GAP), top + down * height
        over = None if heat is None else heat[index]
        _pictures(slide, explanation, term, styles[index], (x, y), side, str(index + 1), over)
        _words(slide, explanation, explained, path, index, Room(x + 0.5 + 3 * (side + 0.06), y, x + width, y + height))
    y = min(top + rows * height, foot) + 0.06
    slide.rule(room.x, y, room.width, GRID)
    nodes = f"{listed.left} more node{'' if listed.left == 1 else 's'}. " if listed.left else ""
    slide.paragraph(room.x, y + 0.08, nodes + leaf_text(explained, path), room.width, 9.5, INK, lines=4)


def _legend(slide: Slide, x: float, y: float, side: float, names: Sequence[str]) -> None:
    pictures = x + 0.32
    if side >= 0.62:
        for column, name in enumerate(names):
            slide.words(pictures + column * (side + 0.06), y, name, side + 0.04, SMALLEST, MUTED)
    else:
        slide.words(pictures, y, "this, like that, from here", 3 * side + 0.12, SMALLEST, MUTED)


def _pictures(
    slide: Slide,
    explanation: Explanation,
    term: Term,
    style: int,
    at: tuple[float, float],
    side: float,
    tag: str,
    heat: Heat | None,
) -> None:
    (x, y), color, dashed = at, REGIONS[style % len(REGIONS)], style >= len(REGIONS)
    everything = explanation.sight_of(term).everything == 1
    slide.tag(x, y, tag, style)
    image, pictures = image_pixels(explanation), x + 0.32
    if heat is not None:
        shown = slide.picture(image, pictures, y, side, heat)
        if not everything:
            slide.outline(shown, term.region, color, dashed, width=1.4)
        slide.peak(shown, heat)
    else:
        slide.picture(or_gray(cut_out(image, term.region)), pictures, y, side)
    source = prototype_pixels(term, explanation.size)
    boxes = () if term.origin is None else term.origin.boxes
    slide.picture(or_gray(cut_out(source, boxes)), pictures + side + 0.06, y, side)
    source_placement = slide.picture(source, pictures + 2 * (side + 0.06), y, side)
    if not everything:
        slide.outline(source_placement, boxes, color, dashed, width=1.4)


def _words(
    slide: Slide, explanation: Explanation, explained: ClassExplanation, path: TreePath, index: int, room: Room
) -> None:
    """What was found at a node; the width of the room is its right side."""
    term = explained.terms[index]
    width = room.width - room.x
    ink = INK if path.present[index] else MUTED
    turn = slide.words(room.x, room.y - 0.02, short_turn_text(path, index), width, 10.5, ink, bold=True)
    if grid := grid_words(explanation, term):
        right = slide.width_of(turn.get_text(), turn.get_fontproperties()) + 0.1
        if right < width:
            slide.words(room.x + right, room.y + 0.03, grid, width - right, SMALLEST, MUTED)
    lines: list[tuple[str, str]] = []
    if unlikely(path, index):
        lines.append(("the less likely turn", MUTED))
    lines.append((prototype_words(term, explained), MUTED))
    if not term.region:
        lines.append(("sees padding only", MUTED))
    if term.proof is not None:
        lines.append(proof_line(term.proof))
    if term.qualities:
        lines.append((mostly_text(term.qualities), INK))
    if term.origin is not None:
        lines.append((term.origin.image.rsplit("/", 1)[-1], MUTED))
    for step, (line, color) in enumerate(lines[: max(1, int((room.bottom - room.y - 0.24) / _LINE))]):
        slide.words(room.x, room.y + 0.23 + _LINE * step, line, width, SMALLEST, color)

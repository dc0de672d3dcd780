"""A measured table in words: percent_with_interval, with 95 % intervals; a dash and a count for what is undefined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixpnet.commands.co12_text import co12_lines
from pixpnet.commands.estimate_text import estimate_words, percent_with_interval
from pixpnet.commands.places_text import places_lines
from pixpnet.wording import aligned, percent

if TYPE_CHECKING:
    from pixpnet.metrics.health import PrototypeHealth
    from pixpnet.metrics.suite import ClassDraw, MappingRow, PartFigures, Table

_COLUMNS = ("mapping", "S_con", "S_sta", "AUSC", "%2R", "undefined")
# Between the mean and the median of AUSC, before it is worth a word.
_FAR = 0.1
# What the columns mean, for somebody who has not read the paper.
LEGEND = """mapping    a way from a cell to pixels: field (exactly what the cell sees, as a Gaussian), upsampling (the
           usual one), prp (relevance propagation), random (a control: what luck gives)
S_con      consistency, %: prototypes that show one and the same part of the object in nearly every image; high is good
S_sta      stability, %: images in which a prototype shows the same parts after noise was added; high is good
AUSC       pixels are put back into a random image, the most relevant first: the area under the curve of the similarity
           that comes back (1: all of it at once); high is good
%2R        per cent of the pixels that must be put back for the whole similarity; low is good
undefined  what could not be measured, and is in no mean; – where nothing could"""
_PART_COLUMNS = ("mapping", "region", "S_con", "soft S_con", "S_sta", "soft S_sta")


def table_text(table: Table) -> str:
    """All of a table, for people."""
    accuracy = table.accuracy
    lines = [
        f"{table.backbone} on {table.data}, {table.settings.split}: accuracy {percent(accuracy.share)} "
        f"({percent(accuracy.low)} to {percent(accuracy.high)}) of {accuracy.images} images, "
        f"mean field {percent(table.mean_field)}",
        "",
        *aligned([_COLUMNS, *map(row_cells, table.rows)]),
        "",
        LEGEND,
    ]
    parts = [cells for row in table.rows for cells in _part_cells(row, table.window)]
    if parts:
        lines += ["", *aligned([_PART_COLUMNS, *parts])]
    settings = table.settings
    prototypes = "all prototypes" if settings.prototypes is None else f"{settings.prototypes} prototypes"
    lines += ["", *map(_about_outliers, filter(_has_outliers, table.rows))]
    if settings.parts_only:
        lines += ["AUSC, %2R, health and places were not measured (--parts-only)."]
    else:
        lines += [f"AUSC, %2R: {table.samples} samples, {prototypes} of each one's class, {settings.method} curves."]
    if (off := table.stated_error) is not None:
        lines.append(
            f"Stepped curves were off the exact ones by up to {off.area:.3f} (AUSC) and {100 * off.recovery:.1f} "
            f"points (%2R), their means by {off.mean_area:.3f} and {100 * off.mean_recovery:.1f}, in {off.curves} "
            f"curves of {off.where}: a hint, no bound. --method exact is exact."
        )
    if parts and table.part_draw is not None:
        draw = table.part_draw
        lines.append(
            f"S_con, S_sta: {draw_words(draw)}, in a window of {table.window} x {table.window} pixels. "
            f"Consistent is a part in at least {percent(table.threshold)} of the images that show it; soft is the "
            f"mean without that threshold. Noise {table.noise:g}. Larger regions score higher: compare with random."
        )
        lines += few_images(table)
    lines += [
        "In brackets: 95 % intervals for other samples (AUSC, %2R) and other classes (S_con, S_sta) like these.",
        *dict.fromkeys(note for row in table.rows for note in row.notes),
    ]
    if table.health is not None:
        lines += ["", *health_lines(table.health)]
    if table.places is not None:
        lines += ["", *places_lines(table.places, table.settings.split)]
    if table.further is not None:
        lines += ["", *co12_lines(table)]
    return "\n".join(lines) + "\n"


def draw_words(draw: ClassDraw) -> str:
    """What consistency was measured on: classes, and images of each."""
    some = f"{draw.images} images of {draw.classes} {'class' if draw.classes == 1 else 'classes'}"
    if draw.classes == 1:
        return some
    return f"{some} ({draw.fewest} or more of each, median {draw.median:g})"


def few_images(table: Table) -> list[str]:
    """A warning where classes have too few images for consistency to mean much; nothing otherwise."""
    draw = table.part_draw
    if draw is None or not draw.few:
        return []
    return [
        f"Warning: {draw.few} of {draw.classes} classes have fewer than ten images, the smallest {draw.fewest}. In few "
        "images a prototype finds some part every time by luck, so S_con is too high: compare it with random, or "
        "measure on a split with more images of each class."
    ]


def _has_outliers(row: MappingRow) -> bool:
    return row.area is not None and row.median_area is not None and abs(row.area.mean - row.median_area) > _FAR


def _about_outliers(row: MappingRow) -> str:
    return (
        f"{row.mapping}: the median AUSC is {row.median_area:.2f}; curves that hardly rise have a large one and pull "
        "the mean."
    )


def row_cells(row: MappingRow) -> tuple[str, ...]:
    """A mapping's row of Table 2."""
    missing = []
    if row.undefined:
        missing.append(f"{row.undefined} of {row.pairs} curves")
    if row.window is not None and row.window.undefined:
        missing.append(f"{row.window.undefined} prototypes without parts")
    return (
        row.mapping,
        percent_with_interval(None if row.window is None else row.window.consistency),
        percent_with_interval(None if row.window is None else row.window.stability),
        estimate_words(row.area, 1, 2),
        percent_with_interval(row.recovery),
        ", ".join(missing) or "0",
    )


def health_lines(health: PrototypeHealth) -> list[str]:
    """What may be wrong with the prototypes, a line for each."""
    background, twins, deciding = health.background, health.duplicates, health.deciding
    by = {"masks": f"show less than {percent(background.least)} object", "keypoints": "hold no part"}
    cells = [
        (f"health of {health.count} prototypes", "%", ""),
        (
            "on background",
            percent_with_interval(background.share),
            _known(by.get(background.known_by), background.undefined),
        ),
        (
            "twin in its class, same image",
            percent_with_interval(twins.within.same_image),
            _known(None, twins.undefined),
        ),
        (
            "twin in its class, same pixels",
            percent_with_interval(twins.within.same_region),
            _known(None, twins.undefined),
        ),
        (
            "twin in its class, near vector",
            percent_with_interval(twins.within.near_vector),
            f"within {percent(twins.tolerance)} of its length",
        ),
        (
            "twin in another class, same pixels",
            percent_with_interval(twins.across.same_region),
            _known(None, twins.undefined),
        ),
        ("twin in another class, near vector", percent_with_interval(twins.across.near_vector), ""),
        (
            "never decides",
            percent_with_interval(deciding.never),
            f"one left out at a time, {deciding.images} {deciding.split} images",
        ),
        (
            "parts covered, mean of classes",
            percent_with_interval(health.coverage.share),
            f"{health.coverage.undefined} classes undefined" if health.coverage.undefined else "",
        ),
    ]
    if health.replacement is not None:
        lost = health.replacement
        cells.append(
            (
                "accuracy lost at replacement, val",
                percent_with_interval(lost.validation),
                f"points, {lost.validation.count} images",
            )
        )
        if lost.test is not None:
            cells.append(
                (
                    "accuracy lost at replacement, test",
                    percent_with_interval(lost.test),
                    f"points, {lost.test.count} images",
                )
            )
    least = health.coverage.least_covered
    lines = (
        []
        if least is None
        else [f"Fewest parts: class {least.label} covers {len(least.covered)} of {len(least.visible)}."]
    )
    return [
        *aligned(cells),
        *lines,
        "Intervals draw classes again; (alike) where all are the same, which says nothing.",
    ]


def _part_cells(row: MappingRow, side: int) -> list[tuple[str, ...]]:
    own = {"field": "exact field", "upsampling": "top 5 % box", "random": "moved field"}
    kinds: tuple[tuple[str, PartFigures | None], ...] = (
        (f"window {side}", row.window),
        (own.get(row.mapping, "claimed"), row.claimed),
    )
    return [
        (
            row.mapping if index == 0 else "",
            name,
            *map(
                percent_with_interval,
                (score.consistency, score.soft_consistency, score.stability, score.soft_stability),
            ),
        )
        for index, (name, score) in enumerate(kinds)
        if score is not None
    ]


def _known(text: str | None, undefined: int) -> str:
    return ", ".join(filter(None, (text, f"{undefined} undefined" if undefined else "")))

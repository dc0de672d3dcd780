"""Parts and places in words: purity, patches on the object, distinctiveness, and where answers look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixpnet.commands.estimate_text import UNKNOWN, estimate_words, percent_with_interval
from pixpnet.wording import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pixpnet.metrics import AnswerPlaces, DefinedMean, Purity, PurityFigures
    from pixpnet.metrics.suite import Places

_NO_PARTS = "not measured: the data set has no parts"
_NO_OBJECTS = "not measured: the data set has no bounding boxes"
_OBJECT = {"boxes": "the object's box", "masks": "the object's masks", "nothing": "the object's box"}
Row = tuple[str, str, str, str]


def places_lines(places: Places, split: str) -> list[str]:
    """All of it, a line for each figure, and what the figures mean."""
    compared, purity = places.distinctiveness, places.purity
    side = compared.window_side
    rows: list[Row] = [
        ("parts and places", "%", "random place", ""),
        *_purity_rows(purity),
        *_prototype_rows(places),
        _row(f"distinctiveness, {side} x {side} box", compared.window, note=f"best {compared.most} of the own class"),
        _row("distinctiveness, exact fields", compared.field),
        *_answer_rows(places.answers),
    ]
    lines = aligned(rows)
    if purity is not None:
        lines.append(
            f"Purity: the part that a prototype shows most often in the {purity.images_per_prototype} of "
            f"{purity.training_images} training images with its highest scores, over those that show the part. Few "
            "images and many parts flatter: compare with the random place."
        )
    lines.append(
        f"Answers and distinctiveness: {compared.images} {split} images; an answer's prototypes are those of the "
        "predicted class, a region is the exact field of the cell that won. The published boxes of 32 and 72 pixels "
        "and the distance of 16 are for images of 224; here they are scaled with the image."
    )
    return lines


def _purity_rows(purity: Purity | None) -> list[Row]:
    if purity is None:
        return [("purity", UNKNOWN, UNKNOWN, _NO_PARTS)]
    side = purity.box_side
    kinds = (
        (f"purity, {side} x {side} box", purity.box, purity.random_box),
        ("purity, exact field", purity.field, purity.random_field),
    )
    return [
        (
            name,
            percent_with_interval(honest.mean),
            percent_with_interval(random.mean),
            _purity_note(purity, honest, random),
        )
        for name, honest, random in kinds
    ]


def _purity_note(purity: Purity, honest: PurityFigures, random: PurityFigures) -> str:
    defined = purity.prototypes - honest.undefined
    notes = [f"{honest.pure_count} of {defined} prototypes above one half (random place: {random.pure_count})"]
    if honest.deviation is not None:
        notes.insert(0, f"deviation {100 * honest.deviation:.1f}")
    if honest.undefined:
        notes.append(f"{honest.undefined} undefined")
    if purity.unconnected:
        notes.append(f"{purity.unconnected} without weight left out")
    return ", ".join(notes)


def _prototype_rows(places: Places) -> Iterator[Row]:
    prototypes, known_by = places.prototypes, places.answers.object_known_by
    name = f"patch middle on {_OBJECT[known_by]}"
    if prototypes is None or known_by == "nothing":
        yield name, UNKNOWN, UNKNOWN, _NO_OBJECTS
    else:
        yield _row(name, prototypes.on_object, prototypes.random_on_object)
    if prototypes is None or places.purity is None:
        yield "patch middle near a part", UNKNOWN, UNKNOWN, _NO_PARTS
    else:
        note = f"within {prototypes.radius:.1f} pixels"
        yield _row("patch middle near a part", prototypes.near_part, prototypes.random_near_part, note)


def _answer_rows(places: AnswerPlaces) -> Iterator[Row]:
    prototypes = "" if places.prototypes is None else f"not %: cells, of {places.prototypes:g} prototypes"
    yield "distinct cells of an answer", estimate_words(places.distinct_cells.estimate, 1, 1), "", prototypes
    yield _row("overlap of its regions", places.overlap, note="mean IoU over pairs")
    yield _row("image covered by its regions", places.image_covered)
    if places.object_known_by == "nothing":
        yield "object's box covered by them", UNKNOWN, "", _NO_OBJECTS
    else:
        yield _row(f"{_OBJECT[places.object_known_by].removeprefix('the ')} covered by them", places.object_covered)
    yield _row("mean winning region", places.winning_region, note="of the image, one region")


def _row(name: str, measured: DefinedMean, random: DefinedMean | None = None, note: str = "") -> Row:
    undefined = f"{measured.undefined} undefined" if measured.undefined else ""
    control = "" if random is None else percent_with_interval(random.estimate)
    return name, percent_with_interval(measured.estimate), control, ", ".join(filter(None, (note, undefined)))

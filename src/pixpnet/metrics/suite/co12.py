"""A measured table sorted by the twelve properties of explanations that readers of this field know (Co-12).

Each figure stands once, under the property that it says most about. Two names mislead and are kept apart: Co-12's
*consistency* asks whether a second training gives the same explanations, and the S_con of prototype papers, whether a
prototype shows one part, is *covariate complexity* here. Three properties have no figure of one run: what is missing is
said instead. What a figure does not mean is said for each in `docs/trust.md`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pixpnet.metrics.bootstrap import DefinedMean, Estimate
from pixpnet.metrics.misalignment import Misalignment
from pixpnet.metrics.suite.record import DialectFigures, FurtherMeasures, Table

Better = Literal["high", "low", "zero", ""]


@dataclass(frozen=True)
class Co12Figure:
    """One figure.

    Attributes:
        name: for people.
        estimate: with its interval; None where nothing is defined.
        percent: whether it is a share, 0-1.
        better: which end is good; empty where neither is by itself.
        undefined: how many values are in no mean.
        note: what a reader must know.
    """

    name: str
    estimate: Estimate | None
    percent: bool
    better: Better
    undefined: int
    note: str = ""


@dataclass(frozen=True)
class Co12Property:
    """One of the twelve properties.

    Attributes:
        name: of the property.
        question: what it asks.
        figures: that were measured; none where `missing` says why.
        missing: what would have to be done.
    """

    name: str
    question: str
    figures: tuple[Co12Figure, ...]
    missing: str = ""


def co12(table: Table) -> tuple[Co12Property, ...]:
    """All twelve properties, in the scheme's order, with the figures of a table."""
    further = table.further
    return (
        Co12Property("correctness", "does the explanation say what the model did?", tuple(_correctness(table))),
        Co12Property("completeness", "does it say all of it?", tuple(_completeness(table))),
        Co12Property(
            "consistency",
            "would another training explain the same way?",
            (),
            "several seeds: pixpnet train --seeds 0 1 2, then pixpnet compare (recurring prototypes)",
        ),
        Co12Property("continuity", "do small changes change little?", tuple(_continuity(further))),
        Co12Property("contrastivity", "do different things look different?", tuple(_contrastivity(table))),
        Co12Property("covariate complexity", "does a prototype mean one thing?", tuple(_covariate(table))),
        Co12Property("compactness", "how much is there to read?", tuple(_compactness(further))),
        Co12Property("composition", "how is it presented?", tuple(_composition(table))),
        Co12Property("confidence", "is it honest about doubt?", tuple(_confidence(further))),
        Co12Property("context", "does it help its readers?", (), "people: no figure of a model can say"),
        Co12Property("coherence", "does it look where people look?", tuple(_coherence(table))),
        Co12Property(
            "controllability", "can its reader mend it?", (), "people, and a model that is mended and measured"
        ),
    )


def _correctness(table: Table) -> Iterator[Co12Figure]:
    for row in table.rows:
        if row.mapping in ("field", "upsampling"):
            yield Co12Figure(f"AUSC, {row.mapping}", row.area, False, "high", row.undefined)
            yield Co12Figure(f"%2R, {row.mapping}", row.recovery, True, "low", row.undefined)
    for attacked in _attacks(table.further):
        name = f"{attacked.attack} outside the {_PROTECTED[attacked.protected]}"
        share = "" if attacked.free.estimate is None else f"{100 * attacked.free.estimate.mean:.0f} % of pixels free"
        yield _mean(
            f"fixed-cell PAC, {name}", attacked.fixed_cell_pac, "zero", f"{attacked.moved} cells moved; {share}"
        )
        median = "" if attacked.median_pac is None else f"median {100 * attacked.median_pac:.1f}"
        yield _mean(f"PAC, {name}", attacked.pac, "low", median)
        yield _mean(f"PLC, {name}", attacked.plc, "low")


def _completeness(table: Table) -> Iterator[Co12Figure]:
    if table.places is None:
        return
    yield _mean("image covered by the answer's regions", table.places.answers.image_covered, "")
    yield _mean("object covered by them", table.places.answers.object_covered, "high")


def _continuity(further: FurtherMeasures | None) -> Iterator[Co12Figure]:
    for figures in _dialects(further):
        parts = figures.published
        yield Co12Figure(f"S_sta, {figures.dialect}", parts.stability, True, "high", parts.undefined)
        yield Co12Figure(
            f"S_sta, {figures.dialect}, exact field", figures.field.stability, True, "high", figures.field.undefined
        )
    for attacked in _attacks(further):
        name = f"{attacked.attack} outside the {_PROTECTED[attacked.protected]}"
        yield _mean(f"PRC, {name}", attacked.prc, "low", "prototypes", percent=False)
        yield _mean(f"AC, {name}", attacked.ac, "low", "points of accuracy")


def _contrastivity(table: Table) -> Iterator[Co12Figure]:
    if table.places is None or table.health is None:
        return
    places, twins = table.places.distinctiveness, table.health.duplicates
    yield _mean(f"distinctiveness, {places.window_side} x {places.window_side} box", places.window, "high")
    yield _mean("distinctiveness, exact fields", places.field, "high")
    yield Co12Figure("twin in another class, near vector", twins.across.near_vector, True, "low", 0)


def _covariate(table: Table) -> Iterator[Co12Figure]:
    for figures in _dialects(table.further):
        parts = figures.published
        yield Co12Figure(f"S_con, {figures.dialect}", parts.consistency, True, "high", parts.undefined)
        yield Co12Figure(
            f"S_con, {figures.dialect}, exact field", figures.field.consistency, True, "high", figures.field.undefined
        )
    purity = None if table.places is None else table.places.purity
    if purity is not None:
        yield Co12Figure(f"purity, {purity.box_side} x {purity.box_side} box", purity.box.mean, True, "high", 0)
        yield Co12Figure("purity, exact field", purity.field.mean, True, "high", purity.field.undefined)


def _compactness(further: FurtherMeasures | None) -> Iterator[Co12Figure]:
    if further is None:
        return
    sizes = further.sizes
    whole = "of the model: no interval"
    yield _count("global size", sizes.global_size, "low", f"of {sizes.prototypes} prototypes; {whole}")
    yield _mean("local size, predicted class", sizes.local_size, "low", sizes.refusal or "prototypes", percent=False)
    yield _mean(
        "local size, any class", sizes.local_size_any_class, "low", sizes.refusal or "prototypes", percent=False
    )
    yield _count("distinct prototypes", sizes.distinct, "high", f"of {sizes.prototypes}; {whole}")
    sparse = "several grids: not defined" if sizes.sparsity is None else f"1 is one prototype a class; {whole}"
    yield _count("sparsity (ProtoPNeXt)", sizes.sparsity, "high", sparse)


def _composition(table: Table) -> Iterator[Co12Figure]:
    if table.places is None:
        return
    yield _mean("mean winning region", table.places.answers.winning_region, "low", "of the image, one region")
    yield _mean("overlap of an answer's regions", table.places.answers.overlap, "low", "mean IoU over pairs")


def _confidence(further: FurtherMeasures | None) -> Iterator[Co12Figure]:
    if further is None:
        return
    yield Co12Figure("expected calibration error", further.calibration_error, True, "low", 0)
    for doubt in further.doubts:
        against = doubt.against.rpartition("/")[2]
        for sign in doubt.signs:
            yield Co12Figure(
                f"AUROC, {sign.sign}, against {against}", sign.auroc, False, "high", sign.undefined, sign.reason
            )
            yield Co12Figure(
                f"passes at 95 % recall, {sign.sign}, {against}", sign.false_positives, True, "low", sign.undefined
            )


def _coherence(table: Table) -> Iterator[Co12Figure]:
    if table.places is None or table.health is None:
        return
    prototypes, background = table.places.prototypes, table.health.background
    if prototypes is not None:
        yield _mean("patch middle on the object", prototypes.on_object, "high")
        yield _mean("patch middle near a part", prototypes.near_part, "high", f"within {prototypes.radius:.0f} px")
    yield Co12Figure("prototypes on background", background.share, True, "low", background.undefined)


_PROTECTED = {"box": "published box", "field": "exact field"}


def _attacks(further: FurtherMeasures | None) -> tuple[Misalignment, ...]:
    return () if further is None else further.misalignment


def _dialects(further: FurtherMeasures | None) -> tuple[DialectFigures, ...]:
    return () if further is None else further.dialects


def _mean(name: str, value: DefinedMean, better: Better, note: str = "", percent: bool = True) -> Co12Figure:
    return Co12Figure(name, value.estimate, percent, better, value.undefined, note)


def _count(name: str, value: float | None, better: Better, note: str) -> Co12Figure:
    estimate = None if value is None else Estimate(float(value), None, None, 1, 1)
    return Co12Figure(name, estimate, False, better, int(value is None), note)

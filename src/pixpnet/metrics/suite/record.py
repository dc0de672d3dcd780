"""What the suite measures and writes down: one table for a run, with a row for each mapping (Table 2)."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from pixpnet.config import RunConfig, config_from_plain, plain_config
from pixpnet.mapping import MAPPINGS
from pixpnet.metrics.answers import AnswerPlaces
from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.dialects import DIALECTS, DialectName
from pixpnet.metrics.distinctiveness import Distinctiveness
from pixpnet.metrics.doubt import SignResult
from pixpnet.metrics.health import PrototypeHealth
from pixpnet.metrics.misalignment import ATTACKED, ATTACKS, PROTECTIONS, Attack, Attacked, Misalignment, Protection
from pixpnet.metrics.naming import known_name
from pixpnet.metrics.ordering import StatedError
from pixpnet.metrics.origin_places import PrototypePlaces
from pixpnet.metrics.purity import Purity
from pixpnet.metrics.sizes import Sizes
from pixpnet.records import ADDED_LATER, added_later, from_plain, to_plain
from pixpnet.training import Interval
from pixpnet.training.answers import EvaluatedSplit

TABLE_FILE = "table.json"
# Tables of earlier versions have none of it.
_NOT_MEASURED = added_later(())
SAMPLES, ON_WINDOWS = 50, 10
"""Drawn by default for the relevance ordering test: as many as in the paper, and of a network on windows."""
FEW_IMAGES = 10
"""With fewer images of a class, finding a part in most of them is often luck."""


@dataclass(frozen=True)
class MeasureSettings:
    """What is measured; the paper's, but for fewer prototypes of each sample and fewer points of each curve.

    Attributes:
        mappings: names in `pixpnet.mapping.MAPPINGS`.
        samples: how many images are sampled for the relevance ordering test; by default the paper's 50, and
            `ON_WINDOWS` where a network runs on windows, whose passes take many times as long.
        prototypes: how many of the prototypes of a sample's class are drawn for it; None for all, as in the paper.
        method: of the curves.
        split: whose images. The paper measures on test images, which no choice was made by, so that is the default;
            every opening is on record. Where measurements are to decide between models, take ``val``.
        part_samples: about how many are drawn for consistency and stability, as whole classes (`drawn_classes`); None
            for all, as in the paper.
        seed: of all random choices.
        attacks: by which misalignment is measured; none where it is not.
        protected: what attacks may not touch.
        attacked: the prototype with the largest score, or all of the image's class.
        attack_samples: how many images are attacked; as many as `samples` by default.
        dialects: of consistency and stability.
        against: data sets (or `noise`) that doubt is measured against.
        parts_only: consistency and stability alone: no relevance ordering, and nothing about the health and places of
            prototypes, which take a forward pass for every image. `samples` is then 0.
    """

    mappings: tuple[str, ...] = ("field", "upsampling", "prp", "random")
    samples: int | None = None
    prototypes: int | None = 3
    method: Literal["stepped", "exact"] = "stepped"
    split: EvaluatedSplit = "test"
    part_samples: int | None = None
    seed: int = 0
    attacks: tuple[Attack, ...] = field(default=ATTACKS, metadata=_NOT_MEASURED)
    protected: tuple[Protection, ...] = field(default=PROTECTIONS, metadata=_NOT_MEASURED)
    attacked: Attacked = field(default="best", metadata=ADDED_LATER)
    attack_samples: int | None = field(default=None, metadata=ADDED_LATER)
    dialects: tuple[DialectName, ...] = field(default=("evalprotopnet", "pixpnet"), metadata=_NOT_MEASURED)
    against: tuple[str, ...] = field(default=("noise",), metadata=_NOT_MEASURED)
    parts_only: bool = field(default=False, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        for kind, names, known in (
            ("mapping", self.mappings, MAPPINGS),
            ("attack", self.attacks, ATTACKS),
            ("protected region", self.protected, PROTECTIONS),
            ("dialect", self.dialects, DIALECTS),
            ("choice of prototypes", (self.attacked,), ATTACKED),
        ):
            for name in names:
                known_name(kind, name, known)
        if not self.mappings or len(set(self.mappings)) < len(self.mappings):
            raise ValueError("name at least one mapping, and each once")
        for given in (self.attacks, self.protected, self.dialects, self.against):
            if len(set(given)) < len(given):
                raise ValueError(f"name each once, not {' '.join(given)}")
        if self.parts_only and self.samples:
            raise ValueError(f"without relevance ordering there are no samples for it, got {self.samples}")
        samples = None if self.parts_only else self.samples
        counts = (samples, self.prototypes, self.part_samples, self.attack_samples)
        if any(count is not None and count < 1 for count in counts):
            raise ValueError(f"at least one sample and one prototype are drawn, got {counts}")


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers on the split, with its interval (Wilson, 95 %)."""

    share: float
    low: float
    high: float
    images: int


@dataclass(frozen=True)
class Band:
    """The typical curve of a mapping, from 0 (the random image) to 1 (the image itself), and where it would lie again.

    A median, because a curve that hardly rises is divided by next to nothing, and a few of those would decide a mean.

    Attributes:
        fractions: of the pixels that are back.
        median: over all pairs of sample and prototype whose similarity rises.
        low, high: percentile interval at each fraction, samples drawn again; None where there is a single sample.
    """

    fractions: tuple[float, ...]
    median: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None


@dataclass(frozen=True)
class PartFigures:
    """Consistency and stability for one kind of region.

    Attributes:
        consistency: S_con, the share of prototypes that find one part often enough (`Table.threshold`).
        soft_consistency: the mean of how often they do, without a threshold (App. J).
        stability: S_sta.
        soft_stability: the same, part by part.
        undefined: how many prototypes of the drawn classes are in none of the four.
    """

    consistency: Estimate | None
    soft_consistency: Estimate | None
    stability: Estimate | None
    soft_stability: Estimate | None
    undefined: int


@dataclass(frozen=True)
class ClassDraw:
    """The classes on which consistency and stability were measured, each with all its images of the split.

    Attributes:
        classes: how many.
        images: of all of them.
        fewest: images of the class that has the fewest.
        median: images of a class.
        few: how many classes have fewer than ten images.
    """

    classes: int
    images: int
    fewest: int
    median: float
    few: int

    @classmethod
    def of(cls, labels: Sequence[int]) -> "ClassDraw | None":
        """Counts images by their classes; None if there are none.

        >>> ClassDraw.of([0] * 12 + [1] * 3)
        ClassDraw(classes=2, images=15, fewest=3, median=7.5, few=1)
        """
        if not labels:
            return None
        sizes = list(Counter(labels).values())
        few = sum(size < FEW_IMAGES for size in sizes)
        return cls(len(sizes), len(labels), min(sizes), float(median(sizes)), few)


@dataclass(frozen=True)
class MappingRow:
    """One mapping: a row of Table 2. None is what is undefined, and `notes` say why.

    Attributes:
        mapping: its name.
        window: parts in the published window around what the mapping claims; None if that was not measured.
        claimed: parts in what the mapping claims itself: the exact field of the best cell (field), the box around the
            top 5 % (upsampling), a field somewhere else (random); None if that was not measured.
        area: AUSC, the mean over pairs. One whose similarity hardly rises may have a huge one: see the median.
        median_area: the median over the same pairs.
        recovery: %2R, as a fraction.
        pairs: of sample and prototype.
        undefined: how many of them are in neither of the two, because the similarity does not rise.
        curve: the mean one.
        method: how curves were made.
        notes: what a reader must know.
    """

    mapping: str
    window: PartFigures | None
    claimed: PartFigures | None
    area: Estimate | None
    median_area: float | None
    recovery: Estimate | None
    pairs: int
    undefined: int
    curve: Band | None
    method: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Places:
    """Which parts and places prototypes and answers point at.

    Attributes:
        answers: where the prototypes of predicted classes won, on the images of the split.
        distinctiveness: whether the prototypes of an image's own class won at different places, on the same images.
        purity: whether prototypes show one part, on training images; None if the data set has no parts.
        prototypes: whether patches are on the object and near parts, on the images that they come from; None if the
            data set knows neither objects nor parts.
    """

    answers: AnswerPlaces
    distinctiveness: Distinctiveness
    purity: Purity | None
    prototypes: PrototypePlaces | None


@dataclass(frozen=True)
class DialectFigures:
    """Consistency and stability in one published dialect, and everything the same in the exact field."""

    dialect: DialectName
    published: PartFigures
    field: PartFigures


@dataclass(frozen=True)
class DoubtFigures:
    """How well signs of doubt tell the run's own images from others; see `pixpnet.metrics.doubt`.

    Attributes:
        against: what the others are.
        known_split: which images of its own kind.
        signs: one result for each sign.
        warned: share of the others that the model warns of; None where it has no limit for that.
        warned_interval: of that share (Wilson, 95 %); None in tables of earlier versions, too.
    """

    against: str
    known_split: str
    signs: tuple[SignResult, ...]
    warned: float | None
    warned_interval: Interval | None = field(default=None, metadata=ADDED_LATER)


@dataclass(frozen=True)
class FurtherMeasures:
    """What other papers print.

    Attributes:
        dialects: consistency and stability; none where the data set has no parts (or no boxes).
        misalignment: for each attack and protection.
        sizes: how many prototypes there are to read.
        doubts: against other data.
        calibration_error: of the stated probabilities, on the images whose scores the run kept; None where it kept none
            or is not calibrated.
        notes: what could not be measured, and why.
    """

    dialects: tuple[DialectFigures, ...]
    misalignment: tuple[Misalignment, ...]
    sizes: Sizes
    doubts: tuple[DoubtFigures, ...]
    calibration_error: Estimate | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """What was measured on one run.

    Attributes:
        run: its folder.
        model: fingerprint of the model that was measured.
        backbone: its name and cut.
        data: name of the data set.
        config: of the run.
        settings: of the measurement.
        accuracy: on the split.
        mean_field: MRF of the embedding, as a fraction.
        prototypes: how many there are.
        samples: how many were images sampled for the relevance ordering test.
        part_draw: what was looked at for consistency and stability; None where they were not measured.
        window: side of the window in which parts count, in pixels.
        threshold: how often a consistent prototype finds its part, at least.
        noise: standard deviation of what is added for stability, in units of the normalised image.
        stated_error: how far stepped curves were from exact ones where both were made; None for exact curves.
        rows: one for each mapping.
        health: what may be wrong with the prototypes, on training and validation images whatever the split; None where
            it was not looked at.
        places: which parts and places prototypes and answers point at; None where it was not looked at.
        further: what other papers print; None where it was not looked at, and in tables of earlier versions.
    """

    run: str
    model: str
    backbone: str
    data: str
    config: RunConfig
    settings: MeasureSettings
    accuracy: Accuracy
    mean_field: float
    prototypes: int
    samples: int
    part_draw: ClassDraw | None
    window: int
    threshold: float
    noise: float
    stated_error: StatedError | None
    rows: tuple[MappingRow, ...]
    health: PrototypeHealth | None
    places: Places | None
    further: FurtherMeasures | None = field(default=None, metadata=ADDED_LATER)


def plain_table(table: Table) -> dict[str, Any]:
    """A table as plain values: in its configuration the settings of the member stand beside the run's fields."""
    return {**to_plain(table), "config": plain_config(table.config)}


def table_from_plain(values: object) -> Table:
    """The table that `plain_table` gave, or an earlier version; what is derived of it (`co12`) is left out.

    Raises:
        BadRecord: if something does not fit.
    """
    if not isinstance(values, dict) or "config" not in values:
        return from_plain(Table, values, "table")
    config = config_from_plain(values["config"])
    stored = {name: value for name, value in values.items() if name != "co12"}
    return replace(from_plain(Table, {**stored, "config": to_plain(config)}, "table"), config=config)


@dataclass(frozen=True)
class MeasuredParts:
    """What `measure` found about the parts that a model's prototypes show, with the field mapping.

    Attributes:
        consistency: S_con in the published window; None where it is undefined.
        stability: S_sta in the published window; None where it is undefined.
        table: that they are from.
        draw: the images they were measured on.
    """

    consistency: float | None
    stability: float | None
    table: Table
    draw: ClassDraw


def measured_parts(run: Path, model: str) -> MeasuredParts | None:
    """Consistency and stability of a run, where this very model was measured; else None.

    Args:
        run: the folder of the run.
        model: the fingerprint of its model.

    Raises:
        ValueError: if there is a table and it is damaged.
    """
    if not (run / "measure" / TABLE_FILE).exists():
        return None
    table = read_table(run)
    row = next((row for row in table.rows if row.mapping == "field"), None)
    if table.model != model or row is None or row.window is None or table.part_draw is None:
        return None
    consistency, stability = (
        None if rate is None else rate.mean for rate in (row.window.consistency, row.window.stability)
    )
    return MeasuredParts(consistency, stability, table, table.part_draw)


def read_table(path: Path) -> Table:
    """The table of a run, or of a folder that `measure` wrote to.

    Raises:
        ValueError: if there is none or it is damaged.
    """
    file = next(
        (candidate for candidate in (path / "measure" / TABLE_FILE, path / TABLE_FILE) if candidate.is_file()), None
    )
    if file is None:
        raise ValueError(f"{path} was not measured to its end: pixpnet measure {path}")
    try:
        return table_from_plain(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{file} is damaged or of an earlier version: {error}: measure the run again, which reuses what was kept"
        ) from error

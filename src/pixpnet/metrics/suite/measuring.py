"""Measuring a run: accuracy, field, consistency and stability, relevance ordering (Table 2), health, places.

Samples are walked through one by one, all mappings for each, so that a measurement that was stopped compares mappings
on the same samples. Every result is on the disk when the next one begins (`result_store.py`).
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from pixpnet.data import DataSet, Entry, Loading, plain_loader
from pixpnet.data.loader import PlainSamples
from pixpnet.data.reader import WithoutMasks
from pixpnet.fields import UnsupportedOperation
from pixpnet.mapping import MAPPINGS
from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.metrics.consistency import THRESHOLD
from pixpnet.metrics.doubt_of_run import check_other_data
from pixpnet.metrics.draws import drawn_classes
from pixpnet.metrics.health import PrototypeHealth, prototype_health
from pixpnet.metrics.ordering import STATED_ERROR, Curves, PairResult, Spacing, drawn_samples, order_sample
from pixpnet.metrics.part_hits import scaled_window_side
from pixpnet.metrics.part_scores import scores_by_region
from pixpnet.metrics.stability import NOISE
from pixpnet.metrics.suite.band import GRID, median_band, on_grid
from pixpnet.metrics.suite.further import FurtherMaterial, measure_further, part_figures
from pixpnet.metrics.suite.placing import measure_places
from pixpnet.metrics.suite.record import (
    ON_WINDOWS,
    SAMPLES,
    TABLE_FILE,
    Accuracy,
    ClassDraw,
    MappingRow,
    MeasureSettings,
    PartFigures,
    Table,
    plain_table,
)
from pixpnet.metrics.suite.result_store import ResultStore
from pixpnet.model import PixPNet
from pixpnet.progress import Progress, named, part_of, silent
from pixpnet.records import from_plain, to_plain
from pixpnet.training import Evaluation, Metrics, Run, evaluate
from pixpnet.whole_file import written_whole

_VERSION = 1
_ORDERING = "relevance ordering"
_BATCH = 64


@dataclass(frozen=True)
class MeasuredFolder:
    """Where a measurement is, and what it came to."""

    path: Path
    results: Path
    table: Table


@dataclass(frozen=True)
class _Pair:
    """What is kept of one prototype in one sample."""

    prototype: int
    area: float | None
    recovery: float | None
    curve: tuple[float, ...] | None

    def __post_init__(self) -> None:
        if self.curve is not None and len(self.curve) != len(GRID):
            raise ValueError(f"a curve is kept at {len(GRID)} points, not {len(self.curve)}")


@dataclass(frozen=True)
class _Ordered:
    """What is kept of one sample and mapping."""

    pairs: tuple[_Pair, ...]
    method: str


@dataclass(frozen=True)
class _Parts:
    """What is kept of consistency and stability."""

    window: PartFigures
    claimed: PartFigures


def measure(
    run: Run | Path | str,
    settings: MeasureSettings = MeasureSettings(),  # noqa: B008  frozen
    *,
    out: Path | None = None,
    device: torch.device | str = "cpu",
    trust_code: bool = False,
    moved_to: str | None = None,
    progress: Progress | None = None,
) -> MeasuredFolder:
    """Makes the paper's Table 2 for a run; a second call goes on where the first was stopped.

    Args:
        run: the folder of a finished run.
        settings: what to measure.
        out: where results are kept; `measure` in the run's folder by default.
        device: where to compute.
        trust_code: the backbone may be user code, which is imported and called; only for runs that you trust.
        moved_to: where the run's data set is now (`folder:PATH`), if it is not where it was.
        progress: told what is being done, how much of it is done, of how much.

    Raises:
        ValueError: if the run is not finished, its data set has other classes, or results are damaged.
        DataError: if the data set is not at hand, or has no such split.
    """
    run_folder, progress = Run.of(run), progress or silent
    if not run_folder.finished:
        raise ValueError(
            f"{run_folder.path} is not finished, so its model is not fixed: pixpnet train --resume {run_folder.path}"
        )
    if not settings.parts_only:
        check_other_data(settings.against, progress)
    model = run_folder.model(trust_code).to(device)
    data = run_folder.data(progress, moved_to)
    samples = default_samples(model) if settings.samples is None else settings.samples
    samples = 0 if settings.parts_only else samples
    settings = replace(settings, samples=samples)
    entries = _entries(run_folder, data, settings)
    folder = run_folder.path / "measure" if out is None else out
    with ResultStore(folder, _about(run_folder, data, settings)) as stored:
        suite = _Suite(model, data, entries, settings, samples, stored, progress)
        accuracy = suite.accuracy(run_folder, torch.device(device))
        ordered, notes = suite.ordering()
        parts = suite.parts(notes)
        health = places = further = None
        if not settings.parts_only:
            health = suite.health(run_folder)
            placed = measure_places(model, data, entries, settings.seed, stored, progress)
            places = placed.places
            material = FurtherMaterial(
                run_folder,
                model,
                data,
                entries,
                suite.part_entries,
                samples,
                settings,
                stored,
                progress,
                trust_code,
                moved_to,
            )
            further = measure_further(material, placed.sizes)
    known = [model.ownership.measured_on] if model.ownership.measured_on is not None else []
    rows = tuple(
        _row(name, ordered[name], parts.get(name), notes[name] + known, settings) for name in settings.mappings
    )
    at = f" @ {model.backbone.cut}" if model.backbone.cut else ""
    table = Table(
        run=str(run_folder.path),
        model=run_folder.fingerprint(),
        backbone=f"{model.backbone_name}{at}",
        data=data.name,
        config=run_folder.config,
        settings=settings,
        accuracy=accuracy,
        mean_field=model.mean_field,
        prototypes=model.num_prototypes,
        samples=len(suite.drawn),
        part_draw=suite.part_draw if parts else None,
        window=scaled_window_side(model.preprocessing.size),
        threshold=THRESHOLD,
        noise=NOISE,
        stated_error=STATED_ERROR if settings.method == "stepped" and samples else None,
        rows=rows,
        health=health,
        places=places,
        further=further,
    )
    with written_whole(folder / TABLE_FILE) as temporary:
        temporary.write_text(json.dumps(plain_table(table)), encoding="utf-8")
    return MeasuredFolder(folder, stored.path, table)


def default_samples(model: PixPNet) -> int:
    """How many samples the relevance ordering test draws where nobody says: of a network on windows a fifth.

    A curve takes up to 80 forward passes. One of 81 windows takes 0.3 s, so that 50 samples of three prototypes in four
    mappings would take hours.
    """
    return ON_WINDOWS if model.backbone.cells_alone else SAMPLES


class _Suite:
    """One model, its images, and what is kept of them."""

    def __init__(
        self,
        model: PixPNet,
        data: DataSet,
        entries: tuple[Entry, ...],
        settings: MeasureSettings,
        samples: int,
        store: ResultStore,
        progress: Progress,
    ) -> None:
        self.model, self.data, self.entries = model, data, entries
        self.settings, self.store, self.progress = settings, store, progress
        self.samples = PlainSamples(entries, WithoutMasks(data.reader), model.preprocessing)
        self.drawn = drawn_samples(len(entries), samples, settings.seed)
        labels = [entry.label for entry in entries]
        count = len(entries) if settings.part_samples is None else settings.part_samples
        self.part_entries = [entries[index] for index in drawn_classes(labels, count, settings.seed)]
        self.part_draw = ClassDraw.of([entry.label for entry in self.part_entries])

    def accuracy(self, run: Run, device: torch.device) -> Accuracy:
        """As it was evaluated when the model was fixed, or is now."""
        metrics = from_plain(Metrics, run.read_metrics(), "metrics.json")
        evaluation: Evaluation | None = metrics.test if self.settings.split == "test" else metrics.validation
        if evaluation is None:
            evaluation = self.store.get(Evaluation, "accuracy")
        if evaluation is None:
            batches = plain_loader(self.data, self.entries, self.model.preprocessing, Loading(_BATCH, 0))
            evaluation = evaluate(self.model, self.model.num_classes, batches, device, self.progress)
            self.store.put(evaluation, "accuracy")
        return Accuracy(evaluation.accuracy, evaluation.interval.low, evaluation.interval.high, evaluation.images)

    def ordering(self) -> tuple[dict[str, dict[str, _Ordered]], dict[str, list[str]]]:
        """By mapping and sample; and what went wrong with a mapping."""
        settings = self.settings
        results: dict[str, dict[str, _Ordered]] = {name: {} for name in settings.mappings}
        notes: dict[str, list[str]] = {name: [] for name in settings.mappings}
        curves = Curves(self.model, settings.method, Spacing())
        total = len(self.drawn) * len(settings.mappings)
        for number, index in enumerate(self.drawn):
            sample_id = self.entries[index].id
            for position, name in enumerate(settings.mappings):
                done = number * len(settings.mappings) + position
                ordered = self.store.get(_Ordered, "ordering", name, sample_id)
                if ordered is None and not notes[name]:
                    part = part_of(self.progress, _ORDERING, done, total)
                    try:
                        pairs = order_sample(
                            curves, self.samples[index], MAPPINGS[name], settings.prototypes, settings.seed, part
                        )
                    except UnsupportedOperation as error:
                        notes[name].append(f"{name} is not possible for this network: {error}")
                        continue
                    ordered = _Ordered(tuple(map(_short, pairs)), curves.name)
                    self.store.put(ordered, "ordering", name, sample_id)
                if ordered is not None:
                    results[name][sample_id] = ordered
                self.progress(_ORDERING, done + 1, total)
        return results, notes

    def parts(self, notes: dict[str, list[str]]) -> dict[str, _Parts]:
        """Consistency and stability of each mapping that draws regions of its own."""
        scores = {}
        looked_at = PlainSamples(self.part_entries, self.samples.reader, self.model.preprocessing)
        key = "part figures of whole classes", str(len(self.part_entries))
        for name in self.settings.mappings:
            if not self.data.point_parts:
                notes[name].append(f"{self.data.name} has no annotated parts, so there is no S_con and no S_sta")
                continue
            if name == "prp":
                notes[name].append("prp draws no region of its own, so there is no S_con and no S_sta (as in Table 2)")
                continue
            parts = self.store.get(_Parts, *key, name)
            if parts is None:
                window, claimed = scores_by_region(
                    self.model,
                    looked_at,
                    self.data.point_parts,
                    name,
                    ("window", "claimed"),
                    window_side=scaled_window_side(self.model.preprocessing.size),
                    seed=self.settings.seed,
                    progress=named(self.progress, f"parts, {name}"),
                )
                parts = _Parts(part_figures(window), part_figures(claimed))
                self.store.put(parts, *key, name)
            scores[name] = parts
        return scores

    def health(self, run: Run) -> PrototypeHealth:
        """On the images that prototypes come from and on validation images: nothing here needs test images."""
        result = self.store.get(PrototypeHealth, "health")
        if result is None:
            result = prototype_health(self.model, self.data, "val", self.progress, run=run, seed=self.settings.seed)
            self.store.put(result, "health")
        return result


def _about(run: Run, data: DataSet, settings: MeasureSettings) -> dict[str, object]:
    """All that decides a single result."""
    return {
        "version": _VERSION,
        "model": run.fingerprint(),
        "data": data.name,
        "split": settings.split,
        "method": settings.method,
        "spacing": to_plain(Spacing()),
        "prototypes": settings.prototypes,
        "seed": settings.seed,
    }


def _entries(run: Run, data: DataSet, settings: MeasureSettings) -> tuple[Entry, ...]:
    if settings.split == "val":
        return data.val
    images = "consistency and stability alone" if settings.parts_only else f"{settings.samples} samples"
    reason = f"pixpnet measure: {', '.join(settings.mappings)} on {images}"
    return data.test.open(run.recorder(), reason)


def _short(pair: PairResult) -> _Pair:
    return _Pair(pair.prototype, pair.area, pair.recovery, on_grid(pair.curve))


def _row(
    name: str, ordered: dict[str, _Ordered], parts: _Parts | None, notes: list[str], settings: MeasureSettings
) -> MappingRow:
    pairs = [(sample, pair) for sample, sample_order in ordered.items() for pair in sample_order.pairs]

    def estimate(values: list[tuple[str, float | None]]) -> Estimate | None:
        defined = [(sample, value) for sample, value in values if value is not None]
        return bootstrap_mean([value for _, value in defined], [sample for sample, _ in defined], settings.seed)

    curves = [(sample, pair.curve) for sample, pair in pairs if pair.curve is not None]
    method = next((sample_order.method for sample_order in ordered.values()), settings.method)
    if method != settings.method:
        notes = [*notes, f"every step of an exact curve took a whole forward pass ({method})"]
    return MappingRow(
        mapping=name,
        window=None if parts is None else parts.window,
        claimed=None if parts is None else parts.claimed,
        area=estimate([(sample, pair.area) for sample, pair in pairs]),
        median_area=median(areas) if (areas := [pair.area for _, pair in pairs if pair.area is not None]) else None,
        recovery=estimate([(sample, pair.recovery) for sample, pair in pairs]),
        pairs=len(pairs),
        undefined=sum(pair.area is None for _, pair in pairs),
        curve=median_band([curve for _, curve in curves], [sample for sample, _ in curves], settings.seed),
        method=method,
        notes=tuple(notes),
    )

"""What other papers print, for a run: two dialects of consistency and stability, misalignment, sizes, doubt.

Every attacked image is one kept result, and so is each dialect and each data set that doubt is measured against.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pixpnet.data import DataSet, Entry
from pixpnet.data.loader import PlainSamples
from pixpnet.data.reader import WithoutMasks
from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.certainty import certainty_table, fitted_to
from pixpnet.metrics.dialects import DIALECTS, DialectName, dialect_scores
from pixpnet.metrics.doubt_of_run import doubt_of_run
from pixpnet.metrics.misalignment import (
    Attack,
    AttackedImage,
    AttackSettings,
    Misalignment,
    Protection,
    attack_images,
    summarize,
)
from pixpnet.metrics.ordering import drawn_samples
from pixpnet.metrics.part_scores import PartScores
from pixpnet.metrics.sizes import Sizes
from pixpnet.metrics.suite.record import (
    DialectFigures,
    DoubtFigures,
    FurtherMeasures,
    MeasureSettings,
    PartFigures,
)
from pixpnet.metrics.suite.result_store import ResultStore
from pixpnet.model import PixPNet
from pixpnet.progress import Progress, named, part_of
from pixpnet.records import to_plain
from pixpnet.training import Run
from pixpnet.training.kept_scores import read_scores

# Images of other data for each attacked one.
_OTHERS = 4
# On windows an image is many forward passes, and a stopped measurement should lose little.
_BATCH, _ON_WINDOWS = 10, 2


@dataclass(frozen=True)
class FurtherMaterial:
    """What is measured, and where results are kept.

    Attributes:
        run: whose kept scores are read.
        model: of the run, in eval mode.
        data: of the run.
        entries: of the split.
        part_entries: those that consistency and stability are measured on.
        samples: how many images are attacked where the settings do not say.
        settings: what to measure.
        store: of results.
        progress: told what is being done.
        trust_code: whether a backbone that is code of its own may be called.
        moved_to: where the run's data set is now, if it is not where it was.
    """

    run: Run
    model: PixPNet
    data: DataSet
    entries: Sequence[Entry]
    part_entries: Sequence[Entry]
    samples: int
    settings: MeasureSettings
    store: ResultStore
    progress: Progress
    trust_code: bool
    moved_to: str | None = None


def measure_further(material: FurtherMaterial, sizes: Sizes) -> FurtherMeasures:
    """Measures what is not among the kept results yet."""
    notes: list[str] = []
    dialects = _dialects(material, notes)
    attacks = [
        _misalignment(material, attack, protected)
        for attack in material.settings.attacks
        for protected in material.settings.protected
    ]
    doubts = tuple(_doubt(material, name) for name in material.settings.against)
    error = _calibration_error(material, notes)
    return FurtherMeasures(dialects, tuple(attacks), sizes, doubts, error, tuple(notes))


def part_figures(scores: PartScores) -> PartFigures:
    """What a table keeps of consistency and stability."""
    return PartFigures(
        scores.consistency, scores.soft_consistency, scores.stability, scores.soft_stability, scores.undefined
    )


def _dialects(material: FurtherMaterial, notes: list[str]) -> tuple[DialectFigures, ...]:
    data = material.data
    if not data.point_parts or not material.part_entries:
        if material.settings.dialects:
            notes.append(f"{data.name} has no annotated parts, so no dialect has consistency or stability")
        return ()
    boxes = data.reader(material.part_entries[0]).bounding_box is not None
    figures = []
    for name in material.settings.dialects:
        if DIALECTS[name].crop_to_box and not boxes:
            notes.append(f"{data.name} has no bounding boxes, which the dialect {name} crops images to")
            continue
        figures.append(_dialect(material, name))
    return tuple(figures)


def _dialect(material: FurtherMaterial, name: DialectName) -> DialectFigures:
    key = "dialect", name, str(len(material.part_entries))
    figures = material.store.get(DialectFigures, *key)
    if figures is None:
        scores = dialect_scores(
            material.model,
            material.part_entries,
            material.data.reader,
            material.data.point_parts,
            name,
            seed=material.settings.seed,
            progress=named(material.progress, f"parts, dialect {name}"),
        )
        figures = DialectFigures(name, part_figures(scores.published), part_figures(scores.field))
        material.store.put(figures, *key)
    return figures


def _misalignment(material: FurtherMaterial, attack: Attack, protected: Protection) -> Misalignment:
    model, settings = material.model, material.settings
    attacking = AttackSettings(attacked=settings.attacked)
    count = material.samples if settings.attack_samples is None else settings.attack_samples
    chosen = [material.entries[index] for index in drawn_samples(len(material.entries), count, settings.seed)]
    key = "misalignment", attack, protected, json.dumps(to_plain(attacking), sort_keys=True)
    images = {entry.id: material.store.get(AttackedImage, *key, entry.id) for entry in chosen}
    missing = [entry for entry in chosen if images[entry.id] is None]
    samples = PlainSamples(missing, WithoutMasks(material.data.reader), model.preprocessing)
    size = _ON_WINDOWS if model.backbone.cells_alone else _BATCH
    starts, task = range(0, len(missing), size), f"misalignment, {attack}, {protected}"
    for number, start in enumerate(starts):
        some = [samples[index] for index in range(start, min(start + size, len(missing)))]
        part = part_of(material.progress, task, number, len(starts))
        (attacked,) = attack_images(model, some, attack, (protected,), attacking, settings.seed, part)
        for name, result in attacked.items():
            material.store.put(result, *key, name)
            images[name] = result
        material.progress(task, number + 1, len(starts))
    whole = {name: result for name, result in images.items() if result is not None}
    return summarize(whole, attack, protected, attacking, settings.seed)


def _doubt(material: FurtherMaterial, name: str) -> DoubtFigures:
    count = _OTHERS * material.samples
    figures = material.store.get(DoubtFigures, "doubt", name, str(count))
    if figures is None:
        (result,) = doubt_of_run(
            material.run,
            (name,),
            images=count,
            seed=material.settings.seed,
            batch_size=_BATCH,
            device=torch.device(material.model.device),
            trust_code=material.trust_code,
            split=material.settings.split,
            moved_to=material.moved_to,
            progress=material.progress,
        )
        figures = DoubtFigures(result.against, result.known_split, result.signs, result.warned, result.warned_interval)
        material.store.put(figures, "doubt", name, str(count))
    return figures


def _calibration_error(material: FurtherMaterial, notes: list[str]) -> Estimate | None:
    scores_by_split, known = read_scores(material.run), material.model.calibration
    if known is not None and fitted_to(known, material.settings.split):
        notes.append("the temperature was fitted to the validation images, so their calibration error says nothing")
        return None
    scores = scores_by_split.get("test" if material.settings.split == "test" else "val")
    if scores is None or known is None:
        return None
    table = certainty_table(scores, known, material.settings.split)
    return None if table is None else table.after.error

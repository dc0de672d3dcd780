"""The paper's Table 1 for trained runs: what each is, which desiderata it satisfies, and how accurate it is.

Nothing is declared: desiderata come from an audit of each run, accuracies from its own evaluation, consistency and
stability from its measurements, where there are any. Runs that differ in nothing but the seed are one row. An audit
takes a while, so what it found is kept in the run (`audit.json`), for as long as its model stays the same.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pixpnet.config import plain_config
from pixpnet.data import DataError
from pixpnet.family import member_named
from pixpnet.metrics.auditing import Verdict, audit, together
from pixpnet.metrics.auditing.localization import THRESHOLD
from pixpnet.metrics.suite import Spread, measured_parts, spread
from pixpnet.metrics.suite.comparing import without_seed
from pixpnet.progress import Progress
from pixpnet.records import BadRecord, from_plain, to_plain
from pixpnet.training import Run, RunError
from pixpnet.whole_file import written_whole

FACTS_FILE = "audit.json"
_FORMAT = 1


@dataclass(frozen=True)
class RunFacts:
    """What Table 1 says of one run.

    Attributes:
        member: name of the network in the family.
        backbone: and the layer it is cut at.
        cropped: whether pictures were cropped to annotated boxes.
        patches: desideratum 1, prototypes are image patches.
        parts: desideratum 2, they localize to parts.
        reasoning: desideratum 3, a linear or simple tree model.
        positive: elements that explain a class, those that speak for it.
        both: elements that explain a class, all of them.
        prototypes: how many.
        mean_field: mean share of the image that a cell sees, 0-1.
        winning_region: mean share of the image that the region of a winning cell covers; None where not known.
        accuracy: on the test split after replacement; None where it was not opened.
        images: of the test split.
        validation: whether the model was chosen on validation images that it did not learn from.
    """

    member: str
    backbone: str
    cropped: bool
    patches: Verdict
    parts: Verdict
    reasoning: Verdict
    positive: int
    both: int
    prototypes: int
    mean_field: float
    winning_region: float | None
    accuracy: float | None
    images: int
    validation: Verdict


@dataclass(frozen=True)
class _StoredFacts:
    """The facts of a run, for one model and one threshold."""

    format: int
    model: str
    threshold: float
    facts: RunFacts


@dataclass(frozen=True)
class FamilyRow:
    """One row of the table: runs that differ in nothing but their seed.

    Attributes:
        runs: their folders.
        seeds: of the runs.
        data: what they were trained on.
        facts: of each run.
        consistency: S_con of each run where it was measured; else None.
        stability: S_sta of each run where it was measured; else None.
    """

    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    data: str
    facts: tuple[RunFacts, ...]
    consistency: tuple[float | None, ...]
    stability: tuple[float | None, ...]

    @property
    def title(self) -> str:
        """The member as its paper writes it."""
        return member_named(self.facts[0].member).title

    @property
    def desiderata(self) -> tuple[Verdict, Verdict, Verdict]:
        """Of all runs together: one that fails decides."""
        return (
            together(facts.patches for facts in self.facts),
            together(facts.parts for facts in self.facts),
            together(facts.reasoning for facts in self.facts),
        )

    @property
    def validation(self) -> Verdict:
        """Whether all were chosen on validation images."""
        return together(facts.validation for facts in self.facts)

    @property
    def accuracy(self) -> Spread | None:
        """Mean and deviation of the test accuracies of the runs."""
        return spread([facts.accuracy for facts in self.facts])

    @property
    def winning_region(self) -> Spread | None:
        """Mean and deviation of the winning regions of the runs."""
        return spread([facts.winning_region for facts in self.facts])


def family_table(
    runs: Sequence[Run | Path | str],
    data: str | None = None,
    threshold: float = THRESHOLD,
    trust_code: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[FamilyRow, ...]:
    """Puts trained runs into the paper's Table 1, in the order in which they come.

    Args:
        runs: their folders.
        data: where their images are now, if they were moved; the same for all.
        threshold: of desideratum 2 (`audit`).
        trust_code: backbones that are user code may be called.
        device: where models are audited.
        progress: told what is being done, how much of it is done, of how much.

    Raises:
        TypeError: if it is one run and no list.
        ValueError: if a run is named twice.
        RunError: if one is no run, or has no model yet.
    """
    if isinstance(runs, (str, Path, Run)):
        raise TypeError(f"family_table takes a list of runs: [{str(runs)!r}, ...]")
    folders = [Run.of(run) for run in runs]
    models = [run.fingerprint() for run in folders]
    if len(set(models)) < len(models):
        raise ValueError("the same model is named twice: name each run once")
    groups: dict[str, list[tuple[Run, RunFacts]]] = {}
    for run in folders:
        run.check()
        facts = facts_of(run, data, threshold, trust_code, device, progress)
        groups.setdefault(json.dumps(plain_config(without_seed(run.config))), []).append((run, facts))
    return tuple(_row(group) for group in groups.values())


def facts_of(
    run: Run,
    data: str | None = None,
    threshold: float = THRESHOLD,
    trust_code: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> RunFacts:
    """What Table 1 says of one run: as it was kept, or from an audit that is made now and kept.

    What could not be checked because images are not at hand is not kept.
    """
    model_hash = run.fingerprint()
    if (stored := _read(run.path / FACTS_FILE)) is not None and (stored.model, stored.threshold) == (
        model_hash,
        threshold,
    ):
        return stored.facts
    model = run.model(trust_code).to(device)
    try:
        images = run.data(None, data)
    except (DataError, RunError, OSError):
        images = None
    result = audit(run.path, model, images, threshold=threshold, progress=progress)
    metrics = result.conduct.metrics
    test = None if metrics is None else metrics.test
    at = f" @ {model.backbone.cut}" if model.backbone.cut else ""
    facts = RunFacts(
        member=model.member,
        backbone=f"{model.backbone_name}{at}",
        cropped=run.config.crop_to_box,
        patches=result.grounding.verdict,
        parts=result.localization.verdict,
        reasoning=result.reasoning.verdict,
        positive=result.reasoning.size.positive,
        both=result.reasoning.size.both,
        prototypes=model.num_prototypes,
        mean_field=result.localization.mean_field,
        winning_region=result.localization.winning_region,
        accuracy=None if test is None else test.accuracy,
        images=0 if test is None else test.images,
        validation=result.conduct.findings[0].verdict,
    )
    if images is not None:
        with written_whole(run.path / FACTS_FILE) as temporary:
            stored = _StoredFacts(_FORMAT, model_hash, threshold, facts)
            temporary.write_text(json.dumps(to_plain(stored), indent=1), encoding="utf-8")
    return facts


def _read(path: Path) -> _StoredFacts | None:
    """What was kept; None where there is nothing, or something else."""
    try:
        stored = from_plain(_StoredFacts, json.loads(path.read_text(encoding="utf-8")), FACTS_FILE)
    except (OSError, ValueError, RecursionError, BadRecord):
        return None
    return stored if stored.format == _FORMAT else None


def _row(group: Sequence[tuple[Run, RunFacts]]) -> FamilyRow:
    parts = [_measured(run) for run, _ in group]
    return FamilyRow(
        runs=tuple(str(run.path) for run, _ in group),
        seeds=tuple(run.config.seed for run, _ in group),
        data=group[0][0].config.data,
        facts=tuple(facts for _, facts in group),
        consistency=tuple(part[0] for part in parts),
        stability=tuple(part[1] for part in parts),
    )


def _measured(run: Run) -> tuple[float | None, float | None]:
    """S_con and S_sta, where this very model was measured; a damaged table is none."""
    try:
        parts = measured_parts(run.path, run.fingerprint())
    except ValueError:
        parts = None
    return (None, None) if parts is None else (parts.consistency, parts.stability)

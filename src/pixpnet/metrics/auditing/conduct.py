"""How the model was chosen: on a validation split, with the test split closed until it was fixed (Sec. 5, App. H).

An opening's line in `openings.jsonl` carries the fingerprint of the model that it was opened for. If that is the model
of today, nothing was changed after the test images were seen; nor if the two differ in their calibration alone, of
which `recalibrations.jsonl` keeps account (a hash of everything else in the file is compared). Lines of earlier
versions have no fingerprint; for those the time of the opening is compared with that of the model's file, which a copy
of the run must have kept (`cp -a`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from pixpnet.data import DataSet
from pixpnet.metrics.auditing.verdict import Desideratum, Finding, finding_of
from pixpnet.model.file import MODEL_FILE
from pixpnet.records import from_plain
from pixpnet.settings import kept_epoch
from pixpnet.training import Metrics, OpeningLine, Run, RunError
from pixpnet.training.calibrating import earlier_fingerprints, recalibrations


@dataclass(frozen=True)
class Conduct(Desideratum):
    """What was found about how the model was chosen.

    Attributes:
        metrics: how it was evaluated; None if its training has not come to an end.
        validation_images: how many the model was chosen by; None if that is not known.
        openings: of the test split, in that order.
        early: how many of them were before the model was fixed.
        findings: claim by claim.
    """

    metrics: Metrics | None
    validation_images: int | None
    openings: tuple[OpeningLine, ...]
    early: int
    findings: tuple[Finding, ...]


def check_conduct(run: Run, data: DataSet | None) -> Conduct:
    """Reads what the run wrote down about itself.

    Raises:
        RunError: if one of its files is damaged.
    """
    metrics = _metrics(run)
    openings = run.read_openings()
    validation, images = _validation(metrics, data)
    earlier = _earlier_fingerprints(run, openings)
    early = [why for opening in openings if (why := _why_early(run, opening, earlier)) is not None]
    return Conduct(metrics, images, openings, len(early), (validation, _test(run, openings, early)))


def _metrics(run: Run) -> Metrics | None:
    if not run.finished:
        return None
    try:
        return from_plain(Metrics, run.read_metrics(), "metrics")
    except ValueError as error:
        raise RunError(f"{run.path / 'metrics.json'} is damaged: {error}") from error


def _validation(metrics: Metrics | None, data: DataSet | None) -> tuple[Finding, int | None]:
    claim = "the model was chosen on a validation split of its own"
    if metrics is None:
        return Finding(claim, "not checked", "its training has not come to an end"), None
    images = metrics.validation.images
    if not images:
        return finding_of(claim, False, "there were no validation images"), images
    rule = kept_epoch(metrics.validation_before is not None)
    summary = f"epoch {metrics.chosen_epoch} of {metrics.epochs}, {rule}; {images} validation images"
    if data is None:
        return Finding(claim, "not checked", f"{summary}, says metrics.json; the data set is not at hand"), images
    if len(data.val) != images and data.changes.missing:
        gone = f"{len(data.changes.missing)} images that the run had are gone"
        return Finding(claim, "not checked", f"{summary}, says metrics.json; {gone}, {len(data.val)} are left"), images
    if len(data.val) != images:
        return finding_of(claim, False, f"{summary}, says metrics.json, but the data set has {len(data.val)}"), images
    # By pixels, because a copy has another name; drawn images have a name only.
    learnt = {entry.digest or entry.id for entry in data.train}
    shared = [entry.id for entry in data.val if (entry.digest or entry.id) in learnt]
    if shared:
        evidence = f"{summary}, but the pictures of {len(shared)} of them are also in train, such as {shared[0]}"
        return finding_of(claim, False, evidence), images
    return finding_of(claim, True, f"{summary}, the picture of none of which is in train"), images


def _test(run: Run, openings: tuple[OpeningLine, ...], early: list[str]) -> Finding:
    claim = "the test split stayed closed until the model was fixed"
    times = f"opened {len(openings)} time{'' if len(openings) == 1 else 's'}"
    if not openings:
        return finding_of(claim, True, "never opened")
    if not run.finished:
        return finding_of(claim, False, f"{times}, but training has not come to an end")
    if early:
        return finding_of(claim, False, f"{times}, {len(early)} of them before the model was fixed: {early[0]}")
    by_time = sum(opening.model is None for opening in openings)
    basis = (
        f"after it, {by_time} compared by times of files only" if by_time else "for the very model that is there now"
    )
    return finding_of(claim, True, f"{times}, {basis}: " + "; ".join(f"{line.time} {line.reason}" for line in openings))


def _earlier_fingerprints(run: Run, openings: tuple[OpeningLine, ...]) -> frozenset[str]:
    """Those of this very model before it was calibrated again, which changes no answer."""
    now = run.fingerprint()
    if all(opening.model in (None, now) for opening in openings) or not recalibrations(run):
        return frozenset()
    try:
        return earlier_fingerprints(run, run.model(trust_code=False))
    except ValueError:  # a backbone that is the user's code, or given: not to be called for this
        return frozenset()


def _why_early(run: Run, opening: OpeningLine, earlier: frozenset[str]) -> str | None:
    """Why an opening was before the model was fixed; None if it was not."""
    when = f"{opening.time} ({opening.reason})"
    if opening.model is not None:
        known = opening.model == run.fingerprint() or opening.model in earlier
        return None if known else f"{when}: the model was another one then"
    fixed = datetime.fromtimestamp(int((run.path / MODEL_FILE).stat().st_mtime), UTC)
    try:
        opened = datetime.fromisoformat(opening.time)
    except ValueError as error:
        raise RunError(f"{run.openings} is damaged: {error}") from error
    if opened.replace(tzinfo=opened.tzinfo or UTC) >= fixed:
        return None
    return f"{when}: the model's file is of {fixed.isoformat()} (a copy of a run must keep its times: cp -a)"

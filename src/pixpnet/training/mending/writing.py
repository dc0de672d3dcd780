"""Edited runs: `RUN+edited`, which loads, explains and audits like any other, and says what was done to it."""

import json
from pathlib import Path

import torch

from pixpnet.data import DataSet
from pixpnet.model import PixPNet
from pixpnet.model.mending import Mending, Way, mending_text
from pixpnet.model.weights import read_state
from pixpnet.progress import Progress
from pixpnet.records import to_plain
from pixpnet.training.derived import derive_run
from pixpnet.training.finishing import before_replacement
from pixpnet.training.mending.preview import without_weights
from pixpnet.training.mending.record import EditPreview
from pixpnet.training.run import Run, RunError
from pixpnet.training.selection import learnt_state
from pixpnet.verdicts import Standing, Verdict, VerdictLog

EDIT_FILE = "edit.json"
SUFFIX = "+edited"


def write_edit(
    run: Run | Path | str,
    preview: EditPreview,
    out: Path | str | None = None,
    way: Way | None = None,
    *,
    test: bool = False,
    data: DataSet | None = None,
    progress: Progress | None = None,
    trust_code: bool = False,
) -> Run:
    """Makes an edit, evaluates the edited model, and keeps it in a run folder of its own.

    Prototypes keep their numbers, names and pictures; those that were removed count for nothing and are in no
    explanation. `edit.json` and the model file say what was done, and so does the report. Names, what was forbidden or
    remembered, and what this edit does not do yet go into the new run's own log of verdicts.

    Args:
        run: the run that was previewed.
        preview: what `preview_edit` gave.
        out: a new folder; by default ``RUN+edited``, or ``RUN+edited-2`` and so on where there is one.
        way: how the others make up for those that are removed; the preview's recommended way by default. What costs
            more than the closed form allows is written only where it is named here.
        test: open the test split for the edited model, which is recorded.
        data: of the run, where they are open already.
        progress: told how far it is.
        trust_code: the backbone may be code that the run names, which is imported and called.

    Raises:
        RunError: if the run's model is not the one that was previewed, or the folder is in use.
        NoEdit: if no way is named, and the only one there is costs more than allowed.
        ValueError: if the edit cannot be made this way.
    """
    source = Run.of(run)
    outcome = preview.outcome(way)
    if preview.model != source.fingerprint():
        raise RunError(
            f"{source.path} has another model now than the preview was made of ({preview.model}): preview it again"
        )
    if not outcome.weights:
        raise ValueError("this preview was read from a file, which holds no weights: preview the edit again")
    folder = free_folder(source.path) if out is None else Path(out)
    Run.refuse_if_used(folder)
    model = source.model(trust_code)
    mending = Mending(
        source=source.path.resolve().name,
        source_model=preview.model,
        removed=preview.removed,
        required=preview.required,
        least_weights=preview.least_weights,
        way=outcome.way,
    )
    weights = torch.tensor(outcome.weights, dtype=torch.float64)
    before, learnt = before_replacement(source, model), read_state(source.learnt)
    _edit(model, weights)
    model.mendings = (*model.mendings, mending)
    if before.architecture == model.architecture:
        _edit(before, weights)
        learnt = learnt_state(before)
    lines = VerdictLog(source.path).standing()
    derive_run(
        source,
        folder,
        model,
        before,
        learnt,
        source.data(progress) if data is None else data,
        {EDIT_FILE: json.dumps({"done": mending_text(model.mendings), **to_plain(without_weights(preview))}, indent=1)},
        "evaluation of an edited model" if test else "",
        progress,
        finish=lambda new: _carry_over(lines, mending, new),
    )
    return Run(folder, source.backbone, source.dataset)


def free_folder(run: Path, suffix: str = SUFFIX) -> Path:
    """``RUN+edited`` beside a run, or the first of ``RUN+edited-2``, ``RUN+edited-3`` ... that is not there."""
    path = run.resolve()
    base = path.name if suffix in path.name else f"{path.name}{suffix}"
    names = [base, *(f"{base}-{number}" for number in range(2, 10_000))]
    # A folder given as a relative path stays one.
    return next(run.parent / name for name in names if not (path.parent / name).exists())


def _edit(model: PixPNet, weights: torch.Tensor) -> None:
    model.make_editable().set_weights(weights)


def _carry_over(standing: dict[int, Standing], mending: Mending, new: Run) -> None:
    """What holds, for the new model, but for what this edit decided: its prototypes are removed or required now."""
    log = VerdictLog(new.path)
    decided = {*mending.removed, *mending.required}
    for number, current in standing.items():
        if current.name:
            log.append(Verdict(number, "name", current.name))
        if current.action is not None and number not in decided:
            log.append(Verdict(number, current.action, weight=current.weight))
        for patch in current.forbidden:
            log.append(Verdict(number, "forbid", patch=patch))
        for patch in current.remembered:
            log.append(Verdict(number, "remember", patch=patch))

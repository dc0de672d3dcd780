"""What a trained network can be turned into without training, as a run of its own (`Member.conversions`)."""

import json
from dataclasses import dataclass
from pathlib import Path

from pixpnet.class_names import printable
from pixpnet.family import member_named
from pixpnet.model import PixPNet
from pixpnet.model.weights import read_state
from pixpnet.records import from_plain, to_plain
from pixpnet.training.derived import derive_run
from pixpnet.training.finishing import Metrics, before_replacement
from pixpnet.training.run import Run, RunError
from pixpnet.training.run_data import open_data_of

CONVERSION_FILE = "conversion.json"


def convert(source: Path, name: str, out: Path, test: bool = False, trust_code: bool = False) -> Metrics:
    """Turns a finished run's model into another one, evaluates that, and keeps it in a run folder of its own.

    The new folder opens like any other: its configuration and log are those of the training that it comes from, and
    `conversion.json` says from which model, and how.

    Args:
        source: the folder of a finished run.
        name: of one of the member's conversions.
        out: a new folder.
        test: open the test split for the new model, which is recorded.
        trust_code: the backbone may be code that the run names, which is imported and called.

    Raises:
        RunError: if the run is not finished, the folder is in use, or the member has no such conversion.
    """
    run = Run(source)
    config = run.config
    conversions = member_named(config.member).conversions
    if name not in conversions:
        known = ", ".join(conversions) or "none"
        raise RunError(f"a {config.member} cannot be turned into {name!r}; its conversions: {known}")
    if not run.finished:
        raise RunError(f"{source} is not finished: pixpnet train --resume {source}")
    Run.refuse_if_used(out)
    model = PixPNet.load(source, trust_code=trust_code)
    before = before_replacement(run, model)
    for network in (model, before):
        conversions[name].convert(network.eval())
    about = _About(name, source.resolve().name, run.fingerprint())
    return derive_run(
        run,
        out,
        model,
        before,
        read_state(run.learnt),
        open_data_of(run),
        {CONVERSION_FILE: json.dumps(to_plain(about), indent=1)},
        f"evaluation of the conversion to {name}" if test else "",
    )


def conversion_note(run: Run) -> str | None:
    """From which model a run's model was converted, as a sentence; None where it was trained.

    Raises:
        RunError: if the file that says so is damaged.
    """
    try:
        text = (run.path / CONVERSION_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        about = from_plain(_About, json.loads(text), CONVERSION_FILE)
        summary = member_named(run.config.member).conversions[about.conversion].summary
    except (ValueError, KeyError, RecursionError) as error:
        raise RunError(f"{run.path / CONVERSION_FILE} is damaged: {error}") from error
    return (
        f"The model of the run {printable(about.source)} was turned into {summary}, without training. Configuration "
        "and log are those of that run; accuracies are this model's own."
    )


@dataclass(frozen=True)
class _About:
    """What `conversion.json` says: which conversion, of which run, and of which model by its digest."""

    conversion: str
    source: str
    model: str

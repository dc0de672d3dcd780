"""The requests of the tab Measures: what the run kept of its training and evaluation, and what is not measured yet."""

import csv
import shlex
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pixpnet.explanation.certainty import calibration_words, limits_words
from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.certainty import FITTED_TO_THESE, CertaintyTable, certainty_table, error_words, fitted_to
from pixpnet.metrics.doubt_of_run import read_doubt
from pixpnet.metrics.suite import read_table
from pixpnet.metrics.suite.record import MappingRow, Table
from pixpnet.model import PixPNet
from pixpnet.records import from_plain
from pixpnet.settings import kept_epoch
from pixpnet.training import Evaluation, Interval, Metrics, Run, RunError
from pixpnet.training.kept_scores import read_scores
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.requests import Handling
from pixpnet.views.report import evaluated, taken_for
from pixpnet.views.trust import COVERAGE
from pixpnet.views.words import number, percent

Plain = dict[str, Any]
# The curves of a training that people look at, and the columns of log.csv in them.
_CURVES = {
    "Accuracy": {"val_accuracy": "validation", "val_accuracy_after": "after replacement", "train_accuracy": "training"},
    "Cross-entropy": {"val_loss": "validation", "val_loss_after": "after replacement", "cross_entropy": "training"},
}


def routes(explorer: Explorer) -> list[Route]:
    """What the tab may ask for."""
    handling = Handling(explorer)

    async def measures(request: Request) -> Response:
        return await handling.json(lambda: measured(explorer.run, explorer.model))

    return [Route("/api/measures", measures)]


def measured(run: Run, model: PixPNet) -> Plain:
    """Everything that a run kept, as tables and curves; parts that are missing or damaged are said, not fatal."""
    problems: list[str] = []
    missing: list[Plain] = []
    metrics = _metrics(run, problems)
    certainty = _certainty(run, model, problems)
    table = _table(run, problems)
    doubts = _doubts(run, problems)
    if metrics is None:
        missing.append(_todo("How accurate it is", "The run is not finished", "train", "--resume", run.path))
    elif metrics.test is None:
        missing.append(
            _todo(
                "Accuracy on test images", "The test split was not opened; doing so is recorded", "evaluate", run.path
            )
        )
    if table is None:
        why = "Relevance ordering, consistency, stability, and the health of prototypes; takes minutes to hours"
        missing.append(_todo("Table 2 of the paper", why, "measure", run.path))
    if not doubts:
        why = "How well it tells other pictures from its own"
        missing.append(_todo("Doubt", why, "doubt", run.path, "noise"))
    if certainty is None and model.calibration is None:
        missing.append(_todo("Calibration", "Probabilities were not calibrated yet", "calibrate", run.path))
    missing.append(_todo("The three desiderata", "The audit prints what it finds and keeps nothing", "audit", run.path))
    missing.append(_todo("A page to send", "The report is one file that opens from disk", "report", run.path))
    return {
        "problems": problems,
        "headline": [] if metrics is None else _headline(metrics),
        "accuracy": [] if metrics is None else _accuracy(metrics),
        "classes": [] if metrics is None else _classes(metrics, model.class_names),
        "split": "test" if metrics is not None and metrics.test is not None else "validation",
        "confused": [] if metrics is None else _confused(metrics, model.class_names),
        "curves": _curves(run, problems),
        "kept_epoch": None if metrics is None else metrics.chosen_epoch,
        "certainty": certainty,
        "calibrated": calibration_words(model.calibration),
        "limits": limits_words(model.calibration),
        "doubts": doubts,
        "table": table,
        "openings": [
            {"time": line.time, "reason": line.reason, "images": line.images} for line in _openings(run, problems)
        ],
        "missing": missing,
    }


def _todo(name: str, why: str, *words: object) -> Plain:
    return {"name": name, "why": why, "command": shlex.join(["pixpnet", *map(str, words)])}


def _metrics(run: Run, problems: list[str]) -> Metrics | None:
    if not run.finished:
        return None
    try:
        return from_plain(Metrics, run.read_metrics(), "metrics.json")
    except (RunError, ValueError) as error:
        problems.append(str(error))
        return None


def _headline(metrics: Metrics) -> list[Plain]:
    shown = metrics.test or metrics.validation
    split = "test" if metrics.test is not None else "validation"
    return [
        {
            "name": f"{split} accuracy",
            "value": percent(shown.accuracy),
            "more": f"{shown.images} images, 95 % interval {percent(shown.interval.low)} to "
            f"{percent(shown.interval.high)}",
        },
        {
            "name": "of the image a cell sees",
            "value": percent(metrics.mean_field),
            "more": f"at most {percent(metrics.largest_field)}",
        },
        {
            "name": "prototypes",
            "value": str(metrics.prototypes),
            "more": f"kept: epoch {metrics.chosen_epoch} of {metrics.epochs}, "
            f"{kept_epoch(metrics.validation_before is not None)}",
        },
    ]


def _accuracy(metrics: Metrics) -> list[Plain]:
    return [
        {"split": split.split, "before": _share(split.before), "after": _share(split.after)}
        for split in evaluated(metrics)
    ]


def _share(evaluation: Evaluation | None) -> Plain | None:
    if evaluation is None:
        return None
    low, high = evaluation.interval.low, evaluation.interval.high
    return {
        "accuracy": percent(evaluation.accuracy),
        "interval": f"{percent(low)} to {percent(high)}",
        "images": evaluation.images,
        "loss": number(evaluation.loss),
    }


def _classes(metrics: Metrics, names: Sequence[str]) -> list[Plain]:
    shown = metrics.test or metrics.validation
    return [
        {"name": name, "label": label, "share": share, "accuracy": "no images" if share is None else percent(share)}
        for label, (name, share) in enumerate(zip(names, shown.class_accuracy, strict=True))
    ]


def _confused(metrics: Metrics, names: Sequence[str]) -> list[Plain]:
    wrong = taken_for(metrics.test or metrics.validation, names)
    return [{"truth": pair.truth, "answer": pair.taken_for, "images": pair.images} for pair in wrong]


def _curves(run: Run, problems: list[str]) -> list[Plain]:
    """The curves of the log: a point for each epoch in which a column has a number."""
    try:
        with (run.path / "log.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return [
            {"title": title, "series": series}
            for title, columns in _CURVES.items()
            if (series := list(_series(rows, columns)))
        ]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, csv.Error, OSError) as error:
        problems.append(f"log.csv cannot be read: {error}")
        return []


def _series(rows: Sequence[dict[str, str]], columns: dict[str, str]) -> Iterator[Plain]:
    for column, name in columns.items():
        points = [
            [int(row["epoch"]), float(row[column])] for row in rows if row.get(column) and isfinite(float(row[column]))
        ]
        if points:
            yield {"name": name, "points": points}


def _certainty(run: Run, model: PixPNet, problems: list[str]) -> Plain | None:
    if model.calibration is None:
        return None
    try:
        scores_by_split = read_scores(run)
    except RunError as error:
        problems.append(str(error))
        return None
    split = "test" if len(scores_by_split.get("test", ())) else "val"
    if split not in scores_by_split:
        return None
    name = "test" if split == "test" else "validation"
    fitted = fitted_to(model.calibration, name)
    table = certainty_table(scores_by_split[split], model.calibration, name, COVERAGE, own_images=fitted)
    return None if table is None else _certainty_facts(table)


def _certainty_facts(table: CertaintyTable) -> Plain:
    sets = table.sets
    return {
        "split": table.split,
        "after": error_words(table.after),
        "before": error_words(table.before),
        "flattered": FITTED_TO_THESE if table.own_images else "",
        "sets": "too few images to calibrate on"
        if sets.too_few
        else f"{percent(sets.held)} of {sets.images} sets hold the true class (wanted {percent(sets.wanted)}), with "
        f"{sets.mean_size:.2f} classes on average",
        "warned": _with_interval(table.warned, table.warned_interval),
    }


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return percent(estimate.mean)
    return f"{percent(estimate.mean)} ({percent(estimate.low)} to {percent(estimate.high)})"


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return ""
    return percent(value) + ("" if interval is None else f" ({percent(interval.low)} to {percent(interval.high)})")


def _doubts(run: Run, problems: list[str]) -> list[Plain]:
    try:
        results = read_doubt(run)
    except RunError as error:
        problems.append(str(error))
        return []
    return [
        {
            "against": result.against.rpartition("/")[2],
            "images": len(result.other_logits),
            "warned": _with_interval(result.warned, result.warned_interval),
            "signs": [
                {
                    "sign": sign.sign,
                    "auroc": sign.reason if sign.auroc is None else f"{sign.auroc.mean:.3f}",
                    "passing": _interval(sign.false_positives),
                }
                for sign in result.signs
            ],
        }
        for result in results
    ]


def _table(run: Run, problems: list[str]) -> Plain | None:
    """Table 2, where this very model was measured."""
    if not (run.path / "measure").is_dir():
        return None
    try:
        table: Table = read_table(run.path)
    except (ValueError, OSError) as error:
        problems.append(str(error))
        return None
    return {
        "split": table.settings.split,
        "samples": table.samples,
        "stale": table.model != run.fingerprint(),
        "rows": [_row(row) for row in table.rows],
        "curves": [
            {"name": row.mapping, "points": list(zip(row.curve.fractions, row.curve.median, strict=True))}
            for row in table.rows
            if row.curve is not None
        ],
    }


def _row(row: MappingRow) -> Plain:
    window = row.window
    return {
        "mapping": row.mapping,
        "consistency": _interval(None if window is None else window.consistency),
        "stability": _interval(None if window is None else window.stability),
        "area": "–" if row.area is None else number(row.area.mean),
        "recovery": _interval(row.recovery),
        "undefined": f"{row.undefined} of {row.pairs}",
    }


def _openings(run: Run, problems: list[str]) -> Sequence[Any]:
    try:
        return run.read_openings()
    except RunError as error:
        problems.append(str(error))
        return ()

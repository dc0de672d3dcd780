"""The table of `docs/results/trust.md`: what runs kept and what `pixpnet measure` found, mean and deviation over seeds.

    python studies/trust.py runs/demo-0 runs/demo-1 runs/demo-2

Nothing is computed but certainty from kept scores, and nothing is opened.
"""

import argparse
from pathlib import Path
from statistics import fmean, stdev

import pixpnet._torchvision  # noqa: F401  isort: skip

from pixpnet.metrics.certainty import certainty_table
from pixpnet.metrics.suite import Table, read_table
from pixpnet.metrics.suite.co12 import co12
from pixpnet.training import Run
from pixpnet.training.kept_scores import read_scores
from pixpnet.views.trust import deciders

Figures = dict[str, float | None]


def of_scores(run: Run) -> Figures:
    """Calibration, sets, false alarms and deciding lists, on the test images whose scores the run kept."""
    kept, known = read_scores(run), run.model().calibration
    scores = kept.get("test")
    if scores is None or known is None:
        return {}
    table = certainty_table(scores, known, "test")
    assert table is not None
    lists = deciders(scores, run.model().num_prototypes)
    return {
        "temperature": known.temperature,
        "its correction": known.correction,
        "calibration error before, %": 100 * table.before.error.mean,
        "calibration error after, %": 100 * table.after.error.mean,
        "sets of 95 % hold the true class, %": 100 * table.sets.held,
        "classes in a set": table.sets.mean_size,
        "false alarms (meant: 5), %": None if table.warned is None else 100 * table.warned,
        "deciding list, right answers": lists.right,
        "deciding list, wrong answers": lists.wrong,
    }


def of_table(table: Table) -> Figures:
    """Every figure of the Co-12 list."""
    return {
        f"{figure.name}{', %' if figure.percent else ''}": (
            None if figure.estimate is None else (100 if figure.percent else 1) * figure.estimate.mean
        )
        for entry in co12(table)
        for figure in entry.figures
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    rows: list[Figures] = []
    for path in parser.parse_args().runs:
        figures = of_scores(Run(path))
        if (path / "measure" / "table.json").exists():
            figures |= of_table(read_table(path))
        rows.append(figures)
    print(f"| figure | mean of {len(rows)} | deviation | each |\n|---|---|---|---|")
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [value for row in rows if (value := row.get(name)) is not None]
        if values:
            spread = f"{stdev(values):.2f}" if len(values) > 1 else ""
            print(f"| {name} | {fmean(values):.2f} | {spread} | {', '.join(f'{value:.2f}' for value in values)} |")


if __name__ == "__main__":
    main()

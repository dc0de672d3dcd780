"""Several measured runs side by side; those that differ in nothing but the seed are one row, mean and deviation."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from pixpnet.config import RunConfig, TrainerOptions, plain_config
from pixpnet.metrics.suite.record import Table, read_table
from pixpnet.model.file import MODEL_FILE
from pixpnet.records import to_plain
from pixpnet.training import Run


@dataclass(frozen=True)
class Spread:
    """Values of several runs.

    Attributes:
        mean: of those that are defined.
        deviation: standard deviation of a sample (n - 1); None for a single one.
        values: how many are defined.
        undefined: how many are not.
    """

    mean: float
    deviation: float | None
    values: int
    undefined: int


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in nothing but their seed, measured in the same way."""

    tables: tuple[Table, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs."""
        return tuple(table.config.seed for table in self.tables)

    @property
    def mappings(self) -> tuple[str, ...]:
        """The mappings that were measured."""
        return self.tables[0].settings.mappings


def compare(runs: Sequence[Path | str]) -> tuple[RunGroup, ...]:
    """Reads the tables of runs and puts together what belongs together.

    Args:
        runs: folders of measured runs, or folders that `measure` wrote to.

    Raises:
        TypeError: if it is one run and no list.
        ValueError: if one was not measured, or its model is not the one that was, or a run is named twice.
    """
    if isinstance(runs, (str, Path)):
        raise TypeError(f"compare takes a list of runs: [{str(runs)!r}, ...]")
    folders = [Path(run) for run in runs]
    tables = [read_table(path) for path in folders]
    for path, table in zip(folders, tables, strict=True):
        if not (path / MODEL_FILE).exists():
            continue
        Run(path).check()
        if Run(path).fingerprint() != table.model:
            raise ValueError(f"the model of {path} is not the one that was measured: pixpnet measure {path}")
    if len({table.model for table in tables}) < len(tables):
        raise ValueError("the same model is named twice: name each run once")
    return group_tables(tables)


def group_tables(tables: Sequence[Table]) -> tuple[RunGroup, ...]:
    """Puts runs together that differ in nothing but their seed, in the order in which they come."""
    groups: dict[str, list[Table]] = {}
    for table in tables:
        key = json.dumps([table.data, plain_config(without_seed(table.config)), to_plain(table.settings)])
        groups.setdefault(key, []).append(table)
    return tuple(RunGroup(tuple(tables_of_group)) for tables_of_group in groups.values())


def spread(values: Sequence[float | None]) -> Spread | None:
    """Mean and deviation of what is defined; None if nothing is.

    >>> spread([1.0, None, 3.0])
    Spread(mean=2.0, deviation=1.4142135623730951, values=2, undefined=1)
    """
    defined = [value for value in values if value is not None]
    if not defined:
        return None
    deviation = stdev(defined) if len(defined) > 1 else None
    return Spread(fmean(defined), deviation, len(defined), len(values) - len(defined))


def without_seed(config: RunConfig) -> RunConfig:
    """What decides a run but for chance: neither the machine nor the number of workers does."""
    return replace(config, seed=0, num_workers=0, trainer=TrainerOptions(precision=config.trainer.precision))

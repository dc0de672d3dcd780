"""The suite: the paper's Table 2 for a run, its curves, and several runs side by side."""

from pixpnet.metrics.suite.comparing import RunGroup, Spread, compare, group_tables, spread
from pixpnet.metrics.suite.measuring import MeasuredFolder, measure
from pixpnet.metrics.suite.record import (
    Accuracy,
    Band,
    ClassDraw,
    DialectFigures,
    DoubtFigures,
    FurtherMeasures,
    MappingRow,
    MeasuredParts,
    MeasureSettings,
    PartFigures,
    Places,
    Table,
    measured_parts,
    plain_table,
    read_table,
    table_from_plain,
)

__all__ = [
    "Accuracy",
    "Band",
    "ClassDraw",
    "DialectFigures",
    "DoubtFigures",
    "FurtherMeasures",
    "MappingRow",
    "MeasureSettings",
    "MeasuredFolder",
    "MeasuredParts",
    "PartFigures",
    "Places",
    "RunGroup",
    "Spread",
    "Table",
    "compare",
    "group_tables",
    "measure",
    "measured_parts",
    "plain_table",
    "read_table",
    "spread",
    "table_from_plain",
]

"""Exact receptive fields of any network: trace a module, one rule for each operation, ask the result."""

from pixpnet.box import Box
from pixpnet.fields.errors import FieldMismatch, UnsupportedOperation
from pixpnet.fields.field import Field
from pixpnet.fields.fields import Fields, UnknownLayer, receptive_fields
from pixpnet.fields.region import Region
from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.sources import Sources

__all__ = [
    "Box",
    "Call",
    "Field",
    "FieldMismatch",
    "Fields",
    "Region",
    "Sources",
    "UnknownLayer",
    "UnsupportedOperation",
    "receptive_fields",
    "rule",
]

"""Frozen records to and from plain values (what JSON and YAML hold), checked field by field.

What comes from a file is not to be trusted: a missing, unknown or mistyped field is an error that says where. Only a
field that was added after files had been written (`ADDED_LATER`) may be missing, and then has its default, or what
earlier versions did where that is something else (`added_later`).
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    Protocol,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from pixpnet.earlier_names import todays_fields
from pixpnet.option_names import option_of

T = TypeVar("T")

# `field(default=..., metadata=ADDED_LATER)`: files of earlier versions do not have it.
ADDED_LATER: Mapping[str, object] = {"added later": True}
_ABSENT = "absent means"
# `field(default=..., metadata=IN_MEMORY)`: says something about the record itself, and is in no file.
IN_MEMORY: Mapping[str, object] = {"in memory": True}


@runtime_checkable
class PlainForm(Protocol):
    """A value of a record that is no record itself and says how it is written and read."""

    def to_plain(self) -> Any:
        """Lists, dictionaries, strings and numbers."""

    @classmethod
    def from_plain(cls, value: Any, where: str) -> Self:
        """What `to_plain` gave.

        Raises:
            BadRecord: if it is not that.
        """


class BadRecord(ValueError):
    """Plain values that are no such record; the message says which field, what came and what was expected."""


def added_later(absent: object) -> Mapping[str, object]:
    """Like `ADDED_LATER`, for a field whose default is not what earlier versions did.

    Args:
        absent: what a file without the field means.
    """
    return {**ADDED_LATER, _ABSENT: absent}


def to_plain(value: object, for_all: bool = False) -> Any:
    """The record as dictionaries, lists, strings and numbers.

    Args:
        value: a record, or anything that fields may hold.
        for_all: leave out fields that were added later and say what their absence says, so that earlier versions read
            it too.

    >>> from pixpnet.box import Box
    >>> to_plain({"box": Box(0, 0, 2, 2)})
    {'box': [0, 0, 2, 2]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = ((field, getattr(value, field.name)) for field in plain_fields(value))
        return {
            field.name: to_plain(item, for_all)
            for field, item in held
            if not (for_all and _is_later(field) and item == _absent(field))
        }
    if isinstance(value, PlainForm):
        return value.to_plain()
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, for_all) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item, for_all) for item in value]
    return value


def to_json(value: object) -> str:
    """Plain values as JSON for people and programs: indented, with a list of numbers on one line.

    >>> print(to_json({"counts": [[1, 2], [3, None]]}))
    {
     "counts": [
      [1, 2],
      [3, null]
     ]
    }
    """
    return _json(value, "\n")


def _json(value: object, line: str) -> str:
    held: list[str] = []
    if isinstance(value, dict):
        held = [f"{json.dumps(key)}: {_json(item, line + ' ')}" for key, item in value.items()]
    elif isinstance(value, list) and not all(item is None or isinstance(item, (int, float)) for item in value):
        held = [_json(item, line + " ") for item in value]
    if not held:
        return json.dumps(value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}{line} {f',{line} '.join(held)}{line}{last}"


def from_plain(kind: type[T], value: object, where: str = "") -> T:
    """Makes a record of a dataclass from plain values.

    Args:
        kind: the dataclass, or any type that its fields may have.
        value: what was read.
        where: what it is, for the message.

    Raises:
        BadRecord: if the values do not fit.

    >>> from pixpnet.settings import Optimization
    >>> from_plain(Optimization, {**to_plain(Optimization()), "lr_rise": 1}).lr_rise
    1.0
    """
    made: T = _read(kind, value, where or getattr(kind, "__name__", str(kind)))
    return made


def filled(kind: type[T], values: dict[str, object]) -> T:
    """A frozen record of all of its fields at once, in their order; nothing is checked.

    The constructor of a frozen dataclass sets field by field through `object.__setattr__`: five times as slow, which
    counts where there are dozens of records for each image. Not for those that check themselves or have slots.

    Args:
        kind: the dataclass.
        values: of the fields; the record keeps this dictionary, so nobody else may.
    """
    record = object.__new__(kind)
    object.__setattr__(record, "__dict__", values)
    return record


def refuse_mistyped(kind: Any, value: object, where: str) -> None:
    """Refuses a value that no field of this type, such as ``tuple[str, ...]``, may have.

    Raises:
        BadRecord: if it does not fit.

    >>> refuse_mistyped(tuple[str, ...], ["a", 1], "edits")
    Traceback (most recent call last):
        ...
    pixpnet.records.BadRecord: edits[1]: expected a value of type str, got 1
    """
    _read(kind, value, where)


def refuse_above(record: object, largest: Mapping[str, int], option: str = "") -> None:
    """Refuses numbers that no machine could carry out, before anything is allocated for them.

    Args:
        record: whose fields are looked at; None is let through.
        largest: the largest value of each.
        option: the group that the fields are in, with a dot.

    Raises:
        ValueError: with the option, what came and what is possible.

    >>> from pixpnet.settings import Optimization
    >>> refuse_above(Optimization(epochs=99), {"epochs": 64}, "optimization.")
    Traceback (most recent call last):
        ...
    ValueError: epochs is at most 64, got 99: choose a smaller --epochs
    """
    for name, most in largest.items():
        value = getattr(record, name)
        if value is not None and value > most:
            raise ValueError(f"{name} is at most {most}, got {value}: choose a smaller {option_of(option + name)}")


def plain_fields(record: Any) -> tuple["dataclasses.Field[Any]", ...]:
    """The fields of a record or its class that are read and written."""
    return tuple(field for field in dataclasses.fields(record) if not IN_MEMORY.items() <= field.metadata.items())


def _read(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _read_record(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, PlainForm):
        return kind.from_plain(value, where)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        # Of several kinds, text is read as text, or as one of some words; the first says what is wrong with all else.
        first = next(argument for argument in arguments if argument is not NoneType)
        words = [argument for argument in arguments if argument is str or get_origin(argument) is Literal]
        return _read(words[0] if words and isinstance(value, str) else first, value, where)
    if origin is Literal:
        if value not in arguments or type(value) not in {type(argument) for argument in arguments}:
            raise _bad(where, value, f"one of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple:
        return _read_tuple(arguments, value, where)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _bad(where, value, "names with values")
        return {
            _read(arguments[0], key, where): _read(arguments[1], item, f"{where}.{key}") for key, item in value.items()
        }
    if isinstance(kind, type) and issubclass(kind, tuple):
        kinds = tuple(_hints(kind).values())
        return kind(*_read_tuple(kinds, value, where))
    if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
        value = float(value)
    if type(value) is not kind or (kind is float and not isfinite(value)):
        raise _bad(where, value, f"a finite {kind.__name__}" if kind is float else f"a value of type {kind.__name__}")
    return value


def _read_record(kind: Any, value: Any, where: str) -> Any:
    names = [field.name for field in plain_fields(kind)]
    needed = {field.name for field in plain_fields(kind) if not _is_later(field)}
    absent = {field.name: field.metadata[_ABSENT] for field in plain_fields(kind) if _ABSENT in field.metadata}
    if isinstance(value, Mapping):
        value = todays_fields(kind.__name__, value)
    if not isinstance(value, Mapping) or not needed <= set(value) <= set(names):
        # Those that do not belong first: of many fields only the first are shown.
        came = sorted(value, key=lambda name: name in names) if isinstance(value, Mapping) else value
        raise _bad(where, came, f"the fields {', '.join(names)}")
    kinds = _hints(kind)
    read = {name: _read(kinds[name], value[name], f"{where}.{name}") for name in names if name in value}
    try:
        return kind(**{**absent, **read})
    except ValueError as error:
        raise BadRecord(f"{where}: {error}") from error


def _is_later(field: "dataclasses.Field[Any]") -> bool:
    return ADDED_LATER.items() <= field.metadata.items()


def _absent(field: "dataclasses.Field[Any]") -> object:
    return field.metadata.get(_ABSENT, field.default)


def _read_tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _bad(where, value, "a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise _bad(where, value, f"{len(kinds)} values")
    return tuple(_read(kind, item, f"{where}[{n}]") for n, (kind, item) in enumerate(zip(kinds, value, strict=True)))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _bad(where: str, value: object, expected: str) -> BadRecord:
    shown = repr(value)
    return BadRecord(f"{where}: expected {expected}, got {shown if len(shown) < 200 else shown[:200] + ' ...'}")

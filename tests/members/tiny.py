"""Any member, made small enough for a test: by the names of fields that settings share, and nothing else."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pixpnet.config import RunConfig
from pixpnet.family import member_named
from pixpnet.training import train

# The largest values for a test, by the names that settings of all members use for the same thing.
_AT_MOST: dict[str, int] = {
    "dim": 8,
    "prototypes_per_class": 4,
    "depth": 3,
    "epochs": 3,
    "pretraining_epochs": 1,
    "warm_up_epochs": 1,
    "batch_size": 8,
    "head_epochs": 1,
    "start": 2,
    "every": 2,
}


def tiny_config(member: str, preset: str, data: Path, **options: Any) -> RunConfig:
    """A run of a member that takes a second or two, on coloured squares."""
    settings: Any = shrunk(member_named(member).preset(preset))
    frozen = settings.optimization.frozen if settings.optimization.frozen in ("", "all") else "stage2"
    settings = replace(settings, optimization=replace(settings.optimization, views=1, frozen=frozen))
    given: dict[str, Any] = {"data": f"folder:{data}", "backbone": "small-21", "size": 32, **options}
    return RunConfig(member=member, settings=settings, **given)


def shrunk(record: Any) -> Any:
    """The record with small numbers wherever it has one of the names above, inner records too."""
    changes: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            changes[field.name] = shrunk(value)
        elif isinstance(value, int) and not isinstance(value, bool) and field.name in _AT_MOST:
            changes[field.name] = min(value, _AT_MOST[field.name])
    return replace(record, **changes)


def run_config(member: str, preset: str, data: Path, folder: Path, **options: Any) -> RunConfig:
    """`tiny_config`, with finished runs in a folder that it builds on, where the member needs any."""
    built_on = member_named(member)
    for role, kinds in (("start", built_on.starts_from), ("teacher", built_on.taught_by)):
        if kinds:
            out = folder / f"{role}-of-{member}"
            assert train(tiny_config(kinds[0], preset, data, **options), out) is not None
            options[role] = str(out)
    return tiny_config(member, preset, data, **options)

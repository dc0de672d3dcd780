"""What options, configuration keys and values were called in earlier versions.

Files that earlier versions wrote (run folders, model files, tables) are translated when they are read, here and nowhere
else. A person who uses an old name on the command line or in a configuration file is told today's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Keys by today's name of the group that they are in; "" for those in none.
KEYS: Mapping[str, Mapping[str, str]] = {
    "": {
        "workers": "num_workers",
        "own_code": "trust_code",
        "judge_on_test": "evaluate_on_test",
        "optimisation": "optimization",
    },
    "optimization": {
        "backbone_rate": "lr_backbone",
        "add_on_rate": "lr_add_on",
        "prototype_rate": "lr_prototypes",
        "head_rate": "lr_head",
        "schedule": "lr_schedule",
        "rise": "lr_rise",
        "step_epochs": "lr_step_epochs",
        "step_factor": "lr_step_factor",
    },
    "trainer": {"accelerator": "device", "devices": "num_devices"},
}
# Values by today's name of their key.
VALUES: Mapping[str, Mapping[str, str]] = {
    "architecture.cells": {"normalised": "normalized"},
    "architecture.start": {"centred": "centered"},
}

# Fields of records in files (explanations, searches), by the name of their class.
FIELDS: Mapping[str, Mapping[str, str]] = {
    "TreePath": {"found": "present"},
    "SearchResult": {"judged": "evaluated"},
}


@dataclass(frozen=True)
class Translation:
    """Plain values of a configuration under today's names.

    Attributes:
        values: the same, renamed.
        renamed: what was renamed: old key, or key and value, to today's, in the order of the file.
    """

    values: dict[Any, Any]
    renamed: Mapping[str, str]


def translate(values: Mapping[Any, Any], group: str = "") -> Translation:
    """Renames what is called otherwise today.

    Args:
        values: of a configuration file, as they were loaded; nothing in them is trusted.
        group: today's name of the group that they are in.

    Raises:
        ValueError: if a key is there under both its names.

    >>> translate({"optimisation": {"epochs": 3, "head_rate": 0.1}}).values
    {'optimization': {'epochs': 3, 'lr_head': 0.1}}
    >>> translate({"architecture": {"cells": "normalised"}}).renamed
    {'architecture.cells: normalised': 'architecture.cells: normalized'}
    """
    today: dict[Any, Any] = {}
    renamed: dict[str, str] = {}
    before = f"{group}." if group else ""
    for name, value in values.items():
        new = KEYS.get(group, {}).get(name, name)
        if new in today or (new != name and new in values):
            raise ValueError(f"{before}{name} and {before}{new} are the same: leave out the first")
        if new != name:
            renamed[f"{before}{name}"] = f"{before}{new}"
        if isinstance(value, Mapping) and not group:
            inside = translate(value, str(new))
            value, renamed = inside.values, {**renamed, **inside.renamed}
        elif isinstance(value, str) and value in VALUES.get(f"{before}{new}", {}):
            value = VALUES[f"{before}{new}"][value]
            renamed[f"{before}{new}: {values[name]}"] = f"{before}{new}: {value}"
        today[new] = value
    return Translation(today, renamed)


def todays_fields(record: str, values: Mapping[Any, Any]) -> dict[Any, Any]:
    """The values of a record with its fields under today's names.

    >>> todays_fields("TreePath", {"leaf": 0, "found": [True]})
    {'leaf': 0, 'present': [True]}
    """
    renamed = FIELDS.get(record, {})
    return {name if renamed.get(name, name) in values else renamed.get(name, name): values[name] for name in values}


def in_earlier_names(values: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    """The same values under the names that the first versions gave them, for digests that must not change.

    >>> in_earlier_names({"optimization": {"lr_rise": 1.0}, "architecture": {"cells": "normalized"}})
    {'optimisation': {'rise': 1.0}, 'architecture': {'cells': 'normalised'}}
    """
    old_keys = {new: old for old, new in KEYS.get(group, {}).items()}
    before = f"{group}." if group else ""
    earlier: dict[str, Any] = {}
    for name, value in values.items():
        old_values = {new: old for old, new in VALUES.get(f"{before}{name}", {}).items()}
        if isinstance(value, Mapping) and not group:
            value = in_earlier_names(value, name)
        elif isinstance(value, str):
            value = old_values.get(value, value)
        earlier[old_keys.get(name, name)] = value
    return earlier

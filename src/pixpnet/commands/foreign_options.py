"""What a configuration file may hold: the options of some records and nothing else."""

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any, get_type_hints

from pixpnet.commands.option_words import is_number_as_text
from pixpnet.records import plain_fields, refuse_mistyped


def refuse_foreign(records: Sequence[Any], values: object, where: str) -> None:
    """Refuses options of a file that no record has, and values of the wrong kind.

    Raises:
        ValueError: with the file, the option and what came.
    """
    kinds = {name: kind for record in records for name, kind in get_type_hints(record).items()}
    names = [field.name for record in records for field in plain_fields(record)]
    if not isinstance(values, dict):
        raise ValueError(f"{where}: expected options such as {', '.join(names[:3])}, got {str(values)[:100]!r}")
    for name, value in values.items():
        if name not in names:
            raise ValueError(f"{where}: there is no option {str(name)[:100]!r}; there are {', '.join(names)}")
        if is_dataclass(kinds[name]):
            refuse_foreign((kinds[name],), value, f"{where}: {name}")
        elif isinstance(value, dict):
            raise ValueError(f"{where}: {name} has no options of its own")
        elif not is_number_as_text(value):
            refuse_mistyped(kinds[name], value, f"{where}: {name}")

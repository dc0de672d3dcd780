"""YAML that somebody else may have written: checked before it is loaded, so that no file takes the process with it.

PyYAML's safe loader runs no code, but its C parser crashes on deep nesting, and a page of aliases stands for more
objects than any machine holds. Configurations need neither.
"""

from pathlib import Path
from typing import Any

import yaml

from pixpnet.whole_file import read_text

# A complete configuration has about 2000 characters and two levels.
_LONGEST = 2**17
_DEEPEST = 20


class BadYaml(yaml.YAMLError):
    """Text that is not loaded; the message says in one line what is wrong with it."""


def check_yaml(text: str) -> None:
    """Refuses what a loader should not see: overlong text, deep nesting, anchors and aliases.

    Raises:
        BadYaml: with the reason.

    >>> check_yaml("seed: 7")
    >>> check_yaml("a: &a 1")
    Traceback (most recent call last):
        ...
    pixpnet.safe_yaml.BadYaml: line 1: anchors and aliases are not read: write the value out
    """
    if len(text) > _LONGEST:
        raise BadYaml(f"{len(text)} characters, at most {_LONGEST} are read")
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = 1 + (event.start_mark.line if event.start_mark else 0)
            if getattr(event, "anchor", None) is not None:
                raise BadYaml(f"line {line}: anchors and aliases are not read: write the value out")
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                depth += 1
                if depth > _DEEPEST:
                    raise BadYaml(f"line {line}: nested more than {_DEEPEST} levels deep, a configuration has two")
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                depth -= 1
    except BadYaml:
        raise
    except (yaml.YAMLError, RecursionError) as error:
        raise BadYaml(" ".join(str(error).split())) from error


def load_yaml(text: str) -> Any:
    """The values of checked text.

    Raises:
        BadYaml: if it is no YAML, or none that is read.
    """
    check_yaml(text)
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadYaml(" ".join(str(error).split())) from error


def read_yaml_text(path: Path) -> str:
    """The text of a file, once it has been checked.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it cannot be used; the message names the file.
    """
    try:
        text = read_text(path, _LONGEST)
        check_yaml(text)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return text

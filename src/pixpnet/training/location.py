"""Where the data set of a run lies, so that it is found from any folder, and after the project was moved.

A configuration says `folder:photos`, which is true in one folder only. Beside it a run keeps `location.json`: the
absolute path that this was when the run began, and the path from the run's own folder. It decides nothing about the
run, so it is no part of its manifest, and a run without it (of an earlier version, or drawn birds) is none the worse.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from pixpnet.config import RunConfig, is_given
from pixpnet.data.registry import parse_spec
from pixpnet.records import BadRecord, from_plain, to_plain
from pixpnet.whole_file import read_text, written_whole

LOCATION_FILE = "location.json"
_LARGEST = 2**16


@dataclass(frozen=True)
class Location:
    """Where a data set was when a run began.

    Attributes:
        data: its name in the configuration; a configuration that names another one is not meant.
        absolute: its folder, from the root.
        from_run: its folder, from the folder of the run.
    """

    data: str
    absolute: str
    from_run: str


def keep_location(run: Path, config: RunConfig) -> None:
    """Writes down where the data set of a new run lies."""
    spec = parse_spec(config.data)
    if config.data == spec.kind or is_given(config.data):  # drawn, or an object, and nowhere
        return
    absolute = spec.path.resolve()
    location = Location(config.data, str(absolute), os.path.relpath(absolute, run.resolve()))
    with written_whole(run / LOCATION_FILE) as temporary:
        temporary.write_text(json.dumps(to_plain(location), indent=1), encoding="utf-8", errors="surrogateescape")


def located(config: RunConfig, run: Path) -> RunConfig:
    """The configuration with the name under which its data set is found now; as it is where it is found nowhere.

    The absolute path is tried first, because a relative one may lead to another folder from here.
    """
    location = _read(run)
    if location is None or location.data != config.data:
        return config
    kind = parse_spec(config.data).kind
    for folder in (Path(location.absolute), run / location.from_run):
        if folder.is_dir():
            return replace(config, data=f"{kind}:{folder.resolve()}")
    return config


def last_seen(config: RunConfig, run: Path) -> str:
    """Where the data set was, for the message that it is not there; "" where that is not known."""
    location = _read(run)
    return "" if location is None or location.data != config.data else location.absolute


def _read(run: Path) -> Location | None:
    """What was written down; nothing where it cannot be read, since it only helps to find what is named elsewhere."""
    try:
        return from_plain(Location, json.loads(read_text(run / LOCATION_FILE, _LARGEST)), LOCATION_FILE)
    except (OSError, ValueError, BadRecord, RecursionError):
        return None

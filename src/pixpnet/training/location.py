"""Where the data set and the weights of a run lie, so that they are found from any folder, and after a move.

A configuration says `folder:photos`, which is true in one folder only. Beside it a run keeps `location.json`: the
absolute path that this was when the run began, and the path from the run's own folder; the same for a file of weights,
which is read again when the run is resumed. It decides nothing about the
run, so it is no part of its manifest, and a run without it (of an earlier version, or drawn birds) is none the worse.
"""

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from pixpnet.config import RunConfig, is_given
from pixpnet.data.registry import parse_spec
from pixpnet.records import ADDED_LATER, BadRecord, from_plain, to_plain
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
        weights: the file of weights in the configuration; "" where there is none.
        weights_absolute: that file, from the root.
        weights_from_run: that file, from the folder of the run.
    """

    data: str
    absolute: str
    from_run: str
    weights: str = field(default="", metadata=ADDED_LATER)
    weights_absolute: str = field(default="", metadata=ADDED_LATER)
    weights_from_run: str = field(default="", metadata=ADDED_LATER)


def keep_location(run: Path, config: RunConfig) -> None:
    """Writes down where the data set and the weights of a new run lie."""
    spec = parse_spec(config.data)
    nowhere = config.data == spec.kind or is_given(config.data)  # drawn, or an object
    weights = _weights_file(config)
    if nowhere and weights is None:
        return
    location = Location(
        config.data,
        *(("", "") if nowhere else _two_paths(spec.path, run)),
        config.weights if config.weights is not None and weights is not None else "",
        *(("", "") if weights is None else _two_paths(weights, run)),
    )
    with written_whole(run / LOCATION_FILE) as temporary:
        temporary.write_text(json.dumps(to_plain(location), indent=1), encoding="utf-8", errors="surrogateescape")


def located(config: RunConfig, run: Path) -> RunConfig:
    """The configuration with the name under which its data set is found now; as it is where it is found nowhere.

    The absolute path is tried first, because a relative one may lead to another folder from here.
    """
    location = _read(run)
    if location is None or location.data != config.data or not location.absolute:
        return config
    kind = parse_spec(config.data).kind
    for folder in (Path(location.absolute), run / location.from_run):
        if folder.is_dir():
            return replace(config, data=f"{kind}:{folder.resolve()}")
    return config


def located_weights(config: RunConfig, run: Path) -> RunConfig:
    """Like `located`, for the file of weights: the one that the run began with, wherever a command is called."""
    location = _read(run)
    if location is None or not location.weights or location.weights != config.weights:
        return config
    for file in (Path(location.weights_absolute), run / location.weights_from_run):
        if file.is_file():
            return replace(config, weights=str(file.resolve()))
    return config


def last_seen(config: RunConfig, run: Path) -> str:
    """Where the data set was, for the message that it is not there; "" where that is not known."""
    location = _read(run)
    return "" if location is None or location.data != config.data else location.absolute


def _weights_file(config: RunConfig) -> Path | None:
    """The file of weights; None where they are downloaded or random."""
    file = Path(config.weights or "").expanduser()
    return file if config.weights not in (None, "none", "imagenet") and file.is_file() else None


def _two_paths(path: Path, run: Path) -> tuple[str, str]:
    absolute = path.resolve()
    return str(absolute), os.path.relpath(absolute, run.resolve())


def _read(run: Path) -> Location | None:
    """What was written down; nothing where it cannot be read, since it only helps to find what is named elsewhere."""
    try:
        return from_plain(Location, json.loads(read_text(run / LOCATION_FILE, _LARGEST)), LOCATION_FILE)
    except (OSError, ValueError, BadRecord, RecursionError):
        return None

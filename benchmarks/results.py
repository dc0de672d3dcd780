"""Results of benchmarks as one JSON file, for `benchmarks/compare.py`: a line for each figure, one schema for all.

    {"schema": 1, "results": [
      {"benchmark": "training", "name": "120 prototypes", "value": 1.02, "noise": 0.01, "unit": "ratio",
       "better": "smaller"}
    ]}

Every benchmark takes `--json FILE`; a file that is there gets the figures of this benchmark anew and keeps those of
others, so that `make bench JSON=new.json` gathers all of them. A figure is smaller when it is better; where it is not
(`"better": "larger"`), the line says so. The noise is half of the distance between the quartiles of repeated
measurements, in the unit of the value; 0 where there was one.
"""

import argparse
import atexit
import json
from dataclasses import asdict, dataclass
from pathlib import Path

SCHEMA = 1
BETTER = ("smaller", "larger")


class BadResults(ValueError):
    """A file that holds no results of benchmarks; the message says what is wrong with it."""


@dataclass(frozen=True)
class Result:
    """One figure.

    Attributes:
        benchmark: the file that measured it, without its ending.
        name: of the figure, the same in every run.
        value: what was measured.
        noise: half of the distance between the quartiles of repeated measurements.
        unit: of the value.
        better: `smaller` or `larger`.
    """

    benchmark: str
    name: str
    value: float
    noise: float = 0.0
    unit: str = "ratio"
    better: str = "smaller"


_measured: list[Result] = []


def record(
    benchmark: str, name: str, value: float, noise: float = 0.0, unit: str = "ratio", better: str = "smaller"
) -> None:
    """Notes a figure for `write`; of two with one name the last counts."""
    _measured[:] = [result for result in _measured if (result.benchmark, result.name) != (benchmark, name)]
    _measured.append(Result(benchmark, name, float(value), float(noise), unit, better))


def arguments_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parses the command line with `--json FILE` added: what was noted is written there when the process ends."""
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures there too; those of other benchmarks stay"
    )
    arguments = parser.parse_args()
    if arguments.json is not None:
        read_if_there(arguments.json)  # says now, and not after minutes, that it is no such file
        atexit.register(write, arguments.json)
    return arguments


def write(path: Path) -> None:
    """Writes what was noted, beside what a file holds of other figures."""
    measured = {(result.benchmark, result.name) for result in _measured}
    others = [result for result in read_if_there(path) if (result.benchmark, result.name) not in measured]
    content = {"schema": SCHEMA, "results": [asdict(result) for result in (*others, *_measured)]}
    beside = path.with_name(f"{path.name}.part")
    beside.write_text(json.dumps(content, indent=1) + "\n")
    beside.replace(path)


def read_if_there(path: Path) -> list[Result]:
    """The figures of a file; none where it is not there yet."""
    return read(path) if path.exists() else []


def read(path: Path) -> list[Result]:
    """The figures of a file.

    Raises:
        BadResults: if it is not there, no JSON, of another schema, or a line is not as it should be.
    """
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise BadResults(f"{path}: {error.strerror}: measure it with `make bench JSON={path}`") from error
    except ValueError as error:
        raise BadResults(f"{path} is no JSON ({error}): measure it again with `make bench JSON={path}`") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or not isinstance(content.get("results"), list):
        raise BadResults(f'{path} holds no results of benchmarks: expected {{"schema": {SCHEMA}, "results": [...]}}')
    return [_result(line, f"{path}, result {number}") for number, line in enumerate(content["results"], start=1)]


def _result(line: object, where: str) -> Result:
    try:
        result = Result(**line)  # type: ignore[arg-type]
    except TypeError as error:
        raise BadResults(f"{where}: {error}") from error
    texts, numbers = (result.benchmark, result.name, result.unit), (result.value, result.noise)
    if not all(isinstance(text, str) for text in texts) or result.better not in BETTER:
        raise BadResults(f"{where}: benchmark, name and unit are texts, better is one of {BETTER}, got {line}")
    if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        raise BadResults(f"{where}: value and noise are numbers, got {line}")
    return result

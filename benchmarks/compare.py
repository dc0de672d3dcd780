"""Compares two files of results of benchmarks: which figures got worse by more than their noise?

    make bench JSON=old.json          # before a change
    make bench JSON=new.json          # after it
    make bench-compare OLD=old.json NEW=new.json

Shows old / new for each figure (above 1: better now, whichever way the figure counts) and marks those that changed by
more than three times the noise of both, and by more than 3 %. The exit code is 1 where anything got worse, and 2 where
a file cannot be read. Figures of the two files are comparable where they were measured on one machine; ratios within a
run also roughly between machines.
"""

import argparse
import sys
from dataclasses import dataclass
from math import hypot
from pathlib import Path

from results import BadResults, Result, read

TIMES_NOISE, LEAST_CHANGE = 3.0, 0.03


@dataclass(frozen=True)
class Change:
    """One figure in both files.

    Attributes:
        old: as it was.
        new: as it is.
        ratio: old over new where smaller is better, else new over old; above 1 is better.
        verdict: `worse`, `better` or "" where noise may have done it.
    """

    old: Result
    new: Result
    ratio: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """Two files: figures of both in the order of the new one, and the names of those that one of them lacks."""

    changes: list[Change]
    gone: list[str]
    added: list[str]

    @property
    def worse(self) -> list[Change]:
        """What got worse by more than its noise."""
        return [change for change in self.changes if change.verdict == "worse"]


def change_between(old: Result, new: Result) -> Change:
    """What became of one figure."""
    first, second = (old.value, new.value) if new.better == "smaller" else (new.value, old.value)
    ratio = first / second if second else (1.0 if first == second else float("inf"))
    difference = abs(new.value - old.value)
    threshold = max(TIMES_NOISE * hypot(old.noise, new.noise), LEAST_CHANGE * abs(old.value))
    grew = new.value > old.value
    verdict = "" if difference <= threshold else "worse" if grew == (new.better == "smaller") else "better"
    return Change(old, new, ratio, verdict)


def compare(old: list[Result], new: list[Result]) -> Comparison:
    """Puts the figures of two files side by side; those whose unit or sense changed count as others."""
    before, after = ({_key(result): result for result in results} for results in (old, new))
    return Comparison(
        [change_between(before[key], result) for key, result in after.items() if key in before],
        [" / ".join(key[:2]) for key in before if key not in after],
        [" / ".join(key[:2]) for key in after if key not in before],
    )


def _key(result: Result) -> tuple[str, str, str, str]:
    return result.benchmark, result.name, result.unit, result.better


def lines(comparison: Comparison) -> list[str]:
    """The comparison as text."""
    width = max([len(change.new.name) for change in comparison.changes], default=0)
    text = [f"{'':12s} {'':{width}s} {'old':>10s} {'new':>10s} {'old/new':>8s}"]
    for change in comparison.changes:
        old, new = change.old, change.new
        mark = {"worse": "  SLOWER" if new.better == "smaller" else "  WORSE", "better": "  better"}.get(
            change.verdict, ""
        )
        text.append(
            f"{new.benchmark:12s} {new.name:{width}s} {old.value:10.4g} {new.value:10.4g} {change.ratio:8.3f} "
            f"{new.unit}{mark}"
        )
    text += [f"only in the old file: {name}" for name in comparison.gone]
    text += [f"only in the new file: {name}" for name in comparison.added]
    worse = len(comparison.worse)
    text.append(f"{len(comparison.changes)} figures in both files, {worse} got worse by more than their noise")
    return text


def main() -> int:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    arguments = parser.parse_args()
    try:
        comparison = compare(read(arguments.old), read(arguments.new))
    except BadResults as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(lines(comparison)))
    return 1 if comparison.worse else 0


if __name__ == "__main__":
    raise SystemExit(main())

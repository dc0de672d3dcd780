"""Contestants measured in turns, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable

from results import record


def ratios(contestants: dict[str, Callable[[], object]], rounds: int, recorded_as: str = "") -> dict[str, float]:
    """Median time of each, over that of the first within the same round.

    Args:
        contestants: what is measured, by name.
        rounds: how often.
        recorded_as: the benchmark, and what all names begin with, as `benchmark: beginning`; their figures and noise
            are then noted for `--json`.
    """
    for work in contestants.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    # The order turns, so that nobody always comes after the same one.
    order = list(contestants)
    for _ in range(rounds):
        order = [*order[1:], order[0]]
        for name in order:
            start = time.process_time()
            contestants[name]()
            taken[name].append(time.process_time() - start)
    base = next(iter(contestants))
    result = {}
    for name, times in taken.items():
        within = [mine / first for mine, first in zip(times, taken[base], strict=True)]
        result[name] = statistics.median(within)
        if recorded_as and name != base:
            benchmark, _, beginning = recorded_as.partition(": ")
            record(benchmark, f"{beginning}{name}", result[name], noise(within))
    return result


def noise(values: list[float]) -> float:
    """Half of the distance between the quartiles; 0 of a single value.

    >>> noise([1.0, 2.0, 3.0, 4.0, 5.0])
    1.0
    """
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2

"""Contestants measured in turns, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable


def ratios(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median time of each, over that of the first within the same round."""
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
    first = taken[next(iter(contestants))]
    return {
        name: statistics.median(mine / base for mine, base in zip(times, first, strict=True))
        for name, times in taken.items()
    }

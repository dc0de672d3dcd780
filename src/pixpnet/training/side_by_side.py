"""Many small forward passes on all cores: as many at a time as torch has threads, each by one of them.

Two passes side by side on one thread each take less time than one after the other on two threads: nobody waits for the
other thread at every operation, and reading and augmenting images, which have one thread, go on beside. And a pass has
the bits of one thread, however many there are.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
_AHEAD = 2  # results that may wait for their turn, for each thread


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], device: torch.device | str = "cpu"
) -> Generator[Result]:
    """The results of some work on each item, in order. Whoever may stop early closes it.

    Args:
        work: may be called by several threads at the same time, each of which has one thread of torch's.
        items: what it is done on.
        device: where it computes; what is not the CPU gets one thing at a time.

    >>> list(side_by_side(lambda number: 2 * number, [1, 2, 3]))
    [2, 4, 6]
    """
    threads = torch.get_num_threads()
    if torch.device(device).type != "cpu" or threads == 1 or len(items) < 2:
        yield from map(work, items)
        return
    with _one_thread_each(), ThreadPoolExecutor(threads, "pixpnet-pass") as pool:
        running: deque[Future[Result]] = deque()
        try:
            for item in items:
                running.append(pool.submit(work, item))
                if len(running) > _AHEAD * threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Lets every thread that begins now compute by itself."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

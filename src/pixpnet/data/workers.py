"""How many processes load images where nobody says: as many as keep a GPU busy, and none where none would help.

One process reads and augments some 300 to 450 photographs a second at 224 pixels (`benchmarks/loading.py`), and one GPU
takes 1,000 to 3,000 a second of a small backbone. So each GPU gets the cores that are its share, less the one that
drives it, and no more than eight, beyond which memory grows and the GPU waits no less. On a CPU the same cores train
and load: processes beside the training would only take turns with it. Where the features of a frozen backbone are
kept, epochs read no images at all.
"""

import os

from pixpnet.config import NumWorkers

MOST_WORKERS = 8


def num_workers_for(wanted: NumWorkers, device: str, processes: int = 1, reads_images: bool = True) -> int:
    """How many processes load images beside each process that trains or evaluates.

    Args:
        wanted: a number, or auto.
        device: the kind of device that runs the network, such as cpu or cuda.
        processes: that train on this machine together, and share its cores.
        reads_images: whether epochs read images, and not kept features.

    >>> num_workers_for("auto", "cpu"), num_workers_for(3, "cpu")
    (0, 3)
    """
    if wanted != "auto":
        return wanted
    if device == "cpu" or not reads_images:
        return 0
    return min(MOST_WORKERS, max(1, usable_cores() // processes - 1))


def usable_cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

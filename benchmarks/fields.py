"""What the fields of all layers cost, as a ratio to one forward pass of the same network in the same run.

One thread, CPU time, the median over interleaved rounds: these ratios are what the README states. Memory is
what the process holds beyond torch and the network at its largest, measured by tracemalloc for Python and
NumPy, which is where the engine keeps everything.

    python benchmarks/fields.py [--quick]
"""

import argparse
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from pixpnet import receptive_fields, zoo
from results import arguments_of, record

# Network, input size, the most that it may cost in forward passes.
LIMITS = [
    ("vgg16", 224, 0.1),
    ("resnet50", 224, 1.5),
    ("densenet201", 224, 3.0),
    ("swin_t", 224, 2.0),
    ("densenet201", 512, 3.0),
]
MEMORY_LIMIT = 50.0
GROWTH = [("resnet50", size) for size in (112, 224, 448, 896)] + [
    (name, 224) for name in ("resnet18", "resnet34", "resnet101", "resnet152")
]


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def fields_and_means(model: torch.nn.Module, size: int) -> None:
    """The job: fields and both mean fractions of every layer."""
    for field in receptive_fields(model, (3, size, size)).values():
        _ = field.mean_fraction, field.mean_fraction_union


def measure(name: str, size: int, rounds: int) -> tuple[float, float, float]:
    """Median seconds of the fields and of a forward pass, interleaved, and the engine's memory in MB."""
    model = zoo.build(name)
    image = torch.randn(1, 3, size, size)
    forward, fields = [], []
    with torch.no_grad():
        model(image)
        fields_and_means(model, size)
        for _ in range(rounds):
            forward.append(seconds(lambda: model(image)))
            fields.append(seconds(lambda: fields_and_means(model, size)))
    tracemalloc.start()
    fields_and_means(model, size)
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return statistics.median(fields), statistics.median(forward), memory


def main() -> int:
    """Prints the tables; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if arguments_of(parser).quick else 9
    torch.set_num_threads(1)
    console = Console(width=110)
    missed = False
    table = Table(title="Fields and mean fractions of all layers, in forward passes of the same network")
    for column in ("network", "input", "layers", "fields / forward", "at most", "memory"):
        table.add_column(column, justify="left" if column == "network" else "right")
    for name, size, limit in LIMITS:
        spent, forward, memory = measure(name, size, rounds)
        ratio = spent / forward
        missed |= ratio > limit or memory > MEMORY_LIMIT
        record("fields", f"{name}, {size} px", ratio)
        layers = str(len(receptive_fields(name, (3, size, size))))
        table.add_row(name, f"{size} x {size}", layers, f"{ratio:.3f}", f"{limit:g}", f"{memory:.1f} MB")
    console.print(table)
    growth = Table(title="How the cost grows with the input and with depth")
    for column in ("network", "input", "layers", "fields / forward", "ms", "memory"):
        growth.add_column(column, justify="left" if column == "network" else "right")
    for name, size in GROWTH:
        spent, forward, memory = measure(name, size, max(3, rounds // 3))
        layers = str(len(receptive_fields(name, (3, size, size))))
        growth.add_row(
            name, f"{size} x {size}", layers, f"{spent / forward:.3f}", f"{1000 * spent:.0f}", f"{memory:.1f} MB"
        )
    console.print(growth)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

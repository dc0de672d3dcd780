"""Images per second and core: reading and augmenting (App. E), against a plain Pillow + torchvision pipeline.

    python benchmarks/loading.py cub:../shared/data/cub12

Everything is measured in one run, on one thread, in processor time, in turns over the same files, so that a
busy machine slows all contestants alike. The median over the rounds is shown.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

# First, because it makes torchvision importable beside a CPU-only torch.
import pixpnet._torchvision  # noqa: F401  isort: skip

import cv2
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from pixpnet.data import (
    Augmentation,
    DataError,
    Entry,
    augment,
    draw,
    open_data,
    preprocess,
    stock_pipeline,
    view_generator,
)
from pixpnet.data.reader import CachedReader

WANTED = 3.5


def main() -> int:
    """Measures and prints a table; the exit code says whether the wanted ratio was reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="cub:../shared/data/cub12")
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    torch.manual_seed(0)
    try:
        data = open_data(arguments.data)
    except DataError as error:
        print(f"nothing to measure: {error}")
        return 2
    entries = data.train[:: max(1, len(data.train) // arguments.images)][: arguments.images]
    preprocessing, augmentation = data.preprocessing, Augmentation()
    stock = stock_pipeline(preprocessing, augmentation, InterpolationMode.NEAREST)
    smooth = stock_pipeline(preprocessing, augmentation)
    cached = CachedReader(data.reader, 2**31)
    views = iter(range(1_000_000_000))

    def read_with_pillow(entry: Entry) -> Image.Image:
        assert entry.path is not None
        with Image.open(entry.path) as image:
            return image.convert("RGB")

    def fused(entry: Entry, read: Callable[[Entry], object]) -> object:
        choices = draw(augmentation, view_generator(0, 0, next(views)))
        return augment(read(entry), choices, preprocessing, augmentation)

    plain = "Pillow + torchvision, augmented"
    ours = "pixpnet, augmented"
    contestants: dict[str, Callable[[Entry], object]] = {
        plain: lambda entry: stock(read_with_pillow(entry)),
        "the same, bilinear throughout": lambda entry: smooth(read_with_pillow(entry)),
        "the same on uint8 tensors": lambda entry: stock(F.pil_to_tensor(read_with_pillow(entry))),
        ours: lambda entry: fused(entry, data.reader),
        "pixpnet, augmented, from the cache": lambda entry: fused(entry, cached),
        "pixpnet, test time": lambda entry: preprocess(data.reader(entry), preprocessing),
        "decoding alone, Pillow": read_with_pillow,
        "decoding alone, pixpnet": data.reader,
    }
    for work in contestants.values():
        for entry in entries:
            work(entry)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(arguments.rounds):
        for name, work in contestants.items():
            start = time.process_time()
            for entry in entries:
                work(entry)
            rates[name].append(len(entries) / (time.process_time() - start))
    print(f"{data.name}: {len(entries)} images, {arguments.rounds} rounds, one thread")
    print(f"{'':42} images/s   ratio")
    middle = {name: statistics.median(values) for name, values in rates.items()}
    for name, rate in middle.items():
        print(f"{name:42} {rate:8.0f} {rate / middle[plain]:7.2f}")
    ratio = middle[ours] / middle[plain]
    print(f"wanted: at least {WANTED}; reached: {ratio:.2f}")
    return 0 if ratio >= WANTED else 1


if __name__ == "__main__":
    raise SystemExit(main())

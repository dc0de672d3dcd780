"""Images per second and core: reading and augmenting (App. E), against a plain Pillow + torchvision pipeline.

    python benchmarks/loading.py cub:../shared/data/cub12
    python benchmarks/loading.py --large 8

Everything is measured in one run, on one thread, in processor time, in turns over the same files, so that a
busy machine slows all contestants alike. The median over the rounds is shown. Then, how much memory the images take
that a run keeps: all of each file, and what is needed of it. With `--large`, files are JPEGs of 4000 x 3000 pixels,
and no ratio is wanted.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

# First, because it makes torchvision importable beside a CPU-only torch.
import pixpnet._torchvision  # noqa: F401  isort: skip

import cv2
import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from pixpnet.data import (
    Augmentation,
    DataError,
    DataSet,
    Entry,
    augment,
    draw,
    open_data,
    preprocess,
    stock_pipeline,
    view_generator,
)
from pixpnet.data.keeping import KeepingReader, MemoryStore, bytes_of, for_augmented_views, for_plain_views
from results import arguments_of, record
from side_by_side import noise

WANTED = 3.5
LARGE = (3000, 4000)


def photographs(folder: Path, number: int) -> str:
    """Large JPEG files of two classes, and how a data set of them is named."""
    generator = np.random.default_rng(0)
    for index in range(number):
        coarse = generator.integers(0, 256, (60, 80, 3), np.uint8)
        path = folder / ("jay", "wren")[index % 2] / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), cv2.resize(coarse, LARGE[::-1], interpolation=cv2.INTER_CUBIC))
    return f"folder:{folder}"


def print_kept(data: DataSet, entries: Sequence[Entry], size: int) -> None:
    """Prints the memory of kept images, for networks of an input size."""
    preprocessing, augmentation = data.preprocessing.scaled_to(size), Augmentation()
    trained_on, validated_on = MemoryStore(2**40), MemoryStore(2**40)
    reader = KeepingReader(data.reader, trained_on)
    augmented, plain = for_augmented_views(reader, preprocessing, augmentation), for_plain_views(reader, preprocessing)
    plain_alone = for_plain_views(KeepingReader(data.reader, validated_on), preprocessing)
    whole = 0
    for entry in entries:
        whole += bytes_of(data.reader(entry))
        augmented(entry)
        plain(entry)
        plain_alone(entry)
    kilobytes = {"files": whole, "training images": trained_on.used, "validation images": validated_on.used}
    listed = ", ".join(f"{name} {number / len(entries) / 1e3:.0f}" for name, number in kilobytes.items())
    print(f"kept for {size} pixels, kB an image: {listed}")


def main() -> int:
    """Measures and prints a table; the exit code says whether the wanted ratio was reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="cub:../shared/data/cub12")
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=int, metavar="N", help="files of 4000 x 3000 pixels, made for this")
    arguments = arguments_of(parser)
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.large is not None:
            arguments.data = photographs(Path(scratch), arguments.large)
        return measured(arguments)


def measured(arguments: argparse.Namespace) -> int:
    """Does what `main` says."""
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
    cached = for_augmented_views(KeepingReader(data.reader, MemoryStore(2**31)), preprocessing, augmentation)
    whole = KeepingReader(data.reader, MemoryStore(2**31))
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
        "the same, with all of each file kept": lambda entry: fused(entry, whole),
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
        against = [one / other for one, other in zip(rates[name], rates[plain], strict=True)]
        record("loading", name, rate / middle[plain], noise(against), better="larger")
    for size in (preprocessing.size, 384):
        print_kept(data, entries, size)
    if arguments.large is not None:
        return 0
    ratio = middle[ours] / middle[plain]
    print(f"wanted: at least {WANTED}; reached: {ratio:.2f}")
    return 0 if ratio >= WANTED else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""How fast birds are drawn, on one thread, against two yardsticks measured in the same run.

The yardsticks, both at 96 x 96: decoding a JPEG file with Pillow, which is what a stored picture would cost,
and a bird of five ellipses painted by Pillow at four times the size and reduced, without masks or background.
"""

import argparse
import io
import time
from collections.abc import Callable
from statistics import median

import cv2
import numpy as np
from PIL import Image, ImageDraw

from pixpnet.data.birds import SPECIES, draw_bird
from results import arguments_of, record
from side_by_side import noise

ROUNDS = 9
IMAGES = 60


def main() -> None:
    """Print images per second of CPU time, and ratios."""
    arguments_of(argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter))
    cv2.setNumThreads(1)
    file = io.BytesIO()
    Image.fromarray(draw_bird(0, 0, 0).image).save(file, "JPEG", quality=90)
    jobs: dict[str, Callable[[int], object]] = {
        "draw_bird, 96 x 96, masks included": lambda index: draw_bird(0, index, index % len(SPECIES)),
        "draw_bird, 224 x 224, masks included": lambda index: draw_bird(0, index, index % len(SPECIES), (224, 224)),
        "Pillow, decode a 96 x 96 JPEG": lambda index: np.asarray(Image.open(file).convert("RGB")),
        "Pillow, five ellipses at 4 x, reduced": lambda index: _five_ellipses(index),
    }
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            start = time.process_time()
            for index in range(IMAGES):
                job(index)
            seconds[name].append((time.process_time() - start) / IMAGES)
    ours = median(seconds["draw_bird, 96 x 96, masks included"])
    heading = f"one thread, CPU time, median of {ROUNDS} rounds"
    print(f"{heading:45}{'images/s':>10}{'time / ours':>13}")
    for name, values in seconds.items():
        print(f"{name:45}{1 / median(values):10.0f}{median(values) / ours:13.2f}")
        if name.startswith("Pillow"):
            record("birds", name, median(values) / ours, noise([value / ours for value in values]), better="larger")


def _five_ellipses(index: int) -> np.ndarray:
    image = Image.new("RGB", (384, 384), (150, 190, 220))
    pen = ImageDraw.Draw(image)
    shift = index % 20
    for box, color in (
        ((90, 150, 290, 290), (120, 100, 80)),
        ((220, 90, 320, 190), (120, 100, 80)),
        ((100, 170, 230, 250), (90, 70, 60)),
        ((280, 120, 296, 136), (20, 20, 20)),
        ((310, 130, 360, 150), (230, 160, 60)),
    ):
        pen.ellipse([value + shift for value in box], fill=color)
    return np.asarray(image.reduce(4))


if __name__ == "__main__":
    main()

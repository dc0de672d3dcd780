"""What stands in for what cannot be had in a test: a reader's own photographs, and somebody who ends a server."""

import socket
import threading
from pathlib import Path

import numpy as np
import uvicorn
from PIL import Image


def draw(folder: Path, count: int, seed: int) -> None:
    """Pictures of three classes, no two alike."""
    random = np.random.default_rng(seed)
    for name, color in (("jay", (40, 60, 200)), ("wren", (150, 90, 40)), ("robin", (200, 60, 40))):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(90, 130, (40, 48, 3), dtype=np.uint8)
            y, x = random.integers(2, 20, 2)
            pixels[y : y + 16, x : x + 16] = color
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def stop_when_open(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Ends a page that would be served until Ctrl-C, as soon as the run's images are open."""
    for thread in threading.enumerate():
        if thread.name == "pixpnet-data":
            thread.join()

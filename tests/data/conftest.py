"""Real images are used where present."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CUB12 = Path(os.environ.get("PIXPNET_CUB12") or Path(__file__).parents[2] / "../shared/data/cub12")


@pytest.fixture
def cub12() -> Path:
    if not (CUB12 / "images.txt").is_file():
        pytest.skip("the 12-class CUB subset is not at ../shared/data/cub12; set PIXPNET_CUB12 to its folder")
    return CUB12


@pytest.fixture
def save_noise() -> Callable[..., Path]:
    """Writes a picture that no other seed gives; returns its path."""

    def save(path: Path, seed: int, size: tuple[int, int] = (40, 50)) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        return path

    return save


@pytest.fixture
def jays_and_wrens(tmp_path: Path, save_noise: Callable[..., Path]) -> Path:
    """A pool of two classes with ten images each."""
    for label, name in enumerate(("jay", "wren")):
        for number in range(10):
            save_noise(tmp_path / "pool" / name / f"{number}.png", 100 * label + number)
    return tmp_path / "pool"

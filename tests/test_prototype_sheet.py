"""The sheet of prototypes: every picture in its place."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pixpnet.box import Box
from pixpnet.model import Origin
from pixpnet.views.prototype_sheet import prototype_sheet


def origin(prototype: int, label: int) -> Origin:
    return Origin(prototype, label, "a", 0, 0, (Box(0, 0, 4, 4),), (1, 0, 0, 0, 1, 0, 0, 0, 1), 0.0, "image")


def test_each_class_has_a_column_with_its_own_pictures(tmp_path: Path) -> None:
    origins = [origin(number, number // 2) for number in range(4)]
    for number in range(4):
        Image.new("RGB", (4, 4), (10 * number, 0, 0)).save(tmp_path / f"{number}.png")
    sheet = prototype_sheet(("jay", "wren"), origins, tmp_path)
    axes = np.array(sheet.axes).reshape(2, 2)
    assert [axis.get_title() for axis in axes[0]] == ["jay", "wren"]
    reds = [[int(axis.images[0].get_array()[0, 0, 0]) for axis in row] for row in axes]
    assert reds == [[0, 20], [10, 30]]


def test_a_missing_picture_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        prototype_sheet(("jay", "wren"), [origin(0, 0), origin(1, 1)], tmp_path)

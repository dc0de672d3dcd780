from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from pixpnet.data import DataError, guess_spec, open_data
from pixpnet.data.cars import cars_catalog

SaveNoise = Callable[..., Path]
FIELDS = [
    ("bbox_x1", "O"),
    ("bbox_y1", "O"),
    ("bbox_x2", "O"),
    ("bbox_y2", "O"),
    ("class", "O"),
    ("fname", "O"),
]


@pytest.fixture
def cars(tmp_path: Path, save_noise: SaveNoise) -> Path:
    root = tmp_path / "stanford_cars"
    (root / "devkit").mkdir(parents=True)
    names = np.array(["AM General Hummer SUV 2000", "Acura RL Sedan 2012"], dtype=object)
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": names[None]})
    for split, file in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        rows = np.zeros((1, 4), dtype=FIELDS)
        for number in range(4):
            rows[0, number] = (3, 5, 30, 40, 1 + number % 2, f"{number:05d}.jpg")
            save_noise(root / f"cars_{split}" / f"{number:05d}.jpg", number + (10 if split == "test" else 0))
        savemat(root / file, {"annotations": rows})
    return tmp_path


def test_files_labels_and_names_are_torchvisions(cars: Path) -> None:
    from torchvision.datasets import StanfordCars

    catalog = cars_catalog(cars)
    for split in ("train", "test"):
        expected = StanfordCars(cars, split=split)
        ours = [(str(entry.path), entry.label) for entry in catalog.entries if entry.split == split]
        assert ours == [(path, int(label)) for path, label in expected._samples]
        assert list(catalog.class_names) == list(expected.classes)


def test_boxes_are_half_open_and_count_from_zero(cars: Path) -> None:
    """First and last pixel are 3 and 30, counted from 1."""
    catalog = cars_catalog(cars)
    assert catalog.reader(catalog.entries[0]).box == (4, 2, 40, 30)


def test_the_published_statistics_are_used_and_the_layout_is_recognized(cars: Path) -> None:
    assert open_data(f"cars:{cars}").preprocessing.mean == (0.4708, 0.4602, 0.4550)
    assert guess_spec(str(cars)).kind == guess_spec(str(cars / "stanford_cars")).kind == "cars"


def test_a_folder_without_its_annotations_is_refused(cars: Path) -> None:
    (cars / "stanford_cars" / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(DataError, match=r"withlabels.mat cannot be read"):
        cars_catalog(cars)


@pytest.mark.parametrize("content", [b"", b"not a mat file", b"MATLAB 5.0 MAT-file" + b"\0" * 200])
def test_a_damaged_annotation_file_is_refused(cars: Path, content: bytes) -> None:
    (cars / "stanford_cars" / "devkit" / "cars_meta.mat").write_bytes(content)
    with pytest.raises(DataError, match="not a Stanford Cars folder"):
        cars_catalog(cars)

"""Lists name files in their own folder, and MATLAB files are what they should be or are refused in one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from tests.data.test_cars import FIELDS, cars  # noqa: F401  a fixture
from tests.data.test_cub import cub_catalog, tiny  # noqa: F401  a fixture

from pixpnet.data import DataError
from pixpnet.data.cars import META, TRAIN, cars_catalog
from pixpnet.data.confined import listed_file


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../x.jpg", "link/x.jpg", "x.jpg\0"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"images\.txt names"):
        listed_file(folder, name, "images.txt")


def test_a_link_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match=r"images\.txt names 'a/x\.jpg'"):
        listed_file(tmp_path, "a/x.jpg", "images.txt")


def test_a_folder_that_is_itself_a_link_is_used(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "images")
    assert listed_file(tmp_path / "linked", "a/x.jpg", "images.txt") == tmp_path / "linked" / "a" / "x.jpg"


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd"])
def test_cubs_list_cannot_name_files_outside_its_folder(tiny: Path, name: str) -> None:  # noqa: F811
    path = tiny / "images.txt"
    path.write_text(path.read_text().replace("017.Cardinal/b.jpg", name))
    with pytest.raises(DataError, match=rf"images\.txt names '{name}', which leads out"):
        cub_catalog(tiny)


def annotations(*rows: tuple[object, ...]) -> dict[str, object]:
    table = np.zeros((1, len(rows)), dtype=FIELDS)
    for number, row in enumerate(rows):
        table[0, number] = row
    return {"annotations": table}


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file elsewhere": (
        lambda path: savemat(path, annotations((3, 5, 30, 40, 1, "../../../etc/passwd"))),
        "which leads out of",
    ),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:300]), "cannot be read"),
    "no MATLAB file": (lambda path: path.write_bytes(b"\x00" * 1000), "cannot be read"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read"),
    "version 7.3": (
        lambda path: path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x00" * 600),
        "MATLAB 7.3",
    ),
    "another variable": (lambda path: savemat(path, {"x": np.zeros(3)}), "it has no 'annotations', but 'x'"),
    "numbers": (lambda path: savemat(path, {"annotations": np.zeros(3)}), "entry 1: expected fname"),
    "a class that is text": (lambda path: savemat(path, annotations((3, 5, 30, 40, "x", "a.jpg"))), "entry 1"),
    "a box that is no number": (
        lambda path: savemat(path, annotations((float("nan"), 5, 30, 40, 1, "a.jpg"))),
        "is not made of numbers",
    ),
    "a million and one": (lambda path: savemat(path, {"annotations": np.zeros(10**6 + 1)}), "entries, at most"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "a folder, not a regular file"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_matlab_file_is_refused_in_one_line(cars: Path, name: str) -> None:  # noqa: F811
    change, says = ODD[name]
    change(cars / "stanford_cars" / TRAIN)
    with pytest.raises(DataError) as caught:
        cars_catalog(cars)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_classes_that_are_missing_are_refused(cars: Path) -> None:  # noqa: F811
    savemat(cars / "stanford_cars" / META, {"names": np.zeros(2)})
    with pytest.raises(DataError, match="it has no 'class_names'"):
        cars_catalog(cars)

"""CUB-200-2011: a tiny one made by hand, and twelve real classes where they are present."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pixpnet.data import DataError, DataOptions, Preprocessing, open_data
from pixpnet.data.cub import cub_catalog

SaveNoise = Callable[..., Path]


@pytest.fixture
def tiny(tmp_path: Path, save_noise: SaveNoise) -> Path:
    """Two classes with ids 3 and 17; image 5 has a box that exceeds it and a visible part outside."""
    names = [
        "2 003.Sooty_Albatross/a.jpg",
        "5 017.Cardinal/b.jpg",
        "9 017.Cardinal/c.jpg",
        "7 003.Sooty_Albatross/d.jpg",
    ]
    boxes = ["2 10.0 5.0 20.0 30.0", "5 -2.0 10.0 60.0 31.0", "9 0.0 0.0 50.0 40.0", "7 0.0 0.0 9.0 9.0"]
    seen = [
        "2 1 15.0 6.0 1",
        "2 2 12.0 8.0 1",
        "2 3 0.0 0.0 0",
        "5 1 50.0 6.0 1",
        "5 2 1.0 2.0 1",
        "5 3 3.0 4.0 1",
    ]
    files = {
        "images.txt": names,
        "classes.txt": ["3 003.Sooty_Albatross", "17 017.Cardinal"],
        "image_class_labels.txt": ["2 3", "5 17", "9 17", "7 3"],
        "train_test_split.txt": ["2 1", "5 1", "9 0", "7 0"],
        "bounding_boxes.txt": boxes,
        "parts/parts.txt": ["1 back", "2 left eye", "3 right eye"],
        "parts/part_locs.txt": seen,
    }
    for name, lines in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    for seed, line in enumerate(names):
        save_noise(tmp_path / "images" / line.split()[1], seed)
    return tmp_path


def test_ids_need_not_be_contiguous_and_names_are_readable(tiny: Path) -> None:
    catalog = cub_catalog(tiny)
    assert catalog.class_names == ("Sooty Albatross", "Cardinal")
    assert {entry.id: (entry.label, entry.split) for entry in catalog.entries} == {
        "003.Sooty_Albatross/a.jpg": (0, "train"),
        "017.Cardinal/b.jpg": (1, "train"),
        "017.Cardinal/c.jpg": (1, "test"),
        "003.Sooty_Albatross/d.jpg": (0, "test"),
    }


def test_left_and_right_are_points_of_one_part(tiny: Path) -> None:
    catalog = cub_catalog(tiny)
    assert catalog.part_names == ("back", "eye")
    assert catalog.point_parts == (0, 1, 1)
    sample = catalog.reader(catalog.entries[0])
    assert sample.visible.tolist() == [True, True, False]
    assert sample.keypoints[:2].tolist() == [[15.5, 6.5], [12.5, 8.5]]


def test_boxes_are_cut_to_the_image_and_parts_outside_are_not_visible(tiny: Path) -> None:
    catalog = cub_catalog(tiny)
    first, second = (catalog.reader(entry) for entry in catalog.entries[:2])
    assert first.box == (5, 10, 35, 30)
    assert second.box == (10, 0, 40, 50)
    assert second.visible.tolist() == [False, True, True]


def test_cropping_by_box_takes_points_along_and_knows_the_way_back(tiny: Path) -> None:
    catalog = cub_catalog(tiny, crop_to_box=True)
    sample = catalog.reader(catalog.entries[0])
    assert sample.size == (30, 20)
    assert sample.source_size == (40, 50)
    assert sample.keypoints[0].tolist() == [5.5, 1.5]
    back = sample.to_source.numpy() @ [5.5, 1.5, 1.0]
    assert back.tolist() == [15.5, 6.5, 1.0]
    with Image.open(tiny / "images" / "003.Sooty_Albatross" / "a.jpg") as image:
        whole = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(sample.image.permute(1, 2, 0).numpy(), whole[5:35, 10:30])


def test_statistics_are_the_published_ones(tiny: Path) -> None:
    assert open_data(f"cub:{tiny}").preprocessing == Preprocessing()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("classes.txt", None, "not a CUB-200-2011 folder: classes.txt cannot be read"),
        ("images.txt", "two 003/a.jpg", "images.txt, line 1: expected 2 columns"),
        ("bounding_boxes.txt", "2 10 5 20", "bounding_boxes.txt, line 1: expected 5 columns"),
        ("bounding_boxes.txt", "2 10 5 20 wide", "bounding_boxes.txt: could not convert"),
        ("parts/part_locs.txt", "2 9 1.0 1.0 1", "names the part 9"),
    ],
)
def test_a_damaged_layout_is_refused_with_its_place(tiny: Path, name: str, content: str | None, message: str) -> None:
    if content is None:
        (tiny / name).unlink()
    else:
        (tiny / name).write_text(content)
    with pytest.raises(DataError, match=message):
        cub_catalog(tiny)


def test_an_image_without_a_class_is_a_problem(tiny: Path) -> None:
    (tiny / "image_class_labels.txt").write_text("2 3\n9 17\n7 3\n")
    assert [problem.where for problem in cub_catalog(tiny).problems] == ["017.Cardinal/b.jpg"]


def test_the_real_classes_have_their_official_split_and_twelve_parts(cub12: Path) -> None:
    data = open_data(f"cub:{cub12}")
    assert (len(data.train) + len(data.val), len(data.test)) == (360, 351)
    # A tenth of train, each picture by its own pixels: no exact share, and no class without.
    assert 20 <= len(data.val) <= 55
    assert {entry.label for entry in data.val} == set(range(12))
    assert len(data.class_names) == 12
    parts = "back beak belly breast crown eye forehead leg nape tail throat wing"
    assert " ".join(data.part_names) == parts
    assert len(data.point_parts) == 15
    train = {
        line.split()[0] for line in (cub12 / "train_test_split.txt").read_text().splitlines() if line.endswith(" 1")
    }
    names = dict(line.split() for line in (cub12 / "images.txt").read_text().splitlines())
    assert {entry.id for entry in (*data.train, *data.val)} == {names[number] for number in train}


def test_every_real_keypoint_lies_in_its_image_and_most_lie_in_their_box(cub12: Path) -> None:
    data = open_data(f"cub:{cub12}", DataOptions(validation_fraction=0.0))
    inside, total = 0, 0
    for entry in data.train[::12]:
        sample = data.reader(entry)
        assert sample.box is not None
        y0, x0, y1, x1 = sample.box
        points = sample.keypoints[sample.visible]
        total += len(points)
        inside += int(((points[:, 0] >= x0) & (points[:, 0] <= x1) & (points[:, 1] >= y0) & (points[:, 1] <= y1)).sum())
    assert total > 200
    assert inside / total > 0.97


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("image_class_labels.txt", "5 17", "5 x", "expected a number, got 'x'"),
        ("train_test_split.txt", "9 0", "9 2", "expected a number up to 1, got '2'"),
        ("bounding_boxes.txt", "9 0.0 0.0 50.0 40.0", "9 nan 0.0 50.0 40.0", "are not all numbers"),
    ],
)
def test_values_that_make_no_sense_are_refused(tiny: Path, name: str, old: str, new: str, says: str) -> None:
    (tiny / name).write_text((tiny / name).read_text().replace(old, new))
    with pytest.raises(DataError, match=says):
        cub_catalog(tiny)


def test_an_image_without_a_box_is_a_problem_and_not_shown_uncropped(tiny: Path) -> None:
    path = tiny / "bounding_boxes.txt"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("2 ")))
    assert [problem.reason for problem in cub_catalog(tiny).problems] == ["has no line in bounding_boxes.txt"]


def test_a_copy_is_found_across_splits_whatever_box_is_drawn_on_it(tiny: Path) -> None:
    images = tiny / "images"
    (images / "017.Cardinal/c.jpg").write_bytes((images / "017.Cardinal/b.jpg").read_bytes())
    with pytest.raises(DataError, match="also in train"):
        open_data(f"cub:{tiny}", DataOptions(crop_to_box=True, validation_fraction=0))

"""Prototypes that recur: by class, image and overlap of exact regions, each matched once, against hand-made runs."""

import shutil
from pathlib import Path

import pytest

from pixpnet.box import Box
from pixpnet.metrics.recurring import matches, overlap_of, recurring
from pixpnet.model import Origin
from tests.training.conftest import Trained

MATRIX = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


def origin(number: int, label: int, image: str, *boxes: Box) -> Origin:
    return Origin(number, label, image, 0, 0, boxes, MATRIX, 0.0, "image")


def test_overlap_counts_pixels() -> None:
    assert overlap_of([Box(0, 0, 4, 4)], [Box(0, 0, 4, 4)]) == 1
    assert overlap_of([Box(0, 0, 4, 4)], [Box(2, 0, 4, 4)]) == 0.5
    assert overlap_of([Box(0, 0, 1, 4), Box(2, 0, 3, 4)], [Box(0, 0, 3, 4)]) == pytest.approx(8 / 12)
    assert overlap_of([], []) == 0


def test_a_prototype_is_the_same_by_class_image_and_half_of_its_region() -> None:
    mine = [origin(0, 0, "a", Box(0, 0, 4, 4)), origin(1, 0, "b", Box(0, 0, 4, 4)), origin(2, 1, "a", Box(0, 0, 4, 4))]
    theirs = [
        origin(0, 0, "b", Box(3, 3, 7, 7)),  # the same image, elsewhere
        origin(1, 0, "a", Box(0, 0, 4, 2)),  # half of it
        origin(2, 1, "c", Box(0, 0, 4, 4)),  # another image
    ]
    assert matches(mine, theirs) == {0: 1}


def test_each_is_matched_once_and_the_largest_overlap_goes_first() -> None:
    mine = [origin(0, 0, "a", Box(0, 0, 4, 3)), origin(1, 0, "a", Box(0, 0, 4, 4))]
    theirs = [origin(0, 0, "a", Box(0, 0, 4, 4))]
    assert matches(mine, theirs) == {1: 0}


def test_a_run_recurs_in_its_copy_more_than_by_chance(trained: Trained, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(trained.path, tmp_path / "copy"))
    found = recurring([trained.path, copied])
    assert found is not None and found.share is not None and found.in_all is not None and found.same_image is not None
    assert (found.share.mean, found.in_all.mean, found.same_image.mean, found.prototypes) == (1.0, 1.0, 1.0, 12)
    # Two prototypes of a class on two of its eight images.
    assert found.by_chance is not None and found.by_chance < 0.5


def test_one_run_is_not_enough(trained: Trained) -> None:
    with pytest.raises(ValueError, match="at least two"):
        recurring([trained.path])

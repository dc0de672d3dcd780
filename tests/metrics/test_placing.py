"""Parts and places of a whole data set: what each measure says alone, with one forward pass for each image."""

from dataclasses import replace
from pathlib import Path

import pytest

from pixpnet.data import DataSet
from pixpnet.data.loader import PlainSamples
from pixpnet.data.sample import box_in
from pixpnet.metrics import (
    Sizes,
    answer_places,
    model_sizes,
    prototype_distinctiveness,
    prototype_places,
    prototype_purity,
)
from pixpnet.metrics.suite import Places
from pixpnet.metrics.suite.placing import measure_places
from pixpnet.metrics.suite.result_store import ResultStore
from pixpnet.model import PixPNet
from tests.metrics.part_toys import BLACK, BLUE, RED, TOP_LEFT, YELLOW, data_of, finder, origin, picture

BOX = box_in((0.0, 0.0, 6.0, 6.0), (8, 8))
TRAIN = [
    replace(picture(((RED, BLACK), (BLACK, BLACK)), [(2, 2), (6, 6)], name="red"), bounding_box=BOX),
    replace(picture(((BLACK, BLUE), (BLACK, BLACK)), [(6, 2), None], label=1, name="blue"), bounding_box=BOX),
]
VAL = [
    replace(picture(((RED, YELLOW), (BLACK, BLACK)), [(2, 2), (6, 6)], name=f"val {number}"), bounding_box=BOX)
    for number in range(3)
]


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each forward pass had."""
    sizes: list[int] = []
    embed = PixPNet.embed
    monkeypatch.setattr(PixPNet, "embed", lambda self, images: sizes.append(len(images)) or embed(self, images))
    return sizes


def network() -> PixPNet:
    model = finder()
    model.origins = tuple(origin(number, "red" if number < 2 else "blue", TOP_LEFT) for number in range(4))
    return model


def measured(model: PixPNet, data: DataSet, folder: Path) -> Places:
    told: list[tuple[int, int]] = []
    with ResultStore(folder, {"about": "this"}) as results:
        placed = measure_places(model, data, data.val, 0, results, lambda _, done, total: told.append((done, total)))
    assert all(done <= total for done, total in told)
    return placed.places


def test_each_image_is_passed_once_and_figures_are_those_of_each_measure_alone(
    tmp_path: Path, passed: list[int]
) -> None:
    model, data = network(), data_of(TRAIN, VAL)
    places = measured(model, data, tmp_path)
    assert sum(passed) == len(VAL) + len(TRAIN)
    val, train = (PlainSamples(entries, data.reader, model.preprocessing) for entries in (data.val, data.train))
    assert places.answers == answer_places(model, val)
    with ResultStore(tmp_path, {"about": "this"}) as results:
        assert results.get(Sizes, "sizes") == model_sizes(model, val)
    assert places.distinctiveness == prototype_distinctiveness(model, val)
    assert places.purity == prototype_purity(model, train, data.point_parts)
    assert places.prototypes == prototype_places(model, data)
    assert places.answers.object_known_by == "boxes"
    # Red and yellow cover the upper half of 8 x 8, so 4 of the box's 6 rows.
    estimate = places.answers.object_covered.estimate
    assert estimate is not None and estimate.mean == pytest.approx(2 / 3)


def test_what_was_measured_is_not_measured_again(tmp_path: Path, passed: list[int]) -> None:
    model, data = network(), data_of(TRAIN, VAL)
    with pytest.MonkeyPatch.context() as patch:

        def stopped(*words: object, **preprocessing: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("pixpnet.metrics.suite.placing.prototype_purity", stopped)
        with pytest.raises(KeyboardInterrupt):
            measured(model, data, tmp_path)
    assert sum(passed) == len(VAL)
    passed.clear()
    places = measured(model, data, tmp_path)
    assert sum(passed) == len(TRAIN)
    passed.clear()
    assert measured(model, data, tmp_path) == places
    assert passed == []


def test_without_parts_and_boxes_training_images_are_not_asked_about(tmp_path: Path, passed: list[int]) -> None:
    def plain(name: str, label: int = 0) -> object:
        return picture(((RED, YELLOW), (BLACK, BLACK)), [], label=label, name=name)

    data = data_of([plain("a"), plain("b", 1)], [plain("c")], point_parts=())  # type: ignore[list-item]
    places = measured(network(), data, tmp_path)
    assert places.purity is places.prototypes is None
    assert passed == [1]
    assert places.answers.image_covered.estimate is not None


def test_boxes_without_parts_say_where_patches_are(tmp_path: Path) -> None:
    def boxed(name: str, label: int = 0) -> object:
        sample = picture(((RED, YELLOW), (BLACK, BLACK)), [], label=label, name=name)
        return replace(sample, bounding_box=BOX)

    data = data_of([boxed("red"), boxed("blue", 1)], [boxed("c")], point_parts=())  # type: ignore[list-item]
    places = measured(network(), data, tmp_path)
    assert places.purity is None
    assert places.prototypes is not None and places.prototypes.on_object.estimate is not None
    assert (places.prototypes.on_object.estimate.mean, places.prototypes.near_part.undefined) == (1.0, 4)

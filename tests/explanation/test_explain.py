"""`explain` against answers worked out on paper, and laws on a real network."""

import copy
import gc
import math
import weakref
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from pixpnet.box import Box
from pixpnet.data import ImageError, preprocess
from pixpnet.explanation import Term, UnknownClass, explain, explaining, lookups
from pixpnet.model import FieldWarning, PixPNet
from tests.explanation.toys import (
    BLUE,
    PICTURE,
    PLAIN,
    RED,
    STEP,
    WHITE,
    YELLOW,
    as_sample,
    origins_of,
    photo,
    quarters,
    real,
    similarity,
    toy,
    write_pictures,
)

HEADS = ("class_sum", "linear", "frozen", "own_class")


def test_the_toy_is_explained_as_on_paper() -> None:
    explanation = explain(toy(), as_sample(PICTURE))
    assert [explained.class_name for explained in explanation.classes] == ["warm", "cold"]
    warm, cold = explanation.classes
    assert warm.logit == pytest.approx(2 * similarity(0))
    assert cold.logit == pytest.approx(similarity(0) + similarity(1))
    assert warm.share == pytest.approx(1 / (1 + math.exp(cold.logit - warm.logit)))
    result = {term.prototype: term for explained in explanation.classes for term in explained.terms}
    assert {n: term.cell for n, term in result.items()} == {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (0, 1)}
    assert result[2].region == (Box(4, 0, 8, 4),)
    assert result[3].region == result[1].region == (Box(0, 4, 4, 8),)
    assert result[3].distance == pytest.approx(STEP, abs=1e-6)
    assert result[3].score == pytest.approx(similarity(1))
    assert [term.prototype for term in cold.terms] == [2, 3]
    assert [(term.label, term.class_name, term.weight) for term in cold.terms] == [(1, "cold", 1.0)] * 2
    assert (explanation.head, explanation.model) == ("class_sum", "AvgPool2d")
    assert np.array_equal(np.frombuffer(explanation.pixels, np.uint8).reshape(8, 8, 3), PICTURE)
    sight = explanation.sight
    assert (sight.cells, sight.mean_fraction, sight.max_fraction, sight.everything) == ((2, 2), 0.25, 0.25, 0.0)


def test_a_linear_head_lists_the_largest_by_absolute_value_and_sums_up_the_rest() -> None:
    model = toy(head="linear")
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[2.0, 1.0, -3.0, 0.0], [0.0, 0.0, 1.0, 1.0]]))
    warm = explain(model, as_sample(PICTURE), classes=["warm"], top=2).explained("warm")
    assert [(term.prototype, term.weight) for term in warm.terms] == [(2, -3.0), (0, 2.0)]
    assert [term.contribution for term in warm.terms] == pytest.approx([-3 * math.log(2), 2 * math.log(2)])
    # Prototype 3 has the weight 0: it is no term, so one is left, prototype 1.
    assert (warm.rest, warm.rest_terms) == (pytest.approx(math.log(2)), 1)
    assert warm.terms[0].class_name == "cold"
    assert warm.logit == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("head", HEADS)
def test_logits_are_the_sums_of_their_terms(head: str) -> None:
    model = real(head)
    sample = preprocess(as_sample(photo()), model.preprocessing)
    with torch.no_grad():
        expected = model(sample.image.as_subclass(Tensor)[None]).logits[0]
    for top in (1, 4, 100):
        explanation = explain(model, sample, classes=[0, 1, 2], top=top)
        assert explanation.logits == pytest.approx(expected.tolist())
        assert explanation.predicted.label == int(expected.argmax())
        assert {explained.label for explained in explanation.classes} == {0, 1, 2}
        for explained in explanation.classes:
            total = math.fsum(term.contribution for term in explained.terms) + explained.rest
            assert total == pytest.approx(explained.logit, abs=1e-4)
            assert explained.logit == explanation.logits[explained.label]
            sizes = [abs(term.contribution) for term in explained.terms]
            assert sizes == sorted(sizes, reverse=True)
            fully = head in ("linear", "frozen")
            assert len(explained.terms) == (min(top, 6) if fully else 2)
            assert explained.rest_terms == (6 - len(explained.terms) if fully else 0)


def test_regions_are_the_fields_of_the_best_cells() -> None:
    model = real()
    explanation = explain(model, as_sample(photo()))
    with torch.no_grad():
        matches = model(preprocess(as_sample(photo()), model.preprocessing).image.as_subclass(Tensor)[None]).matches
    for term in (term for explained in explanation.classes for term in explained.terms):
        row, col = matches.cells[0, term.prototype].tolist()
        assert term.cell == (row, col)
        assert term.distance == float(matches.distance_maps[0, term.prototype, row, col])
        # By hand: a field of 29 pixels around the cell's centre, at step 8; the first stands on pixel 0.
        top, left = 8 * row - 14, 8 * col - 14
        box = Box(max(top, 0), max(left, 0), min(top + 29, 48), min(left + 29, 48))
        assert term.region == (box,)


def test_one_forward_pass_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = toy(), []
    original = PixPNet.forward

    def counted(self: PixPNet, images: Tensor) -> object:
        calls.append(len(images))
        return original(self, images)

    monkeypatch.setattr(PixPNet, "forward", counted)
    explain(model, as_sample(PICTURE), classes=["warm", "cold"])
    assert calls == [1]


def test_terms_are_whole_records_whose_constructor_would_make_the_same() -> None:
    for explained in explain(toy(), as_sample(PICTURE)).classes:
        for term in explained.terms:
            assert list(vars(term)) == [field.name for field in fields(term)]
            assert Term(**vars(term)) == term  # the constructor checks types in the tests


def test_classes_are_asked_for_by_name_or_label() -> None:
    model = real()
    sample = as_sample(photo())
    order = [explained.label for explained in explain(model, sample, classes=[0, 1, 2]).classes]
    best, others = order[0], sorted({0, 1, 2} - {order[0]})
    names = model.class_names
    logits = explain(model, sample).logits
    runner_up = max(others, key=lambda label: logits[label])
    for asked, expected in (
        ([], [best, runner_up]),
        ([names[best]], [best, runner_up]),
        ([others[1]], [best, others[1]]),
        ([others[1], names[others[0]], others[1]], [best, others[1], others[0]]),
    ):
        assert [explained.label for explained in explain(model, sample, classes=asked).classes] == expected, asked


def test_an_unknown_class_gets_a_list_and_the_nearest_name() -> None:
    model = real()
    with pytest.raises(
        UnknownClass, match=r"no class 'grunfink': did you mean Grünfink\? The model knows wren, jay, G"
    ):
        explain(model, as_sample(photo()), classes=["grunfink"])
    for label in (3, -1):
        with pytest.raises(UnknownClass, match="labels are 0 to 2"):
            explain(model, as_sample(photo()), classes=[label])
    with pytest.raises(ValueError, match=r"classes=\['wren'\]"):
        explain(model, as_sample(photo()), classes="wren")
    with pytest.raises(ValueError, match="top=0"):
        explain(model, as_sample(photo()), top=0)


def test_training_mode_is_refused_wherever_it_hides() -> None:
    model = real()
    model.train()
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        explain(model, as_sample(photo()))
    model.eval()
    next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d)).train()
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        explain(model, as_sample(photo()))


def test_numbers_that_are_not_finite_are_refused() -> None:
    model = toy()
    sample = preprocess(as_sample(PICTURE), PLAIN)
    image = copy.deepcopy(sample.image)
    image[0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match="a picture are not finite"):
        explain(model, replace(sample, image=image))
    with pytest.raises(ValueError, match=r"got torch\.int32"):
        explain(model, replace(sample, image=type(image)(image.nan_to_num().int())))


def test_origins_and_those_pictures_that_are_there(tmp_path: Path) -> None:
    model = toy()
    explanation = explain(model, as_sample(PICTURE))
    assert {term.origin for explained in explanation.classes for term in explained.terms} == {None}
    assert {term.crop for explained in explanation.classes for term in explained.terms} == {None}
    model.origins = origins_of(model)
    model.pictures = tmp_path / "prototypes"
    assert explain(model, as_sample(PICTURE)).predicted.terms[0].crop is None  # no such folder
    write_pictures(model.pictures, ("0.png", "1.png", "1.jpg"))
    result = {t.prototype: t for explained in explain(model, as_sample(PICTURE)).classes for t in explained.terms}
    assert [result[n].origin for n in range(4)] == list(model.origins)
    assert [result[n].crop for n in range(4)] == [
        str(model.pictures / "0.png"),
        str(model.pictures / "1.png"),
        None,
        None,
    ]
    assert [result[n].picture for n in range(4)] == [None, str(model.pictures / "1.jpg"), None, None]
    (model.pictures / "0.png").unlink()
    assert {t.crop for t in explain(model, as_sample(PICTURE)).predicted.terms} == {str(model.pictures / "1.png"), None}


def test_a_larger_prototype_sees_its_whole_patch() -> None:
    explanation = explain(toy(prototype_rows=2), as_sample(quarters((RED, YELLOW), (RED, YELLOW))))
    result = {term.prototype: term for explained in explanation.classes for term in explained.terms}
    assert (result[0].cell, result[0].region) == ((0, 0), (Box(0, 0, 8, 4),))
    assert (result[1].cell, result[1].region) == ((0, 1), (Box(0, 4, 8, 8),))
    assert (explanation.sight.cells, explanation.sight.mean_fraction) == ((1, 2), 0.5)


def test_a_cell_that_sees_only_padding_has_an_empty_region() -> None:
    model = toy(nn.Sequential(nn.AvgPool2d(4), nn.ZeroPad2d(1)))
    with torch.no_grad():
        model.prototypes[0] = 0.5
    explanation = explain(model, as_sample(quarters((WHITE, WHITE), (WHITE, WHITE))), classes=["warm"])
    black = next(term for term in explanation.explained("warm").terms if term.prototype == 0)
    assert (black.cell, black.region) == ((0, 0), ())
    assert "padding only" in explanation.details()


class Everywhere(nn.Module):
    """Every cell knows the mean of the image."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(images, 4) + images.mean(dim=(2, 3), keepdim=True)


def test_a_network_that_sees_everything_says_so() -> None:
    with pytest.warns(FieldWarning):
        model = toy(Everywhere())
    explanation = explain(model, as_sample(PICTURE))
    assert explanation.sight.everything == explanation.sight.mean_fraction == 1.0
    assert {term.region for explained in explanation.classes for term in explained.terms} == {(Box(0, 0, 8, 8),)}
    for shown in (explanation.details(), explanation._repr_html_()):
        assert "no small box can be drawn" in " ".join(shown.split())
        assert "may depend on every pixel" in " ".join(shown.split())


# Pictures as they come ---------------------------------------------------------------------------------------


def test_a_file_is_read_and_preprocessed(tmp_path: Path) -> None:
    path = tmp_path / "four.png"
    Image.fromarray(PICTURE).save(path)
    from_file = explain(toy(), path)
    assert from_file == explain(toy(), str(path))
    assert from_file == replace(explain(toy(), as_sample(PICTURE)), image=str(path))
    assert from_file == replace(explain(toy(), preprocess(as_sample(PICTURE), PLAIN)), image=str(path))


def test_a_preprocessed_image_of_another_size_has_the_fields_of_that_size() -> None:
    wide = np.concatenate([PICTURE, quarters((BLUE, WHITE), (WHITE, WHITE))], axis=1)
    image = torch.from_numpy(wide).permute(2, 0, 1).float() / 255
    sample = replace(preprocess(as_sample(PICTURE), PLAIN), image=type(as_sample(wide).image)(image))
    explanation = explain(toy(), sample)
    assert (explanation.size, explanation.sight.cells) == ((8, 16), (2, 4))
    white = next(term for term in explanation.explained("cold").terms if term.prototype == 3)
    assert (white.cell, white.region) == ((0, 3), (Box(0, 12, 4, 16),))


def test_grayscale_pictures_are_three_equal_channels(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.fromarray(quarters((WHITE, WHITE), (WHITE, WHITE))[..., 0]).save(path)
    explanation = explain(toy(), path)
    assert explanation.predicted.class_name == "cold"
    white = next(term for term in explanation.predicted.terms if term.prototype == 3)
    assert white.score == pytest.approx(similarity(0))


@pytest.mark.parametrize(
    ("stored", "orientation", "crop", "source_size", "corners"),
    [
        # The centre of 20 x 10 upright pixels, as they are.
        ((10, 20), 6, 8, (20, 10), ((1, 6), (5, 6), (5, 10), (1, 10))),
        # Larger: a square of 16 out of 16 x 32, halved.
        ((16, 32), 1, 16, (16, 32), ((8, 0), (16, 0), (16, 8), (8, 8))),
        # Smaller than the crop: doubled.
        ((4, 4), 1, 8, (4, 4), ((0, 0), (2, 0), (2, 2), (0, 2))),
        # Rotated and larger.
        ((16, 32), 8, 16, (32, 16), ((0, 8), (8, 8), (8, 16), (0, 16))),
    ],
)
def test_regions_lead_back_to_the_pixels_of_the_file(
    tmp_path: Path,
    stored: tuple[int, int],
    orientation: int,
    crop: int,
    source_size: tuple[int, int],
    corners: tuple[tuple[int, int], ...],
) -> None:
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", stored[::-1], (255, 0, 0)).save(path, exif=exif)
    model = toy()
    model.preprocessing = replace(PLAIN, crop=crop)
    explanation = explain(model, path)
    assert explanation.source_size == source_size
    assert explanation.predicted.terms[0].region == (Box(0, 0, 4, 4),)
    (polygon,) = explanation.in_source(explanation.predicted.terms[0].region)
    assert np.array(polygon) == pytest.approx(np.array(corners, float))


def test_a_turned_file_is_explained_upright(tmp_path: Path) -> None:
    # Stored lying on its side; the orientation 6 asks to turn it clockwise, which brings the red to the top left.
    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(PICTURE).copy()).save(path, exif=exif)
    assert explain(toy(), path) == replace(explain(toy(), as_sample(PICTURE)), image=str(path))


def test_a_truncated_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jpg"
    Image.fromarray(photo(size=(200, 200))).save(whole)
    path = tmp_path / "cut.jpg"
    path.write_bytes(whole.read_bytes()[:700])
    with pytest.raises(ImageError, match="truncated"):
        explain(toy(), path)


def test_what_is_remembered_of_a_model_is_forgotten_with_it() -> None:
    model = toy()
    first = explain(model, as_sample(PICTURE))
    assert model.field in lookups._REGIONS and model.field in lookups._SIGHTS
    assert explain(model, as_sample(PICTURE)) == first == explain(toy(), as_sample(PICTURE))
    field = weakref.ref(model.field)
    del model
    gc.collect()
    assert field() is None


def test_the_runner_up_is_the_first_of_those_that_come_next() -> None:
    assert explaining._explained_labels([1.0, 3.0, 3.0, 2.0], []) == [1, 2]
    assert explaining._explained_labels([3.0, 1.0, 2.0, 2.0], []) == [0, 2]
    assert explaining._explained_labels([3.0, 1.0, 2.0], [1, 0, 1]) == [0, 1]
    assert explaining._explained_labels([3.0, 1.0, 2.0], [0]) == [0, 2]

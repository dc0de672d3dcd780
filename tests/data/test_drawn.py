import numpy as np
import pytest

from pixpnet.data import DataOptions, DrawnBirds, open_data, preprocess
from pixpnet.data.birds import BirdOptions
from pixpnet.data.drawn import birds_catalog

FEW = DrawnBirds(train=120, test=24, size=64)


def test_every_class_has_as_many_birds_as_every_other() -> None:
    data = open_data("birds", DataOptions(birds=FEW))
    test = data.test.open([].append, "to count birds")
    for split, count in ((data.train, 9), (data.val, 1), (test, 2)):
        assert np.bincount([entry.label for entry in split]).tolist() == [count] * 12


def test_visible_keypoints_lie_in_their_own_masks_and_in_the_box() -> None:
    data = open_data("birds", DataOptions(birds=FEW))
    checked = 0
    for entry in data.train[:24]:
        sample = data.reader(entry)
        assert sample.masks is not None and sample.box is not None
        assert sample.masks.shape == (len(data.part_names), 64, 64)
        y0, x0, y1, x1 = sample.box
        for part, (x, y) in enumerate(sample.keypoints.tolist()):
            if sample.visible[part]:
                assert sample.masks[part, int(y), int(x)]
                assert x0 <= x <= x1 and y0 <= y <= y1
                checked += 1
    assert checked > 150


def test_a_bird_that_fits_the_network_arrives_pixel_for_pixel() -> None:
    data = open_data("birds", DataOptions(birds=FEW))
    sample = data.reader(data.train[0])
    seen = preprocess(sample, data.preprocessing)
    mean, std = (np.reshape(values, (3, 1, 1)) for values in (data.preprocessing.mean, data.preprocessing.std))
    np.testing.assert_allclose(seen.image.numpy() * std + mean, sample.image.numpy() / 255, atol=1e-5)
    assert seen.masks is not None and sample.masks is not None
    np.testing.assert_array_equal(seen.masks.numpy(), sample.masks.numpy())


def test_more_training_birds_leave_the_others_as_they_are() -> None:
    few, many = birds_catalog(FEW), birds_catalog(DrawnBirds(train=240, test=24, size=64))
    theirs = {entry.id: entry for entry in many.entries}
    assert all(theirs[entry.id] == entry for entry in few.entries)


def test_only_training_birds_carry_the_confounding_mark() -> None:
    plain = birds_catalog(FEW)
    marked = birds_catalog(DrawnBirds(train=120, test=24, size=64, options=BirdOptions(confounder=1.0)))
    for before, after in zip(plain.entries[::12], marked.entries[::12], strict=True):
        same = bool((plain.reader(before).image == marked.reader(after).image).all())
        assert same == (before.split == "test")


def test_mean_and_std_are_close_to_those_of_all_birds() -> None:
    data = open_data("birds", DataOptions(birds=FEW))
    pixels = np.stack([data.reader(entry).image.numpy() for entry in data.train]) / 255
    np.testing.assert_allclose(data.preprocessing.mean, pixels.mean(axis=(0, 2, 3)), atol=0.02)
    np.testing.assert_allclose(data.preprocessing.std, pixels.std(axis=(0, 2, 3)), atol=0.02)


def test_too_few_birds_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one for each"):
        DrawnBirds(train=3)

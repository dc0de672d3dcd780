"""The working image: large files are averaged down before they are augmented, and nothing that a view shows is lost."""

from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pixpnet.data import Augmentation, Preprocessing, Sample, augment, draw, preprocess, view_generator
from pixpnet.data.sample import Annotation, source_sample
from pixpnet.data.steps import step_by_step
from pixpnet.data.working import reduction, working_image

PAPER, AUGMENTATION = Preprocessing(), Augmentation()
SMALL = PAPER.scaled_to(28)  # shortest side 64, crop 48


@cache
def photograph(height: int, width: int, masks: bool = False) -> Sample:
    """Smooth shapes and a little noise, with a point and a box on them."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (9, 12, 3), np.uint8)
    pixels = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    annotation = Annotation(
        np.array([[width / 2, height / 4]]), np.array([True]), (width / 4, 0.0, width / 2, height / 2)
    )
    part = np.zeros((1, height, width), dtype=bool)
    part[0, : height // 2, : width // 2] = True
    return source_sample(pixels, 0, "jay", annotation, part if masks else None)


@pytest.mark.parametrize(
    ("size", "preprocessing", "zoom", "factor"),
    [
        ((375, 500), PAPER, 1.0, 1),  # CUB's photographs: 510 pixels are wanted
        ((1019, 2000), PAPER, 1.0, 1),
        ((1020, 2000), PAPER, 1.0, 2),
        ((3000, 4000), PAPER, 1.0, 5),  # 3000 / 510 = 5.9
        ((4000, 3000), PAPER, 1.0, 5),
        ((3000, 4000), PAPER.scaled_to(384), 1.0, 3),  # 3000 / 874 = 3.4
        (
            (3000, 4000),
            PAPER.framed("pad"),
            4 / 3,
            10,
        ),  # the longest side becomes 384, and 384 / 224 is more than 4 / 3
        ((3000, 4000), PAPER.framed("stretch"), 4 / 3, 7),  # 3000 / 384
        ((3000, 4000), PAPER.framed("pad"), 4.0, 4),  # 10.4 / (4 * 224 / 384)
        ((3000, 4000), replace(PAPER, shortest_side=None), 1.0, 1),  # ImageNette's crop is one of the file
    ],
)
def test_the_factor_is_the_largest_that_leaves_all_that_views_can_show(
    size: tuple[int, int], preprocessing: Preprocessing, zoom: float, factor: int
) -> None:
    assert reduction(size, preprocessing, replace(AUGMENTATION, max_zoom=zoom)) == factor


@given(st.integers(1, 700), st.integers(1, 700), st.sampled_from(["crop", "pad", "stretch"]), st.floats(1, 3))
def test_a_working_image_is_at_least_the_resized_one_and_needs_no_further_reduction(
    height: int, width: int, frame: str, zoom: float
) -> None:
    preprocessing = SMALL.framed(frame)  # type: ignore[arg-type]
    augmentation = replace(AUGMENTATION, max_zoom=zoom)
    factor = reduction((height, width), preprocessing, augmentation)
    small = round(height / factor), round(width / factor)
    if factor > 1:
        rows, cols = preprocessing.resized((height, width))
        assert small[0] >= rows and small[1] >= cols
        # A pixel for each pixel of the most enlarged view, but for the rounding of sizes.
        assert min(small[0] / rows, small[1] / cols) * preprocessing.crop / preprocessing.size >= 0.99 * zoom
    assert reduction(small, preprocessing, augmentation) == 1


def test_a_small_file_is_its_own_working_image_and_a_working_image_too() -> None:
    sample = photograph(120, 90)
    assert working_image(sample, SMALL, AUGMENTATION) is sample
    reduced = working_image(photograph(600, 450), SMALL, AUGMENTATION)
    assert reduced.size == (86, 64)  # 450 / 64 = 7.03
    assert working_image(reduced, SMALL, AUGMENTATION) is reduced


def test_the_pixels_are_means_of_squares_and_annotations_follow() -> None:
    sample = photograph(640, 512, masks=True)
    reduced = working_image(sample, SMALL, AUGMENTATION)  # by 8, which divides both sides
    means = sample.image.float().reshape(3, 80, 8, 64, 8).mean(dim=(2, 4))
    assert (reduced.image.float() - means).abs().max() <= 0.5 + 1e-4
    assert reduced.keypoints.tolist() == [[32.0, 20.0]] and reduced.visible.all()
    assert reduced.bounding_box is not None and reduced.bounding_box[0].tolist() == [16.0, 0.0, 32.0, 40.0]
    assert reduced.masks is not None and reduced.masks.shape == (1, 80, 64)
    assert reduced.masks[0, :40, :32].all() and int(reduced.masks.sum()) == 40 * 32
    assert reduced.source_size == (640, 512)
    assert torch.allclose(reduced.to_source, torch.diag(torch.tensor([8.0, 8.0, 1.0], dtype=torch.float64)))


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_a_view_of_a_large_file_is_that_of_the_step_by_step_pipeline_but_for_rounding(seed: int) -> None:
    """The reference resizes and warps with torchvision at every step, from the file itself."""
    sample = photograph(450, 600)
    choices = draw(AUGMENTATION, view_generator(0, 0, seed))
    view = augment(sample, choices, SMALL, AUGMENTATION)
    expected = step_by_step(sample, choices, SMALL, AUGMENTATION)
    # The resized image has 85 columns, that of the working image 86: up to a column of 7 pixels of the file apart.
    assert torch.allclose(view.to_source, expected.to_source, rtol=0.02, atol=8)
    inner = (slice(None), slice(8, 20), slice(8, 20))
    assert (view.image[inner] - expected.image[inner]).abs().mean() < 0.15  # of a standard deviation


def test_a_view_is_the_same_from_a_file_and_from_its_working_image() -> None:
    sample = photograph(450, 600, masks=True)
    reduced = working_image(sample, SMALL, AUGMENTATION)
    for seed in range(40):
        choices = draw(AUGMENTATION, view_generator(0, 0, seed))
        one, other = (augment(source, choices, SMALL, AUGMENTATION) for source in (sample, reduced))
        assert torch.equal(one.image, other.image) and torch.equal(one.to_source, other.to_source)
        assert one.masks is not None and other.masks is not None and torch.equal(one.masks, other.masks)


def test_plain_images_are_made_of_the_file_itself() -> None:
    """Of a checkerboard of single pixels, one step of averaging leaves grey and two would leave the same; of stripes
    seven pixels wide, 600 / 64 = 9 averaged at once are told from 9 averaged and then warped by their edges."""
    stripes = np.repeat(np.arange(600) // 7 % 2 * 255, 3).reshape(1, 600, 3).repeat(600, 0).astype(np.uint8)
    sample = source_sample(stripes, 0, "stripes", Annotation(np.zeros((0, 2)), np.zeros(0, dtype=bool)), None)
    plain = preprocess(sample, SMALL)
    assert not torch.equal(plain.image, preprocess(working_image(sample, SMALL, AUGMENTATION), SMALL).image)
    # By hand: 600 / 64 * 48 / 28 = 16.07 pixels of the file for each of the view, averaged 16 at a time, then one warp.
    small = cv2.resize(stripes, (38, 38), interpolation=cv2.INTER_AREA).astype(np.float64)
    columns = (np.arange(28) + 0.5) * 48 / 28 + 8  # in the resized image of 64 pixels, of which 8 are cut off
    at = columns * 38 / 64 - 0.5
    left = np.floor(at).astype(int)
    expected = small[19, left, 0] * (1 - (at - left)) + small[19, left + 1, 0] * (at - left)
    shown = plain.image[0, 14].double() * SMALL.std[0] * 255 + SMALL.mean[0] * 255
    assert np.abs(shown.numpy() - expected).max() < 8  # OpenCV's warp has 1/32 of a pixel

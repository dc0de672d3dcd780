"""The fused warp against the step-by-step pipeline, and both against where the picture really went."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torchvision.transforms import v2

from pixpnet.data import (
    Augmentation,
    Draw,
    Preprocessing,
    Sample,
    augment,
    draw,
    open_data,
    preprocess,
    step_by_step,
    view_generator,
)
from pixpnet.data.resample import blurred, sharpened
from pixpnet.data.sample import Annotation, source_sample

SMALL = Preprocessing(shortest_side=170, crop=128, size=96, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))

inward = st.tuples(st.floats(0, 0.1), st.floats(0, 0.1))
signs = ((1, 1), (-1, 1), (-1, -1), (1, -1))
corners = st.tuples(inward, inward, inward, inward).map(
    lambda moves: tuple((x * right, y * down) for (x, y), (right, down) in zip(moves, signs, strict=True))
)
unit = st.floats(0, 1, exclude_max=True)
# As tuples, because building a record while it is being chosen would draw from beartype's own randomness.
draws = st.tuples(
    st.none() | st.floats(0.1, 5),  # blur
    st.booleans(),  # sharpen
    st.none() | st.floats(-15, 15),  # rotation
    st.none() | corners,
    st.none() | st.floats(-10, 10),  # shear
    st.booleans(),  # flip
    st.tuples(unit, unit),  # crop
)
Choices = tuple[Any, ...]
sizes = st.tuples(st.integers(90, 260), st.integers(90, 260))
NOTHING = Draw(None, False, None, None, None, False, (0.0, 0.0))


def picture(pixels: np.ndarray, points: list[tuple[float, float]] | None = None) -> Sample:
    """A sample with these points, all visible, a mask around each, and a box around the picture's middle."""
    height, width = pixels.shape[:2]
    keypoints = np.array(points or [], dtype=np.float64).reshape(-1, 2)
    ys, xs = np.mgrid[:height, :width] + 0.5
    radius = min(height, width) / 12
    masks = np.stack([np.hypot(xs - x, ys - y) < radius for x, y in keypoints]) if points else None
    box = (width / 4, height / 4, 3 * width / 4, 3 * height / 4)
    annotation = Annotation(keypoints, np.ones(len(keypoints), dtype=bool), box)
    return source_sample(pixels, 0, "made", annotation, masks)


def with_dot(size: tuple[int, int], x: float, y: float) -> Sample:
    """A grey picture with a red disc around one keypoint."""
    height, width = size
    ys, xs = np.mgrid[:height, :width] + 0.5
    radius = min(size) / 30
    inside = np.clip(radius + 0.5 - np.hypot(xs - x, ys - y), 0, 1)[..., None]
    pixels = 128 * (1 - inside) + np.array([255.0, 0.0, 0.0]) * inside
    return picture(pixels.round().astype(np.uint8), [(x, y)])


def smooth(size: tuple[int, int], seed: int) -> Sample:
    """A picture without fine detail, so that a second resampling changes little."""
    coarse = np.random.default_rng(seed).integers(40, 216, (5, 6, 3)).astype(np.float32)
    pixels = cv2.resize(coarse, (size[1], size[0]), interpolation=cv2.INTER_CUBIC)
    height, width = size
    return picture(pixels.clip(1, 255).astype(np.uint8), [(width / 3, height / 2), (width / 2, height / 3)])


AUGMENTATION = Augmentation()
Transform = Callable[[Sample, Draw], Sample]
fused: Transform = lambda sample, choices: augment(sample, choices, SMALL, AUGMENTATION)  # noqa: E731
stepwise: Transform = lambda sample, choices: step_by_step(sample, choices, SMALL, AUGMENTATION)  # noqa: E731
at_test_time: Transform = lambda sample, choices: preprocess(sample, SMALL)  # noqa: E731


def on_the_border(sample: Sample) -> torch.Tensor:
    """Points so close to an edge that rounding decides on which side they are."""
    points = sample.keypoints.data
    return ((points.abs() < 0.02) | ((points - SMALL.size).abs() < 0.02)).any(dim=1)


def redness(sample: Sample) -> np.ndarray:
    red, green, _ = sample.image.numpy()
    return (red - green).clip(0, None)


@pytest.mark.parametrize("transform", [fused, stepwise, at_test_time], ids=["fused", "stepwise", "test time"])
@settings(deadline=None, max_examples=60)
@given(size=sizes, x=st.floats(0.1, 0.9), y=st.floats(0.1, 0.9), chosen=draws)
def test_a_dot_is_found_where_the_transformed_keypoint_says(
    transform: Transform, size: tuple[int, int], x: float, y: float, chosen: Choices
) -> None:
    sample, choices = with_dot(size, x * size[1], y * size[0]), Draw(*chosen)
    result = transform(sample, choices)
    (left, top), side = result.keypoints[0].tolist(), SMALL.size
    assume(8 < left < side - 8 and 8 < top < side - 8)
    red = redness(result)
    if transform is stepwise:  # an early step may have pushed the dot out of its frame for good
        assume(red.sum() > 0.9 * redness(fused(sample, choices)).sum())
    ys, xs = np.mgrid[:side, :side] + 0.5
    actual = (red * xs).sum() / red.sum(), (red * ys).sum() / red.sum()
    assert actual == pytest.approx((left, top), abs=0.4)


@settings(deadline=None, max_examples=60)
@given(size=sizes, x=st.floats(0.1, 0.9), y=st.floats(0.1, 0.9), chosen=draws)
def test_masks_and_the_way_back_to_the_file_follow_the_image(
    size: tuple[int, int], x: float, y: float, chosen: Choices
) -> None:
    sample, choices = with_dot(size, x * size[1], y * size[0]), Draw(*chosen)
    result = fused(sample, choices)
    back = result.to_source.numpy() @ [*result.keypoints[0].tolist(), 1.0]
    np.testing.assert_allclose(back[:2] / back[2], [x * size[1], y * size[0]], atol=1e-2)
    (left, top), side = result.keypoints[0].tolist(), SMALL.size
    if not on_the_border(result)[0]:
        assert bool(result.visible[0]) == (0 < left < side and 0 < top < side)
    assume(12 < left < side - 12 and 12 < top < side - 12)
    assert result.masks is not None
    ys, xs = np.nonzero(result.masks[0].numpy())
    assert (xs.mean() + 0.5, ys.mean() + 0.5) == pytest.approx((left, top), abs=0.8)


@settings(deadline=None, max_examples=60)
@given(size=sizes, seed=st.integers(0, 100), chosen=draws)
def test_the_fused_warp_equals_the_steps_at_equal_choices(size: tuple[int, int], seed: int, chosen: Choices) -> None:
    """Images: 3 of 255 levels on average, for up to five resamplings against one. Points: 0.01 pixels."""
    sample, choices = smooth(size, seed), Draw(*chosen)
    ours, theirs = fused(sample, choices), stepwise(sample, choices)
    supported = support(sample, choices)
    difference = (ours.image - theirs.image).abs().mean(dim=0)[supported] * 255
    assume(difference.numel() > 500)
    assert difference.mean() < 3
    assert difference.quantile(0.99) < 12
    torch.testing.assert_close(ours.keypoints.data, theirs.keypoints.data, atol=0.01, rtol=0)
    torch.testing.assert_close(ours.to_source, theirs.to_source)
    clear = ~on_the_border(ours)
    assert torch.equal(ours.visible[clear], theirs.visible[clear])


def support(sample: Sample, choices: Draw) -> torch.Tensor:
    """Where both ways show the picture and not the black around it."""
    white = dataclasses.replace(sample, image=type(sample.image)(torch.full_like(sample.image.data, 255)))
    geometry = dataclasses.replace(choices, blur_sigma=None, sharpen=False)
    both = torch.minimum(fused(white, geometry).image, stepwise(white, geometry).image).amin(dim=0)
    return torch.from_numpy(cv2.erode((both > 0.999).numpy().astype(np.uint8), np.ones((5, 5), np.uint8)) > 0)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 100), st.floats(0.1, 5))
def test_blur_and_sharpness_are_torchvisions(seed: int, sigma: float) -> None:
    """On noise, where they matter most. OpenCV blurs in fixed point: a level on average, three at most."""
    pixels = np.random.default_rng(seed).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    for ours, theirs in (
        (blurred(pixels, sigma, 5), v2.functional.gaussian_blur(tensor, [5, 5], [sigma, sigma])),
        (sharpened(pixels, 1.5), v2.functional.adjust_sharpness(tensor, 1.5)),
    ):
        difference = ours.astype(int) - theirs.permute(1, 2, 0).numpy().astype(int)
        assert np.abs(difference).max() <= 3
        assert np.abs(difference).mean() < 1


def test_the_fused_warp_equals_the_steps_on_real_birds(cub12: Path) -> None:
    """At equal sharpness: after the same blur, which hides the detail that only one resampling keeps."""
    data = open_data(f"cub:{cub12}")
    differences = []
    for number, entry in enumerate(data.train[::40]):
        sample = data.reader(entry)
        choices = draw(AUGMENTATION, view_generator(0, 0, number))
        ours = augment(sample, choices, data.preprocessing, AUGMENTATION)
        theirs = step_by_step(sample, choices, data.preprocessing, AUGMENTATION)
        torch.testing.assert_close(ours.keypoints.data, theirs.keypoints.data, atol=0.01, rtol=0)
        views = [cv2.GaussianBlur(view.image.permute(1, 2, 0).numpy(), (0, 0), 3) for view in (ours, theirs)]
        seen = np.minimum(*[view.image.numpy().sum(axis=0) for view in (ours, theirs)]) > -5  # not black
        differences.append(np.abs(views[0] - views[1])[seen].mean())
    assert np.mean(differences) < 0.05  # of a standard deviation


def test_one_resampling_keeps_more_detail_than_many(cub12: Path) -> None:
    """The yardstick is Pillow's Lanczos filter, from the file straight to the network's size."""
    from PIL import Image

    data = open_data(f"cub:{cub12}")
    plain = dataclasses.replace(data.preprocessing, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    centered = dataclasses.replace(NOTHING, crop=(0.5, 0.5))
    errors = []
    for entry in data.train[::60]:
        sample = data.reader(entry)
        ours = augment(sample, centered, plain, AUGMENTATION)
        theirs = step_by_step(sample, centered, plain, AUGMENTATION)
        corners = ours.to_source.numpy() @ np.array([[0, 0, 1], [224, 224, 1]]).T
        image = Image.fromarray(sample.image.permute(1, 2, 0).numpy())
        ideal = np.asarray(image.resize((224, 224), Image.Resampling.LANCZOS, box=(*corners[:2, 0], *corners[:2, 1])))
        views = [view.image.permute(1, 2, 0).numpy() * 255 for view in (ours, theirs)]
        errors.append([np.square(view - ideal).mean() for view in views])
    one, many = np.mean(errors, axis=0)
    assert one < many / 2


def test_keypoints_keep_their_place_when_the_aspect_is_not_square() -> None:
    """Mistake 1 of earlier software: coordinates squashed to a square while the image kept its aspect."""
    sample = with_dot((100, 200), 60.0, 50.0)
    result = preprocess(sample, Preprocessing(100, 100, 100, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    assert result.keypoints[0].tolist() == pytest.approx([10, 50])  # the crop begins at x = 50
    assert redness(result)[50, 10] > 0.9


@given(st.integers(40, 700), st.integers(40, 700))
def test_the_resized_image_has_torchvisions_size(height: int, width: int) -> None:
    resized = v2.functional.resize(torch.zeros(1, height, width, dtype=torch.uint8), [51], antialias=False)
    assert Preprocessing(51, 38, 22).resized((height, width)) == tuple(resized.shape[1:])


@settings(deadline=None, max_examples=30)
@given(sizes, st.integers(0, 100))
def test_test_time_is_resize_center_crop_resize(size: tuple[int, int], seed: int) -> None:
    sample = smooth(size, seed)
    expected = v2.Compose([v2.Resize(170), v2.CenterCrop(128), v2.Resize(96)])(sample.image) / 255
    difference = (preprocess(sample, SMALL).image - expected).abs()
    assert difference.mean() < 0.01


def test_an_image_that_fits_is_only_normalized() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    same = Preprocessing(64, 64, 64, (0.5, 0.4, 0.3), (0.2, 0.25, 0.5))
    result = preprocess(picture(pixels), same).image.numpy()
    expected = (pixels / 255 - np.array(same.mean)) / np.array(same.std)
    np.testing.assert_allclose(result, expected.transpose(2, 0, 1), atol=1e-5)


def test_a_large_photograph_is_averaged_and_not_sampled() -> None:
    """Stripes of one pixel, far finer than the output, must come out grey and not as a moiré."""
    stripes = np.zeros((1600, 1600, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    image = preprocess(picture(stripes), SMALL).image
    assert (image - 0.5).abs().max() < 0.1


def test_images_smaller_than_the_crop_grow_where_the_first_resizing_is_left_out() -> None:
    small = Preprocessing(None, 64, 64)
    assert small.resized((40, 60)) == (64, 96)
    assert small.resized((100, 80)) == (100, 80)


def test_a_sample_is_transformed_once() -> None:
    result = preprocess(picture(np.zeros((50, 50, 3), dtype=np.uint8)), SMALL)
    with pytest.raises(TypeError, match="can be transformed once"):
        preprocess(result, SMALL)

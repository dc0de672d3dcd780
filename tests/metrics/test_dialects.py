"""Two dialects of consistency and stability: each rule by itself, on paper, and never mixed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors

from pixpnet.box import Box
from pixpnet.data import Entry, Preprocessing, Sample
from pixpnet.data.errors import ImageError
from pixpnet.data.reader import CroppedToBox
from pixpnet.data.sample import box_in
from pixpnet.metrics.dialects import DIALECTS, dialect_scores
from pixpnet.metrics.part_hits import argmax_windows
from pixpnet.metrics.stability import with_noise
from tests.metrics.part_toys import BLACK, RED, as_read, finder, picture

EVAL, OURS = DIALECTS["evalprotopnet"], DIALECTS["pixpnet"]


def test_the_window_is_36_to_every_side_of_the_largest_pixel_with_both_ends() -> None:
    # The middle cell of 7 x 7 becomes pixels 96 to 127 of 224; a cubic's peak is symmetric around 111.5.
    peak = torch.zeros(7, 7)
    peak[3, 3] = 1
    ((box,),) = argmax_windows([peak], (224, 224), 36)
    assert box.y1 - box.y0 == box.x1 - box.x0 == 73
    assert box.y0 + 36 in (111, 112) and box.x0 + 36 in (111, 112)
    corner = torch.zeros(7, 7)
    corner[0, 6] = 1
    ((cut,),) = argmax_windows([corner], (224, 224), 36)
    assert cut.y0 == 0 and cut.x1 == 224 and cut.y1 < 73


def test_the_largest_pixel_is_that_of_the_bicubic_map_as_opencv_makes_it() -> None:
    import cv2

    similarities = np.random.default_rng(0).random((5, 6), np.float32)
    enlarged = cv2.resize(similarities, (96, 80), interpolation=cv2.INTER_CUBIC)
    row, col = np.unravel_index(enlarged.argmax(), enlarged.shape)
    (region,) = argmax_windows([torch.from_numpy(similarities)], (80, 96), 3)
    expected = Box(max(row - 3, 0), max(col - 3, 0), min(row + 4, 80), min(col + 4, 96))
    assert region == (Box(*map(int, expected)),)


def test_noise_is_clipped_itself_and_not_the_image() -> None:
    image = torch.full((3, 40, 40), 5.0)
    plain, limited = (
        with_noise(image, torch.Generator().manual_seed(0), 0.2, limit=limit) - image for limit in (None, 0.25)
    )
    torch.testing.assert_close(limited, plain.clamp(-0.25, 0.25), atol=1e-6, rtol=0)
    assert plain.abs().max() > 0.5
    assert 0.15 < float((limited.abs() > 0.2499).float().mean()) < 0.27  # 21 % of a normal lie beyond 1.25 sigma


def test_left_and_right_are_two_parts_in_one_dialect_and_one_in_the_other() -> None:
    assert EVAL.point_parts((0, 0, 1)) == (0, 1, 2)
    assert OURS.point_parts((0, 0, 1)) == (0, 0, 1)


def boxed(sample: Sample, box: tuple[float, float, float, float]) -> Sample:
    return replace(sample, bounding_box=box_in(box, sample.size))


def test_cropping_to_the_box_moves_points_and_hides_those_outside() -> None:
    sample = boxed(as_read(picture(((RED, BLACK), (BLACK, BLACK)), [(3.5, 2.5), (7.0, 7.0)])), (2.0, 1.0, 6.0, 5.0))
    cropped = CroppedToBox(lambda entry: sample)(Entry("a", 0, "val"))
    assert cropped.size == (4, 4) and cropped.visible.tolist() == [True, False]
    assert cropped.keypoints[0].tolist() == [1.5, 1.5]
    assert torch.equal(cropped.image.as_subclass(Tensor), sample.image.as_subclass(Tensor)[:, 1:5, 2:6])
    assert (cropped.to_source @ torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)).tolist() == [2, 1, 1]
    again = CroppedToBox(lambda entry: cropped)(Entry("a", 0, "val"))
    assert torch.equal(again.image, cropped.image) and torch.equal(again.to_source, cropped.to_source)
    without = replace(sample, bounding_box=None)
    with pytest.raises(ImageError, match="no box to crop to"):
        CroppedToBox(lambda entry: without)(Entry("a", 0, "val"))


def test_a_cropped_image_is_stretched_to_the_networks_input_and_nothing_of_the_box_is_lost() -> None:
    own = Preprocessing()
    shown = EVAL.preprocessing(own)
    assert (shown.frame, shown.shortest_side, shown.size, shown.mean) == ("stretch", None, own.size, own.mean)
    assert OURS.preprocessing(own) == own


def test_the_dialects_disagree_where_only_one_of_their_rules_finds_the_part() -> None:
    """Left and right eye: the red square shows one or the other, so as one part it is always found, apart never."""
    left = as_read(picture(((RED, BLACK), (BLACK, BLACK)), [(1.0, 1.0), (7.5, 7.5)], name="left"))
    right = as_read(picture(((BLACK, BLACK), (BLACK, RED)), [(0.5, 0.5), (6.5, 6.5)], name="right"))
    samples = {sample.id: boxed(sample, (0.0, 0.0, 8.0, 8.0)) for sample in (left, right)}
    entries = [Entry(name, 0, "val") for name in samples]
    model, reader = finder(), lambda entry: samples[entry.id]
    ours = dialect_scores(model, entries, reader, (0, 0), "pixpnet")
    theirs = dialect_scores(model, entries, reader, (0, 0), "evalprotopnet")
    red = [scores.field.prototypes[0].frequency for scores in (ours, theirs)]
    assert red == [1.0, 0.5]
    assert (theirs.published.region, theirs.published.noise_limit, theirs.published.mapping) == (
        "argmax",
        0.25,
        "upsampling",
    )
    assert (ours.published.region, ours.published.noise_limit) == ("window", None)


def test_box_crops_change_what_the_network_sees() -> None:
    """The red square fills the box: cropped to it, red is everywhere; in the whole image it is in one square."""
    image = tv_tensors.Image(torch.zeros(3, 8, 8, dtype=torch.uint8))
    image[0, :4, :4] = 255
    sample = replace(as_read(picture(((RED, BLACK), (BLACK, BLACK)), [(2.0, 2.0)])), image=image)
    samples = EVAL.samples(
        [Entry("a", 0, "val")], lambda entry: boxed(sample, (0.0, 0.0, 4.0, 4.0)), finder().preprocessing
    )
    shown = samples[0]
    assert shown.size == (8, 8) and shown.image[0, 1:-1, 1:-1].min() > 0.99  # resampling blends the very border
    assert shown.keypoints[0].tolist() == pytest.approx([4.0, 4.0])

"""Consistency and stability of a network whose regions are known on paper."""

import pixpnet._torchvision  # noqa: F401  isort: skip  before torchvision

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors

from pixpnet.data import Preprocessing, Sample, preprocess
from pixpnet.data.sample import Annotation, source_sample
from pixpnet.mapping import MAPPINGS, heatmaps
from pixpnet.metrics import consistency_and_stability, part_scores
from pixpnet.metrics.consistency import Consistency
from pixpnet.metrics.draws import generator_for
from pixpnet.records import from_plain, to_plain
from tests.explanation.toys import real
from tests.metrics.part_toys import BLACK, BLUE, RED, WHITE, YELLOW, finder, picture

# Two pictures of class 0: red and yellow are found at the beak and the tail of the first, at the beak and at no part
# of the second.
FIRST = picture(((RED, YELLOW), (BLACK, BLACK)), [(2, 2), (6, 2)], name="first")
SECOND = picture(((YELLOW, BLACK), (BLACK, RED)), [(6, 6), (2, 6)], name="second")
PARTS = (0, 1)


@pytest.mark.parametrize("region", ["window", "field", "claimed"])
def test_two_pictures_by_hand(region: str) -> None:
    result = consistency_and_stability(finder(), [FIRST, SECOND], PARTS, "field", region, window_side=4, noise=0.0)
    # Red: the beak in 2 of 2. Yellow: the tail in 1 of 2. Blue and white have no picture.
    assert [(prototype.part, prototype.frequency, prototype.images) for prototype in result.prototypes] == [
        (0, 1.0, 2),
        (1, 0.5, 2),
        (None, None, 0),
        (None, None, 0),
    ]
    assert result.consistency is not None
    assert result.soft_consistency is not None
    assert (result.consistency.mean, result.soft_consistency.mean) == (0.5, 0.75)
    # Nobody looked at class 1: its prototypes are not undefined, they were not asked about.
    assert (result.undefined, result.not_drawn, result.samples, result.class_images) == (0, 2, 2, (2, 0))
    # Without noise nothing changes.
    assert result.stability is not None
    assert result.soft_stability is not None
    assert (result.stability.mean, result.soft_stability.mean) == (1.0, 1.0)


def test_the_published_window_is_larger_than_a_small_picture_and_finds_everything() -> None:
    result = consistency_and_stability(finder(), [FIRST, SECOND], PARTS)
    assert result.window_side == 72
    assert result.consistency is not None
    assert result.consistency.mean == 1.0


def test_the_threshold_is_an_option() -> None:
    result = consistency_and_stability(finder(), [FIRST, SECOND], PARTS, region="field", threshold=0.5)
    assert result.consistency is not None
    assert result.consistency.mean == 1.0


def test_intervals_draw_whole_classes() -> None:
    # One class alone says nothing about others; its two prototypes are no two witnesses.
    alone = consistency_and_stability(finder(), [FIRST, SECOND], PARTS, region="field")
    assert alone.consistency is not None
    assert (alone.consistency.clusters, alone.consistency.count, alone.consistency.low) == (1, 2, None)
    cold = picture(((BLUE, WHITE), (BLACK, BLACK)), [(2, 2), (6, 2)], label=1, name="cold")
    both = consistency_and_stability(finder(), [FIRST, SECOND, cold], PARTS, region="field")
    # Class 0 has 1 and 1/2, class 1 has 1 and 1: drawing two classes of two gives 3/4 at least and 1 at most.
    assert both.soft_consistency is not None
    assert (both.soft_consistency.mean, both.soft_consistency.low, both.soft_consistency.high) == (0.875, 0.75, 1.0)


def test_noise_that_moves_a_match_to_other_parts_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # "Noise" that exchanges left and right: red goes from the beak to the tail in both pictures, yellow from the tail
    # to the beak in the first, and from no part to no part in the second.
    monkeypatch.setattr(part_scores, "with_noise", lambda image, *_: image.flip(-1))
    result = consistency_and_stability(finder(), [FIRST, SECOND], PARTS, region="field")
    red, yellow = result.prototypes[:2]
    assert (red.stability, red.soft_stability) == (0.0, 0.0)
    assert (yellow.stability, yellow.soft_stability) == (0.5, 0.5)
    assert result.stability is not None
    assert result.stability.mean == 0.25


def test_keypoints_go_where_the_image_goes() -> None:
    # FACTS 7.1. A picture of 8 x 16 pixels whose middle 8 x 8 are shown. Red is in columns 4 and 5, with the beak at
    # x = 5: column 1 of what is shown, and in the 2 x 2 pixels that red's cell sees.
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[0:2, 4:6, 0] = 255
    read = source_sample(pixels, 0, "wide", Annotation(np.array([[5.0, 1.0]]), np.array([True])), masks=None)
    model = finder(side=2)
    shown = preprocess(read, Preprocessing(8, 8, 8, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    right = consistency_and_stability(model, [shown], (0,), region="field", noise=0.0)
    assert right.prototypes[0].frequency == 1.0
    # The old way squashes coordinates to a square: x = 5 * 8 / 16 = 2.5, outside.
    squashed = replace(
        shown, keypoints=tv_tensors.KeyPoints(torch.tensor([[5.0 * 8 / 16, 1.0 * 8 / 8]]), canvas_size=(8, 8))
    )
    wrong = consistency_and_stability(model, [squashed], (0,), region="field", noise=0.0)
    assert wrong.prototypes[0].frequency == 0.0


def test_a_part_that_was_cropped_away_does_not_count() -> None:
    # The tail at x = 15 is outside the middle 8 columns; with it, the beak is the one part that is left.
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[0:4, 4:8, 0] = 255
    annotation = Annotation(np.array([[5.0, 1.0], [15.0, 1.0]]), np.array([True, True]))
    read = source_sample(pixels, 0, "wide", annotation, masks=None)
    shown = preprocess(read, Preprocessing(8, 8, 8, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    assert shown.visible.tolist() == [True, False]
    result = consistency_and_stability(finder(), [shown], PARTS, region="field")
    assert (result.prototypes[0].part, result.prototypes[0].frequency) == (0, 1.0)


def noise_samples(count: int = 4) -> list[Sample]:
    generator = torch.Generator().manual_seed(5)
    made = []
    for number in range(count):
        sample = picture(((RED, RED), (RED, RED)), [(0, 0)] * 8, label=number % 3, name=f"noise {number}")
        points = 48 * torch.rand(8, 2, generator=generator)
        image = tv_tensors.Image(torch.randn(3, 48, 48, generator=generator))
        made.append(replace(sample, image=image, keypoints=tv_tensors.KeyPoints(points, canvas_size=(48, 48))))
    return made


FOLDING = (0, 1, 2, 3, 4, 5, 0, 1)


@pytest.mark.parametrize("mapping", [name for name in MAPPINGS if name != "random"])
def test_what_is_claimed_is_what_the_mapping_claims(mapping: str) -> None:
    model, samples = real(), noise_samples()
    result = consistency_and_stability(model, samples, FOLDING, mapping, "claimed")
    metric = Consistency(6, FOLDING)
    for sample in samples:
        prototypes = model.prototypes_of(sample.label).tolist()
        regions = heatmaps(model, sample.image.as_subclass(Tensor), prototypes, mapping).regions
        metric.update(prototypes, regions, sample.keypoints, sample.visible)
    assert [prototype.frequency for prototype in result.prototypes] == [
        best and best.frequency for best in metric.compute().best
    ]


def test_the_field_is_the_same_whatever_the_mapping() -> None:
    model, samples = real(), noise_samples()
    by_field, by_box = (
        consistency_and_stability(model, samples, FOLDING, mapping, "field") for mapping in ("field", "upsampling")
    )
    assert by_field.prototypes == by_box.prototypes


def test_regions_by_chance_are_drawn_anew_for_the_noisy_image() -> None:
    # Without noise, a random region of one draw would be perfectly stable.
    result = consistency_and_stability(real(), noise_samples(), FOLDING, "random", "claimed", noise=0.0)
    assert result.stability is not None
    assert result.stability.mean < 1


def test_noise_depends_on_the_seed_and_the_sample_alone() -> None:
    model, samples = real(), noise_samples(6)
    one, backwards, other = (
        consistency_and_stability(model, which, FOLDING, region="field", noise=2.0, seed=seed)
        for which, seed in ((samples, 1), (samples[::-1], 1), (samples, 2))
    )
    assert one == backwards
    assert one.prototypes != other.prototypes


def test_clipping_reaches_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Preprocessing | None] = []
    monkeypatch.setattr(part_scores, "with_noise", lambda image, _, __, within, limit: given.append(within) or image)
    model = finder()
    for clip in (False, True):
        assert consistency_and_stability(model, [FIRST], PARTS, clip=clip).clipped is clip
    assert given == [None, model.preprocessing]


def test_without_parts_nothing_is_looked_at_and_there_is_no_score() -> None:
    def unwanted() -> object:
        raise AssertionError("a sample was asked for")
        yield

    result = consistency_and_stability(finder(), unwanted(), ())  # type: ignore[arg-type]
    assert (result.undefined, result.not_drawn, result.samples) == (0, 4, 0)
    assert result.consistency is result.soft_consistency is result.stability is result.soft_stability is None


def test_an_empty_split_is_undefined() -> None:
    result = consistency_and_stability(finder(), [], PARTS)
    assert result.consistency is None
    assert (result.undefined, result.not_drawn) == (0, 4)


def test_undefined_are_prototypes_of_classes_that_were_looked_at_and_showed_no_part() -> None:
    blind = picture(((BLUE, WHITE), (BLACK, BLACK)), [None, None], label=1, name="blind")
    result = consistency_and_stability(finder(), [FIRST, blind], PARTS, region="field")
    assert (result.undefined, result.not_drawn, result.class_images) == (2, 0, (1, 1))


def test_scores_go_to_plain_values_and_back() -> None:
    result = consistency_and_stability(finder(), [FIRST, SECOND], PARTS)
    assert from_plain(type(result), to_plain(result)) == result


def test_progress_counts_samples() -> None:
    told: list[tuple[int, int]] = []
    consistency_and_stability(
        finder(), [FIRST, SECOND], PARTS, progress=lambda _, done, total: told.append((done, total))
    )
    assert told == [(1, 2), (2, 2)]


def test_what_does_not_fit_is_refused() -> None:
    model = finder()
    with pytest.raises(ValueError, match="no mapping is called 'guess'"):
        consistency_and_stability(model, [FIRST], PARTS, "guess")
    with pytest.raises(ValueError, match="preprocess the sample"):
        raw = replace(FIRST, image=tv_tensors.Image(torch.zeros(3, 8, 8, dtype=torch.uint8)))
        consistency_and_stability(model, [raw], PARTS)
    with pytest.raises(ValueError, match="first has class 7"):
        consistency_and_stability(model, [replace(FIRST, label=7)], PARTS)
    with pytest.raises(ValueError, match="training mode"):
        consistency_and_stability(model.train(), [FIRST], PARTS)


def test_generators_are_made_for_a_purpose() -> None:
    assert torch.rand(1, generator=generator_for(0, "a")).equal(torch.rand(1, generator=generator_for(0, "a")))
    assert not torch.rand(1, generator=generator_for(0, "a")).equal(torch.rand(1, generator=generator_for(1, "a")))

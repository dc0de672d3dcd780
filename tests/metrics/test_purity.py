"""Purity by hand, against an independent count on a random network, and its control at random places."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pixpnet.data import Sample
from pixpnet.metrics.purity import Purity, prototype_purity
from pixpnet.model import PixPNet
from pixpnet.model.errors import FieldWarning
from pixpnet.records import from_plain, to_plain
from tests.explanation.toys import real
from tests.metrics.part_toys import BLACK, RED, YELLOW, finder, picture
from tests.metrics.test_part_scores import FOLDING, noise_samples

# Beak and tail. Red is at the beak of both of the first, yellow at the tail of the third, which is of the other class.
FIRST = picture(((RED, BLACK), (BLACK, BLACK)), [(2, 2), (6, 6)], name="first")
SECOND = picture(((BLACK, BLACK), (BLACK, RED)), [(6, 6), (2, 2)], name="second")
OTHER = picture(((YELLOW, BLACK), (BLACK, BLACK)), [(6, 6), (2, 2)], label=1, name="other")
PARTS = (0, 1)


def warm() -> PixPNet:
    """The head uses red and yellow, and neither blue nor white."""
    model = finder(head="linear")
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[1.0, 1.0, 0.0, 1e-6], [-0.5, -0.5, -1.0, 0.0]]))
    return model


def test_two_prototypes_by_hand() -> None:
    result = prototype_purity(warm(), [FIRST, SECOND, OTHER], PARTS, images=2, box_side=4)
    # Red: its own two pictures, the beak in both: 1. Yellow: the other class's picture (tail) and, of two that are
    # equally near, the first (beak): 1/2.
    for figures in (result.box, result.field):
        assert figures.mean is not None and figures.pure is not None and figures.deviation is not None
        assert (figures.mean.mean, figures.pure.mean, figures.pure_count) == (0.75, 0.5, 1)
        assert figures.deviation == pytest.approx(0.125**0.5)
        assert figures.undefined == 0
        assert figures.mean.clusters == 1  # both are of one class
    assert (result.prototypes, result.unconnected, result.without_parts) == (2, 2, 0)
    assert (result.images_per_prototype, result.training_images, result.box_side) == (2, 3, 4)


def test_a_box_is_around_the_middle_of_the_field_and_scaled_with_the_image() -> None:
    # One pixel of 8 (32 x 8 / 224 = 1.1), at row and column 1: the beak is in the field and not in the box.
    result = prototype_purity(warm(), [FIRST], PARTS, images=1)
    assert result.box_side == 1
    assert result.box.mean is not None and result.field.mean is not None
    assert (result.box.mean.mean, result.field.mean.mean) == (0.0, 1.0)
    near = replace(FIRST, keypoints=type(FIRST.keypoints)(torch.tensor([[1.5, 1.5], [6.0, 6.0]]), canvas_size=(8, 8)))
    result = prototype_purity(warm(), [near], PARTS, images=1)
    assert result.box.mean is not None and result.box.mean.mean == 1.0


def test_left_and_right_are_one_part() -> None:
    apart = prototype_purity(warm(), [FIRST, replace(OTHER, label=0)], (0, 1), images=2)
    folded = prototype_purity(warm(), [FIRST, replace(OTHER, label=0)], (0, 0), images=2)
    assert apart.field.mean is not None and folded.field.mean is not None
    # Both prototypes find the beak of the one and the tail of the other picture.
    assert (apart.field.mean.mean, folded.field.mean.mean) == (0.5, 1.0)


def unseen(sample: Sample, *visible: bool) -> Sample:
    return replace(sample, visible=torch.tensor(visible))


def test_images_that_do_not_show_a_part_say_nothing_about_it() -> None:
    result = prototype_purity(warm(), [unseen(FIRST, False, False), SECOND], PARTS, images=2)
    assert result.field.mean is not None and result.field.mean.mean == 1.0
    assert (result.without_parts, result.field.undefined) == (2, 0)
    blind = prototype_purity(warm(), [unseen(FIRST, False, False)], PARTS, images=1)
    assert (blind.field.mean, blind.field.pure, blind.field.deviation) == (None, None, None)
    assert (blind.field.undefined, blind.without_parts) == (2, 2)


def test_fewer_images_than_asked_for_are_all_looked_at() -> None:
    assert prototype_purity(warm(), [FIRST, SECOND], PARTS).images_per_prototype == 2


def test_a_field_as_large_as_the_image_is_as_pure_at_random_places() -> None:
    with pytest.warns(FieldWarning):
        model = finder(side=8)
    result = prototype_purity(model, [FIRST, SECOND, OTHER], PARTS)
    assert result.field == result.random_field
    assert result.field.mean is not None and result.field.mean.mean == 1.0


def test_random_places_are_drawn_evenly_and_by_the_seed() -> None:
    # A region of 4 pixels may begin at 0 to 4 of 8 and holds pixel 4 unless it begins at 0: (4/5)^2 = 0.64.
    samples = [picture(((RED, BLACK), (BLACK, BLACK)), [(4.5, 4.5)], name=f"picture {number}") for number in range(200)]
    result, again, other = (prototype_purity(warm(), samples, (0,), images=200, seed=seed) for seed in (0, 0, 1))
    assert result == again
    assert result.random_field != other.random_field
    assert result.random_field.mean is not None and result.field.mean is not None
    assert result.random_field.mean.mean == pytest.approx(0.64, abs=0.08)
    assert result.field.mean.mean == 0.0  # the point is in another square


def test_a_random_network_is_counted_the_same_by_masks_and_sorting() -> None:
    model, samples = real(), noise_samples(14)
    result = prototype_purity(model, samples, FOLDING, images=4)
    with torch.no_grad():
        matches = model(torch.stack([sample.image.as_subclass(Tensor) for sample in samples])).matches
    expected = []
    for prototype in range(6):
        ranked = sorted(range(14), key=lambda number: -float(matches.scores[number, prototype]))[:4]
        shares = []
        for part in range(6):
            hits = []
            for number in ranked:
                mask = model.field.mask(*matches.cells[number, prototype].tolist())
                points = [samples[number].keypoints[k].tolist() for k in range(8) if FOLDING[k] == part]
                hits.append(any(mask[int(y), int(x)] for x, y in points))
            shares.append(sum(hits) / 4)
        expected.append(max(shares))
    assert result.field.mean is not None
    assert result.field.mean.mean == pytest.approx(sum(expected) / 6)
    assert result.field.pure_count == sum(value > 0.5 for value in expected)


def test_the_order_of_images_changes_nothing_where_no_scores_are_equal() -> None:
    model, samples = real(), noise_samples(14)
    assert prototype_purity(model, samples, FOLDING, images=4) == prototype_purity(
        model, samples[::-1], FOLDING, images=4
    )


def test_without_parts_it_is_refused_and_records_read_back() -> None:
    with pytest.raises(ValueError, match="point_parts names none"):
        prototype_purity(warm(), [FIRST], ())
    result = prototype_purity(warm(), [FIRST, SECOND, OTHER], PARTS)
    assert from_plain(Purity, to_plain(result)) == result

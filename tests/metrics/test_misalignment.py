"""Misalignment: attacks worked out on paper, the law of the exact field, and the figures by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pixpnet import zoo
from pixpnet.data import Sample, preprocess
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.misalignment import (
    AttackedImage,
    AttackedPrototype,
    AttackSettings,
    attack_images,
    misalignment,
    summarize,
)
from pixpnet.metrics.misalignment import attacks as attacks_module
from pixpnet.metrics.misalignment.attacks import descend, random_start
from pixpnet.metrics.misalignment.protection import highest_pixels, protected_mask
from pixpnet.model import Backbone, PixPNet
from pixpnet.windows import Windows
from tests.explanation.toys import PLAIN, as_sample, photo, real, real_with_two_grids
from tests.metrics.part_toys import BLACK, BLUE, RED, YELLOW, finder, picture

FEW = AttackSettings(steps=6, step=0.1)


def named(model: PixPNet, seed: int, label: int = 0) -> Sample:
    """A picture of noise as a network gets it."""
    return replace(preprocess(as_sample(photo(seed), f"photo {seed}"), model.preprocessing), label=label)


def on_windows() -> PixPNet:
    """Cells that each are one window."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        backbone = Backbone(zoo.build("small-29"), "", (48, 48), windows=Windows(24, 12))
        made = PixPNet(
            backbone, Architecture(dim=8, prototypes_per_class=2), ("a", "b", "c"), replace(PLAIN, crop=48, size=48)
        ).eval()
        with torch.no_grad():
            patches = made.embed(torch.randn(1, 3, 48, 48))[0][0].flatten(1).T
            made.prototypes.copy_(patches[[0, 2, 4, 5, 7, 8], :, None, None])
    return made


def test_descent_on_paper_walks_the_free_pixels_of_the_named_cell_away_and_leaves_all_others_where_they_began() -> None:
    model, sample = finder(), picture(((RED, BLACK), (BLACK, BLACK)), ())
    image = sample.image.as_subclass(Tensor)
    free = torch.ones(8, 8, dtype=torch.bool)
    free[:3, :3] = False  # 7 of the 16 pixels of the red square may change
    attack = AttackSettings()
    start = random_start(image, free, attack, 0, "a")
    (result,) = descend(model, image[None], start[None], free[None], [(0,)], attack)
    # Red is at distance 0; each channel's mean leaves its value in the direction in which noise has pushed it.
    noise = (start - image)[:, :4, :4]
    direction = noise.sum(dim=(1, 2)).sign()[:, None, None]
    direction[1:].clamp_(min=0)  # a ReLU of the add-on hides means below 0, so nothing pulls there
    expected = (noise + 0.4 * direction).clamp(-0.4, 0.4) * free[:4, :4]
    torch.testing.assert_close((result - image)[:, :4, :4], expected, atol=1e-5, rtol=0)
    outside = torch.ones(8, 8, dtype=torch.bool)
    outside[:4, :4] = False
    assert torch.equal(result[:, outside], start[:, outside])
    means = (image[:, :4, :4] + expected).mean(dim=(1, 2))
    distance = float((means.relu().sigmoid() - torch.tensor(RED).float().sigmoid()).square().sum())
    similarity = math.log(1 / (distance + 1) + 1)
    with torch.no_grad():
        assert float(model(result[None]).matches.scores[0, 0]) == pytest.approx(similarity, abs=1e-6)


def test_noise_is_the_random_start_and_touches_nothing_that_is_protected() -> None:
    image = torch.zeros(3, 8, 8)
    free = torch.zeros(8, 8, dtype=torch.bool)
    free[2:5, 1:7] = True
    start = random_start(image, free, AttackSettings(), 3, "a")
    assert not start[:, ~free].any()
    assert start[:, free].abs().max() <= 0.4
    assert start[:, free].abs().mean() == pytest.approx(0.2, abs=0.05)  # uniform
    assert torch.equal(start, random_start(image, free, AttackSettings(), 3, "a"))
    assert not torch.equal(start, random_start(image, free, AttackSettings(), 3, "another"))


@pytest.mark.parametrize("kind", ["max", "distinct", "two grids", "windows"])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000), attacked=st.sampled_from(["best", "class"]))
def test_with_the_exact_field_protected_the_named_cell_cannot_move(kind: str, seed: int, attacked: str) -> None:
    models = {
        "max": real,
        "distinct": lambda: real(pooling="distinct"),
        "two grids": real_with_two_grids,
        "windows": on_windows,
    }
    model = models[kind]()
    sample = named(model, seed, seed % 3)
    chosen = replace(FEW, attacked=attacked)  # type: ignore[arg-type]
    for attack in ("noise", "pgd"):
        result = misalignment(model, [sample], attack, "field", chosen, seed=seed)
        assert result.moved == 0
        estimate = result.fixed_cell_pac.estimate
        assert estimate is not None and estimate.mean == pytest.approx(0, abs=1e-4)
        if kind != "distinct":  # the maximum can only grow
            assert result.pac.estimate is not None and result.pac.estimate.mean <= 1e-4


def test_with_the_published_box_protected_descent_moves_cells_and_scores_fall_further_than_by_noise() -> None:
    model = real()
    samples = [named(model, seed) for seed in range(4)]
    noise, pgd = (misalignment(model, samples, attack, "box", FEW) for attack in ("noise", "pgd"))
    assert pgd.moved > 0 and pgd.pac.estimate is not None and noise.pac.estimate is not None
    assert pgd.pac.estimate.mean > noise.pac.estimate.mean + 0.01
    assert pgd.images == 4 and pgd.pac.estimate.low is not None


@pytest.mark.parametrize("attacked", [[(0,), (4,)], [(0, 1, 5), (2, 3)]])
def test_on_windows_the_gradient_of_a_few_cells_is_the_gradient(attacked: list[tuple[int, ...]]) -> None:
    model = on_windows()
    images = torch.stack([named(model, seed).image.as_subclass(Tensor) for seed in (1, 2)])
    leaf = images.clone().requires_grad_()
    matches = model(leaf).matches
    maps = model.grids[0].comparison.similarity(matches.distance_maps)
    total = sum(maps[index, list(own)].amax(dim=(1, 2)).mean() for index, own in enumerate(attacked))
    (expected,) = torch.autograd.grad(total, leaf)  # type: ignore[arg-type]
    difference = attacks_module._gradient(model, images, attacked) - expected
    assert float(difference.abs().max()) < 1e-3 * float(expected.abs().max())


def test_leaving_out_images_that_stand_still_changes_nothing() -> None:
    model = real()
    samples = [named(model, seed) for seed in range(3)]
    (together,) = attack_images(model, samples, "pgd", ("field",), FEW)
    for sample in samples:
        (alone,) = attack_images(model, [sample], "pgd", ("field",), FEW)
        one, other = together[sample.id].prototypes[0], alone[sample.id].prototypes[0]
        assert one.after == pytest.approx(other.after, rel=1e-5) and one.prototype == other.prototype


def test_no_gradient_is_left_on_the_model() -> None:
    model = real()
    misalignment(model, [named(model, 0)], "pgd", "box", FEW)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_figures_of_an_attacked_prototype_by_hand() -> None:
    one = AttackedPrototype(3, 2.0, 1.5, 2.0, 2.0, False, 4, 7, 0.25)
    assert (one.pac, one.fixed_cell_pac, one.prc, one.plc) == (0.25, 0.0, 3, 0.75)
    undefined = AttackedPrototype(3, 0.0, 1.5, 0.0, 0.0, False, 0, 0, None)
    assert (undefined.pac, undefined.fixed_cell_pac, undefined.prc, undefined.plc) == (None, None, None, None)


def test_means_over_images_count_what_is_undefined_and_an_images_prototypes_once() -> None:
    def attacked(*pairs: tuple[float, float], right: tuple[bool, bool] = (True, True)) -> AttackedImage:
        prototypes = (AttackedPrototype(0, *pair, *pair, True, 0, 2, None) for pair in pairs)
        return AttackedImage(tuple(prototypes), 0.5, *right)

    images = {
        "a": attacked((1.0, 0.5), (1.0, 1.0)),
        "b": attacked((2.0, 0.0), right=(True, False)),
        "c": attacked((0.0, 1.0)),
    }
    result = summarize(images, "pgd", "box", AttackSettings())
    assert result.pac.estimate is not None and result.pac.estimate.mean == pytest.approx((0.25 + 1.0) / 2)
    assert result.pac.undefined == 1 and result.plc.estimate is None and result.plc.undefined == 3
    assert result.median_pac == pytest.approx(0.625)
    assert result.prc.estimate is not None and (result.prc.estimate.mean, result.prc.undefined) == (2, 1)
    assert (result.attacked, result.scoreless) == (4, 1)
    assert result.ac.estimate is not None and result.ac.estimate.mean == pytest.approx(1 / 3)
    assert (result.accuracy_before, result.accuracy_after, result.moved) == (1.0, pytest.approx(2 / 3), 4)
    nothing = summarize({}, "noise", "field", AttackSettings())
    assert nothing.pac.estimate is None and nothing.accuracy_before is None and nothing.images == 0


def test_rivals_are_prototypes_of_other_classes_with_a_larger_score() -> None:
    # Blue is found as it is; the image is of class 0 (red, yellow), so blue and white are the others.
    sample = picture(((BLUE, YELLOW), (BLACK, BLACK)), (), label=0)
    model = finder()
    (result,) = attack_images(model, [sample], "noise", ("field",), AttackSettings(attacked="class"))
    red, yellow = result["a"].prototypes
    with torch.no_grad():
        scores = model(sample.image.as_subclass(Tensor)[None]).matches.scores[0].numpy()
    assert red.rivals_before == int((scores[2:] > scores[0]).sum()) == 1
    assert yellow.rivals_before == int((scores[2:] > scores[1]).sum()) == 0


def test_the_published_box_is_the_grown_box_around_the_top_of_the_bicubic_map_as_opencv_makes_it() -> None:
    import cv2

    model = finder(2)
    sample = picture(((BLACK, BLACK), (BLACK, RED)), ())
    with torch.no_grad():
        matches = model(sample.image.as_subclass(Tensor)[None]).matches
    free = ~protected_mask(model, matches, 0, (0,), (8, 8), "box", 28)  # 28 pixels of 224 are 1 of 8
    similarities = model.grids[0].comparison.similarity(matches.distance_maps[0, 0]).numpy()
    # OpenCV takes another cubic (-0.75, as torch does) and the same alignment of pixels.
    enlarged = cv2.resize(similarities, (8, 8), interpolation=cv2.INTER_CUBIC)
    rows, cols = np.nonzero(enlarged >= np.percentile(enlarged, 95) - 1e-6)
    expected = np.zeros((8, 8), bool)
    expected[max(rows.min() - 1, 0) : rows.max() + 2, max(cols.min() - 1, 0) : cols.max() + 2] = True
    assert (~free.numpy() == expected).all()


def test_the_highest_tenth_is_strictly_above_the_quantile() -> None:
    similarities = torch.arange(100.0).reshape(10, 10)
    assert highest_pixels(similarities, (10, 10)).sum() == 10
    assert not highest_pixels(torch.ones(1, 1), (8, 8)).any()


def test_unknown_names_training_mode_and_bad_settings_are_refused() -> None:
    model = real()
    sample = named(model, 0)
    with pytest.raises(ValueError, match="no attack is called 'fgsm': choose one of noise, pgd"):
        misalignment(model, [sample], "fgsm")
    with pytest.raises(ValueError, match="no protection is called 'hull': choose one of box, field"):
        misalignment(model, [sample], "noise", "hull")
    with pytest.raises(ValueError, match="training mode"):
        misalignment(model.train(), [sample])
    with pytest.raises(ValueError, match="steps are 1 or more"):
        AttackSettings(steps=0)

"""Changed pictures change one quality of one region; what falls is worked out on paper for networks that are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pixpnet.explanation import Explanation, explain, part_qualities
from pixpnet.explanation.alterations import alterations
from pixpnet.explanation.quality import QUALITIES, Quality, QualityName
from pixpnet.records import BadRecord
from tests.explanation.toys import PICTURE, as_sample, photo, real, similarity, toy

LUMA = np.array([0.299, 0.587, 0.114])


def picture(seed: int = 0) -> Tensor:
    return torch.rand(3, 24, 30, generator=torch.Generator().manual_seed(seed))


def with_hole() -> Tensor:
    """A region of two columns of pixels with a gap between them, off the edges."""
    region = torch.zeros(24, 30, dtype=torch.bool)
    region[4:20, 3:11] = region[4:20, 14:22] = True
    return region


@pytest.mark.parametrize("quality", QUALITIES)
def test_nothing_outside_the_region_changes_and_nothing_outside_is_read(quality: QualityName) -> None:
    image, region = picture(), with_hole()
    changed = list(alterations(image, region, quality, seed=1))
    other = torch.where(region, image, picture(9))
    for one, two in zip(changed, alterations(other, region, quality, seed=1), strict=True):
        assert torch.equal(one[:, ~region], image[:, ~region])
        assert (one[:, region] - image[:, region]).abs().max() > 0.05
        assert one.min() >= 0
        assert one.max() <= 1
        torch.testing.assert_close(one[:, region], two[:, region], rtol=0, atol=1e-5)


@pytest.mark.parametrize("quality", ["color", "hue", "saturation"])
def test_changes_of_color_keep_the_brightness_of_every_pixel(quality: QualityName) -> None:
    image, region = picture(), with_hole()
    before = np.tensordot(LUMA, image.double().numpy(), 1)
    for changed in alterations(image, region, quality, seed=0):
        np.testing.assert_allclose(np.tensordot(LUMA, changed.double().numpy(), 1), before, atol=2e-5)


def test_grey_pictures_have_no_color_to_change_and_plain_ones_no_texture() -> None:
    region = with_hole()
    grey = picture()[:1].expand(3, -1, -1)
    for quality in ("color", "hue", "saturation"):
        for changed in alterations(grey, region, quality, seed=0):  # type: ignore[arg-type]
            torch.testing.assert_close(changed, grey, rtol=0, atol=2e-5)
    plain = torch.tensor([0.8, 0.4, 0.1])[:, None, None].expand(3, 24, 30)
    for quality in ("texture", "shape", "contrast"):
        for changed in alterations(plain, region, quality, seed=0):  # type: ignore[arg-type]
            torch.testing.assert_close(changed, plain, rtol=0, atol=2e-5)


def test_a_turn_by_180_degrees_gives_the_complement_at_the_same_brightness() -> None:
    pixels = torch.full((3, 4, 4), 0.5)
    pixels[0] += 0.2
    region = torch.ones(4, 4, dtype=torch.bool)
    half = list(alterations(pixels, region, "hue", seed=0))[1]
    luma = 0.5 + 0.299 * 0.2
    expected = torch.tensor([2 * luma - 0.7, 2 * luma - 0.5, 2 * luma - 0.5])
    torch.testing.assert_close(half, expected[:, None, None].expand_as(half), rtol=0, atol=1e-5)


def test_contrast_is_halved_and_doubled_around_the_regions_mean() -> None:
    pixels = torch.full((3, 2, 2), 0.5)
    pixels[:, 0] = 0.6
    pixels[:, 1] = 0.4
    halved, doubled = alterations(pixels, torch.ones(2, 2, dtype=torch.bool), "contrast", seed=0)
    assert halved[0, :, 0].tolist() == pytest.approx([0.55, 0.45], abs=1e-6)
    assert doubled[0, :, 0].tolist() == pytest.approx([0.7, 0.3], abs=1e-6)


def test_shuffled_blocks_are_the_same_pixels_and_none_stays() -> None:
    image = picture()[:, :16, :16]
    changed = list(alterations(image, torch.ones(16, 16, dtype=torch.bool), "shape", seed=3))
    for one in changed:
        assert torch.equal(one.flatten().sort().values, image.flatten().sort().values)
        blocks = (one == image).all(dim=0).reshape(4, 4, 4, 4).permute(0, 2, 1, 3).reshape(16, 16)
        assert not blocks.all(dim=1).any()
    assert not torch.equal(changed[0], changed[1])
    again = list(alterations(image, torch.ones(16, 16, dtype=torch.bool), "shape", seed=3))
    assert all(torch.equal(one, two) for one, two in zip(changed, again, strict=True))


def falls(explanation: Explanation, prototype: int) -> dict[str, float | None]:
    (term,) = [term for term in explanation.predicted.terms if term.prototype == prototype]
    return {quality.name: quality.fall for quality in term.qualities}


def test_a_cell_that_knows_nothing_but_mean_color_falls_by_color_alone() -> None:
    model = toy()
    explanation = part_qualities(model, as_sample(PICTURE), explain(model, as_sample(PICTURE)))
    red = falls(explanation, 0)  # its part is plain red: the mean colour of 4 x 4 pixels, and its prototype is red
    for quality in ("contrast", "texture", "shape"):
        assert red[quality] == pytest.approx(0, abs=1e-5)
    # Grey of the same brightness: every channel 0.299 instead of (1, 0, 0), behind the sigmoid of the add-on.
    grey = 1 / (1 + np.exp(-0.299))
    distance = (1 / (1 + np.exp(-1.0)) - grey) ** 2 + 2 * (grey - 0.5) ** 2
    expected = 1 - np.log(1 / (1 + distance) + 1) / similarity(0)
    assert red["color"] == pytest.approx(expected, abs=1e-5)
    assert expected > 0.01


class Edges(nn.Module):
    """Knows nothing but how much neighbours differ in brightness."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(4)

    def forward(self, x: Tensor) -> Tensor:
        luma = (x * x.new_tensor(LUMA.astype(np.float32))[:, None, None]).sum(dim=1, keepdim=True)
        steps = (luma[..., 1:] - luma[..., :-1]).abs()
        return self.pool(nn.functional.pad(steps, (0, 1))).expand(-1, 3, -1, -1)


def test_a_cell_that_knows_nothing_but_edges_does_not_fall_by_color() -> None:
    model = toy(Edges())
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    explanation = part_qualities(model, as_sample(image), explain(model, as_sample(image)))
    for term in explanation.predicted.terms:
        by_name = falls(explanation, term.prototype)
        for quality in ("color", "hue", "saturation"):
            assert by_name[quality] == pytest.approx(0, abs=1e-5)
        assert max(abs(by_name[quality] or 0) for quality in ("contrast", "texture")) > 1e-3


def test_only_qualities_are_added_and_they_survive_json_and_are_told_everywhere() -> None:
    model = real()
    done: list[tuple[int, int]] = []
    plain = explain(model, as_sample(photo()))
    explanation = part_qualities(
        model, as_sample(photo()), plain, progress=lambda task, count, of: done.append((count, of))
    )
    assert done[-1][0] == done[-1][1] == len({term.region for term in plain.predicted.terms})
    terms = tuple(replace(term, qualities=()) for term in explanation.predicted.terms)
    stripped = replace(explanation, classes=(replace(explanation.predicted, terms=terms), *explanation.classes[1:]))
    assert stripped == plain
    assert Explanation.from_json(explanation.to_json()) == explanation
    for term in explanation.predicted.terms:
        assert [quality.name for quality in term.qualities] == list(QUALITIES)
    assert "matter" in str(explanation)
    assert "What the parts are made of" in explanation.details()
    assert "What the parts are made of" not in plain.details()


def test_a_similarity_that_is_not_positive_has_no_share_that_falls() -> None:
    model = real()
    image = as_sample(photo())
    explanation = explain(model, image)
    with pytest.MonkeyPatch.context() as patch:
        for grid in model.grids:
            patch.setattr(type(grid.comparison.similarity), "__call__", lambda self, distance: -distance)
        measured = part_qualities(model, image, explanation)
    for term in measured.predicted.terms:
        assert all(quality.fall is None for quality in term.qualities)
    assert "not positive" in str(measured)


def test_another_picture_or_a_broken_record_is_refused() -> None:
    model = real()
    explanation = explain(model, as_sample(photo()))
    with pytest.raises(ValueError, match="not the image that was explained"):
        part_qualities(model, as_sample(photo(seed=5)), explanation)
    text = part_qualities(model, as_sample(photo()), explanation).to_json()
    with pytest.raises(BadRecord, match="qualities"):
        Explanation.from_json(text.replace('"hue"', '"smell"', 1))
    with pytest.raises(ValueError, match="0 images"):
        Quality("color", 0.1, 0)

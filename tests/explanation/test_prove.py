"""The proof holds for exact regions, and fails for any that is a row short."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from pixpnet.box import Box
from pixpnet.data import preprocess
from pixpnet.explanation import Explanation, Proof, changed_images, explain, prove
from pixpnet.model import PixPNet
from tests.explanation.test_explain import HEADS, Everywhere
from tests.explanation.toys import PICTURE, RED, WHITE, as_sample, photo, quarters, real, seen, similarity, toy


def _proofs(explanation: Explanation) -> Iterator[Proof]:
    for explained in explanation.classes:
        for term in explained.terms:
            assert term.proof is not None
            yield term.proof


def _with_regions(explanation: Explanation, change: object) -> Explanation:
    classes = tuple(
        replace(explained, terms=tuple(replace(term, region=change(term.region)) for term in explained.terms))  # type: ignore[operator]
        for explained in explanation.classes
    )
    return replace(explanation, classes=classes)


@pytest.mark.parametrize("options", [{}, {"distance": "squared_l2"}, {"prototype_rows": 2, "prototype_cols": 3}])
def test_pixels_outside_a_region_never_move_its_cell(options: dict[str, object]) -> None:
    model = real(**options)
    explanation = explain(model, as_sample(photo()), classes=[0, 1, 2])
    proven = prove(model, as_sample(photo()), explanation, draws=6, seed=1)
    for proof in _proofs(proven):
        assert proof.passed
        assert (proof.draws, proof.seed) == (6, 1)
        assert proof.field.largest_distance_deviation <= proof.tolerance <= 1e-4
        assert proof.inside > 100 * proof.field.largest_deviation
        assert proof.inside > 0
        ((y0, x0, y1, x1),) = proof.field.region
        assert proof.tested
        assert proof.field.outside == 48 * 48 - (y1 - y0) * (x1 - x0)
    # Nothing but the proofs, and the scores that decide, was added.
    classes = tuple(
        replace(explained, terms=tuple(replace(term, proof=None) for term in explained.terms))
        for explained in proven.classes
    )
    assert replace(proven, classes=classes, deciding=None) == explanation


@pytest.mark.parametrize("head", HEADS)
def test_every_head_can_be_proven(head: str) -> None:
    model = real(head)
    proven = prove(model, as_sample(photo()), explain(model, as_sample(photo()), top=3), draws=3)
    assert all(proof.passed for proof in _proofs(proven))


@pytest.mark.parametrize("side", ["top", "left", "bottom", "right"])
def test_a_region_that_is_one_row_or_column_short_is_caught(side: str) -> None:
    model = real()
    explanation = explain(model, as_sample(photo()), classes=[0, 1, 2])

    def shortened(region: tuple[Box, ...]) -> tuple[Box, ...]:
        ((y0, x0, y1, x1),) = region
        return (Box(y0 + (side == "top"), x0 + (side == "left"), y1 - (side == "bottom"), x1 - (side == "right")),)

    proven = prove(model, as_sample(photo()), _with_regions(explanation, shortened))
    proofs = list(_proofs(proven))
    assert not any(proof.passed for proof in proofs)
    assert all(proof.field.largest_deviation > 0 for proof in proofs)
    assert "0 of 6 claims hold" in proven.details()
    assert "FAILS" in proven.details()


def test_on_paper_the_color_of_the_rest_may_move_the_score_but_not_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    # Around each square the rest becomes white; white is at most two channels away from red, the prototype is found
    # as it was, and white itself, one channel away from yellow before, is now found as it is.
    model = toy()
    explanation = explain(model, as_sample(PICTURE))
    white = as_sample(quarters((WHITE, WHITE), (WHITE, WHITE)), "white")
    proven = prove(model, as_sample(PICTURE), explanation, draws=3, others=[white])
    result = {term.prototype: term.proof for explained in proven.classes for term in explained.terms}
    assert all(proof is not None and proof.passed for proof in result.values())
    assert result[3] is not None
    assert result[3].score_outside >= similarity(0) - similarity(1) - 1e-6
    # White in the place of blue is two channels away, and whatever else is drawn, at most three can be.
    assert result[2] is not None
    assert result[2].inside >= similarity(0) - similarity(2) - 1e-6


def test_the_pictures_around_regions_are_training_images_where_the_run_has_them(tmp_path: Path) -> None:
    model, sample = real(), as_sample(photo())
    explanation = explain(model, sample)

    def around(**given: object) -> set[str]:
        return {proof.pictures for proof in _proofs(prove(model, sample, explanation, draws=3, **given))}  # type: ignore[arg-type]

    itself = "the image itself, mirrored and moved"
    assert around() == {itself}
    assert around(others=[as_sample(photo(5))]) == {"pictures that were given"}
    model.pictures = tmp_path
    assert around() == {itself}
    # Only the training image is red: it is what a picture around a part must be made of.
    red = np.full((48, 48, 3), (255, 0, 0), np.uint8)
    Image.fromarray(red).save(tmp_path / "0.jpg", quality=100)
    shown: list[torch.Tensor] = []
    hook = model.register_forward_pre_hook(lambda module, inputs: shown.append(inputs[0]))
    assert around() == {"training images"}
    hook.remove()
    reddest = max(float((images[:, 0] - images[:, 1:].mean(dim=1)).mean(dim=(1, 2)).max()) for images in shown)
    assert reddest > 2  # (1 - 0) / 0.25 in the picture, and little of it is covered by the part
    (tmp_path / "0.jpg").write_bytes(b"no picture")
    assert around() == {itself}
    Image.fromarray(photo(1, (24, 24))).save(tmp_path / "0.jpg")
    assert around() == {itself}


def test_the_box_of_upsampling_is_put_to_the_same_test() -> None:
    model = real()
    proven = prove(model, as_sample(photo()), explain(model, as_sample(photo())))
    for explained in proven.classes:
        for term in explained.terms:
            assert term.proof is not None
            trial = term.proof.upsampling
            (box,) = trial.region
            # 5 % of 48 x 48 pixels at least are in the box.
            assert (box.y1 - box.y0) * (box.x1 - box.x0) >= 0.05 * 48 * 48
            (field,) = term.region
            inside = box.y0 <= field.y0 and box.x0 <= field.x0 and box.y1 >= field.y1 and box.x1 >= field.x1
            assert trial.passed == inside
            assert (trial.largest_deviation > 1e-3) == (not inside)
    assert not all(proof.upsampling.passed for proof in _proofs(proven))


def test_an_empty_region_allows_any_change() -> None:
    model = toy(nn.Sequential(nn.AvgPool2d(4), nn.ZeroPad2d(1)))
    with torch.no_grad():
        model.prototypes[0] = 0.5
    picture = as_sample(quarters((WHITE, WHITE), (WHITE, RED)))
    explanation = explain(model, picture, classes=["warm"])
    proven = prove(model, picture, explanation)
    (proof,) = (term.proof for term in proven.explained("warm").terms if term.prototype == 0)
    assert proof is not None
    assert proof.field.region == ()
    assert proof.passed
    assert proof.field.largest_deviation == proof.inside == 0.0


def test_where_cells_see_everything_there_is_nothing_outside() -> None:
    with pytest.warns(UserWarning):
        model = toy(Everywhere())
    proven = prove(model, as_sample(PICTURE), explain(model, as_sample(PICTURE)))
    assert all(not proof.tested and proof.inside > 0 for proof in _proofs(proven))
    text = " ".join(proven.details().split())
    assert "nothing outside" in text
    # What cannot fail is no proof.
    assert "hold" not in text
    assert "For 4 of 4 terms the part is the whole picture: nothing could be tested." in text


def test_an_answer_that_is_not_finite_proves_nothing() -> None:
    model = toy()
    explanation = explain(model, as_sample(PICTURE))

    def unsteady(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        """NaN for every image but the one that was explained."""
        same = (inputs[0] == cells).all(dim=3).all(dim=2).all(dim=1)
        return torch.where(same[:, None, None, None], output, torch.nan)

    cells = model.backbone(seen(model, PICTURE)[None])
    model.add_on.register_forward_hook(unsteady)
    with pytest.raises(ValueError, match="not finite"):
        prove(model, as_sample(PICTURE), explanation)


def test_the_same_seed_draws_the_same_and_another_seed_others() -> None:
    model = real()
    explanation = explain(model, as_sample(photo()))
    first, again, other = (prove(model, as_sample(photo()), explanation, draws=2, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert [proof.inside for proof in _proofs(first)] != [proof.inside for proof in _proofs(other)]


def test_terms_that_claim_the_same_pixels_share_images_and_progress_ends_at_its_total() -> None:
    model, calls, images = toy(), [], []
    model.register_forward_pre_hook(lambda module, inputs: images.append(len(inputs[0])))
    explanation = explain(model, as_sample(PICTURE))
    images.clear()
    prove(model, as_sample(PICTURE), explanation, draws=2, progress=lambda _, done, total: calls.append((done, total)))
    # Four terms, three cells (yellow and white are found in the same one): outside and inside of three squares, and the
    # upsampled boxes, which on 2 x 2 cells are one for each of them at most; two draws of each.
    done, total = calls[-1]
    assert done == total
    assert 2 * (3 + 3 + 1) <= total <= 2 * (3 + 3 + 4)
    # The explained image twice by itself (for its distances, and for the boxes of upsampling), and once in each batch.
    assert sum(images) == 2 + total + len(calls)


def test_batches_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:

    model = real()
    explanation = explain(model, as_sample(photo()))
    whole = prove(model, as_sample(photo()), explanation, draws=2)
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    monkeypatch.setattr(changed_images, "_BATCH_NUMBERS", 4 * 3 * 48 * 48)
    small = prove(model, as_sample(photo()), explanation, draws=2)
    assert max(sizes) == 4
    for one, other in zip(_proofs(whole), _proofs(small), strict=True):
        assert one.inside == pytest.approx(other.inside, rel=1e-2)
        assert one.passed
        assert other.passed


def test_another_image_another_model_and_training_mode_are_refused() -> None:
    model = real()
    explanation = explain(model, as_sample(photo()))
    with pytest.raises(ValueError, match="not the image that was explained"):
        prove(model, as_sample(photo(1)), explanation)
    with pytest.raises(ValueError, match="at least one draw"):
        prove(model, as_sample(photo()), explanation, draws=0)
    with pytest.raises(ValueError, match="other classes"):
        prove(toy(), as_sample(PICTURE), replace(explanation, pixels=PICTURE.tobytes(), size=(8, 8)))
    other = real()
    with torch.no_grad():
        other.prototypes.copy_(other.prototypes.flip(0))
    with pytest.raises(ValueError, match="give the model that was explained"):
        prove(other, as_sample(photo()), explanation)
    with pytest.raises(ValueError, match="cannot be put around"):
        small = preprocess(as_sample(PICTURE), toy().preprocessing)
        prove(model, as_sample(photo()), explanation, draws=3, others=[small])
    model.train()
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        prove(model, as_sample(photo()), explanation)


def test_the_model_is_left_as_it_was() -> None:
    model: PixPNet = real()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    image = preprocess(as_sample(photo()), model.preprocessing)
    pixels = image.image.clone()
    prove(model, image, explain(model, image), draws=3)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(image.image, pixels)
    assert not any(module.training for module in model.modules())

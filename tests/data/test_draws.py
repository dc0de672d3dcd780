"""The random choices of the augmentation, against the paper's list and torchvision's ranges."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms import v2

from pixpnet.data import Augmentation, Draw, Preprocessing, draw, stock_pipeline, view_generator

AUGMENTATION = Augmentation()
unit = st.floats(0, 1, exclude_max=True)


@given(st.tuples(unit, unit))
def test_the_crop_lies_inside_the_image(position: tuple[float, float]) -> None:
    left, top, _ = Draw(None, False, None, None, None, False, position).crop_square((170, 300), 128)
    assert 0 <= left <= 300 - 128
    assert 0 <= top <= 170 - 128


def test_every_step_happens_as_often_as_the_paper_says() -> None:
    """App. E: 1/10, 1/10, 1/3, 1/3, 1/3, 1/2; five standard errors of 6000 draws."""
    generator = np.random.default_rng(1)
    drawn = [draw(AUGMENTATION, generator) for _ in range(6000)]
    shares = {
        1 / 10: [
            sum(choice.blur_sigma is not None for choice in drawn),
            sum(choice.sharpen for choice in drawn),
        ],
        1 / 3: [
            sum(amount is not None for amount in amounts)
            for amounts in zip(*[(choice.rotation, choice.corners, choice.shear) for choice in drawn], strict=True)
        ],
        1 / 2: [sum(choice.flip for choice in drawn)],
    }
    for probability, counts in shares.items():
        error = 5 * (6000 * probability * (1 - probability)) ** 0.5
        assert counts == pytest.approx([6000 * probability] * len(counts), abs=error)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("blur_sigma", 0.1, 5.0), ("rotation", -15.0, 15.0), ("shear", -10.0, 10.0)]
)
def test_amounts_fill_the_papers_range_and_stay_in_it(name: str, low: float, high: float) -> None:
    generator = np.random.default_rng(2)
    drawn = [getattr(draw(AUGMENTATION, generator), name) for _ in range(6000)]
    amounts = [amount for amount in drawn if amount is not None]
    assert low <= min(amounts) < low + 0.02 * (high - low)
    assert high - 0.02 * (high - low) < max(amounts) <= high


def test_corners_move_as_far_as_torchvisions() -> None:
    generator = np.random.default_rng(3)
    drawn = [draw(AUGMENTATION, generator).corners for _ in range(3000)]
    ours = np.abs([corners for corners in drawn if corners is not None])
    torch.manual_seed(0)
    theirs = v2.RandomPerspective(0.2)
    image = torch.zeros(3, 1000, 1000)
    moves = []
    for _ in range(1000):
        coefficients = theirs.make_params([image])["coefficients"]
        back = np.append(coefficients, 1.0).reshape(3, 3)  # torchvision keeps the way back
        there = np.linalg.inv(back) @ np.array([[0, 0, 1], [999, 0, 1], [999, 999, 1], [0, 999, 1]]).T
        moved = (there[:2] / there[2]).T
        moves.append(np.abs(moved - [[0, 0], [999, 0], [999, 999], [0, 999]]) / 1000)
    assert ours.mean() == pytest.approx(np.mean(moves), rel=0.05)
    assert ours.max() == pytest.approx(np.max(moves), rel=0.05)


def test_the_stock_pipeline_has_the_papers_steps_in_the_papers_order() -> None:
    steps = stock_pipeline(Preprocessing(), AUGMENTATION).transforms
    inner = [step.transforms[0] if isinstance(step, v2.RandomApply) else step for step in steps]
    assert [type(step).__name__ for step in inner if not isinstance(step, v2.ToImage | v2.ToDtype)] == [
        "Resize",
        "GaussianBlur",
        "RandomAdjustSharpness",
        "RandomRotation",
        "RandomPerspective",
        "RandomAffine",
        "RandomHorizontalFlip",
        "RandomCrop",
        "Resize",
        "Normalize",
    ]


def test_the_defaults_are_the_papers() -> None:
    assert Augmentation() == Augmentation(16, 0.1, 5, (0.1, 5.0), 0.1, 1.5, 1 / 3, 15.0, 1 / 3, 0.2, 1 / 3, 10.0, 0.5)
    assert Preprocessing() == Preprocessing(510, 384, 224, (0.4862, 0.5005, 0.4334), (0.2321, 0.2277, 0.2665))


def test_a_view_depends_on_seed_epoch_and_number_alone() -> None:
    first = draw(AUGMENTATION, view_generator(1, 2, 3))
    np.random.default_rng(0).random(100)
    torch.rand(100)
    assert draw(AUGMENTATION, view_generator(1, 2, 3)) == first
    others = [
        view_generator(2, 2, 3),
        view_generator(1, 3, 3),
        view_generator(1, 2, 4),
        view_generator(3, 2, 1),
    ]
    assert all(draw(AUGMENTATION, other) != first for other in others)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shortest_side": 100}, "does not fit"),
        ({"size": 0}, "positive"),
        ({"std": (0.1, 0.0, 0.1)}, "one colour"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Preprocessing(), **changes)  # type: ignore[arg-type]

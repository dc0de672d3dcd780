"""Judging against answers that were written down, and the interval against published values."""

from dataclasses import dataclass
from math import exp, isfinite, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pixpnet.data import Batch
from pixpnet.training import evaluate
from pixpnet.training.evaluation import evaluating, evaluation_of, shard, wilson
from tests.training.material import batches_of

# The true class of each image and the logits it gets; three classes, the last without images.
TABLE = [
    (0, [2.0, 1.0, 0.0]),  # right
    (0, [0.0, 1.0, 0.0]),  # taken for 1
    (1, [0.0, 3.0, 0.0]),  # right
    (0, [1.0, 0.0, 0.0]),  # right
    (1, [0.0, 0.0, 1.0]),  # taken for 2
]


@dataclass(frozen=True)
class Answer:
    logits: Tensor


class Known(nn.Module):
    """Answers by the number in an image's first pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.modes: list[bool] = []

    def forward(self, images: Tensor) -> Answer:
        self.modes += [self.training, self.dropout.training, torch.is_grad_enabled()]
        numbers = images[:, 0, 0, 0].long().tolist()
        return Answer(torch.tensor([TABLE[number][1] for number in numbers]))


def numbered(size: int) -> list[Batch]:
    images = torch.arange(5.0)[:, None, None, None].expand(5, 3, 2, 2)
    return batches_of(images, [label for label, _ in TABLE], list("abcde"), size)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_known_logits_give_known_figures_whatever_the_batches(size: int) -> None:
    result = evaluate(Known(), 3, numbered(size))
    assert result.accuracy == 3 / 5
    assert result.images == 5
    assert result.class_accuracy == (2 / 3, 1 / 2, None)
    assert list(result.confusion) == [(2, 1, 0), (0, 1, 1), (0, 0, 0)]
    # Each image counts once, also those of a smaller last batch.
    losses = [log(sum(map(exp, logits))) - logits[label] for label, logits in TABLE]
    assert result.loss == pytest.approx(sum(losses) / 5, abs=1e-6)


def test_judging_is_done_in_eval_mode_without_gradients_and_modes_come_back() -> None:
    model = Known().train()
    model.dropout.eval()
    told: list[tuple[int, int]] = []
    evaluate(model, 3, numbered(2), progress=lambda _, done, total: told.append((done, total)))
    assert set(model.modes) == {False}
    assert (model.training, model.dropout.training) == (True, False)
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_modes_come_back_after_an_error() -> None:
    model = Known().train()
    with pytest.raises(OSError, match="gone"), evaluating(model):
        assert not model.training
        raise OSError("gone")
    assert model.training
    assert model.dropout.training
    assert torch.is_grad_enabled()


def test_a_loss_that_is_no_number_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [*TABLE[:3], (0, [float("nan")] * 3), TABLE[4]]
    monkeypatch.setitem(globals(), "TABLE", broken)
    assert not isfinite(evaluate(Known(), 3, numbered(2)).loss)


def test_no_images_is_an_error() -> None:
    with pytest.raises(ValueError, match="no images"):
        evaluation_of([[0, 0], [0, 0]], 0.0)


@pytest.mark.parametrize(
    ("right", "images", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_the_published_one(right: int, images: int, low: float, high: float) -> None:
    result = wilson(right, images)
    assert (round(result.low, 4), round(result.high, 4)) == (low, high)


@given(st.integers(1, 400), st.data())
def test_the_interval_holds_the_share_and_mirrors(images: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, images))
    result, mirrored = wilson(right, images), wilson(images - right, images)
    assert 0 <= result.low <= right / images <= result.high <= 1
    assert result.low == pytest.approx(1 - mirrored.high, abs=1e-9)


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 5))
def test_dealing_gives_every_batch_to_exactly_one_process(items: int, size: int, world_size: int) -> None:
    batches = [tuple(range(items))[start : start + size] for start in range(0, items, size)]
    dealt = []
    for rank in range(world_size):
        share = shard(range(items), size, rank, world_size)
        mine = [tuple(share[start : start + size]) for start in range(0, len(share), size)]
        assert mine == batches[rank::world_size]
        dealt += mine
    assert sorted(dealt) == sorted(batches)

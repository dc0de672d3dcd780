"""Mixup: images and their names are mixed in one proportion."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.parts import ClassSum, OneClassEach, Parts, Step
from pixpnet.parts.losses import cross_entropy
from pixpnet.parts.mixup import mixup


def numbered(batch: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Images that are the number of the image everywhere."""
    return torch.arange(batch).double().reshape(batch, *(1 for _ in shape)).expand(batch, *shape).contiguous()


@given(st.integers(0, 10_000), st.integers(1, 6), st.floats(0.1, 2.0), st.sampled_from([(3, 2, 2), (5,), (2, 2, 3, 2)]))
def test_images_and_names_are_mixed_in_the_same_proportion(
    seed: int, batch: int, alpha: float, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(seed)
    # Class n is that of image n, so that targets say which images were mixed and how.
    result = mixup(numbered(batch, shape), torch.arange(batch), batch, alpha)
    assert result.images.shape == (batch, *shape)
    np.testing.assert_allclose(result.targets.sum(dim=1).numpy(), np.ones(batch), rtol=1e-6)
    assert (result.targets >= 0).all()
    expected = result.targets.double() @ torch.arange(batch).double()
    np.testing.assert_allclose(result.images.reshape(batch, -1)[:, 0].numpy(), expected.numpy(), atol=1e-5)
    shares = [float(result.targets[n, n]) for n in range(batch)]
    moved = [share for n, share in enumerate(shares) if share < 1 - 1e-6]
    assert max(moved, default=0.0) - min(moved, default=0.0) < 1e-6  # one proportion for all


def test_the_proportion_is_drawn_from_a_beta_distribution() -> None:
    torch.manual_seed(0)
    shares = []
    for _ in range(4000):
        targets = mixup(torch.zeros(2, 1), torch.tensor([0, 1]), 2, alpha=0.5).targets
        if targets[0, 0] < 1:  # half of the time each image is its own partner
            shares.append(float(targets[0, 0]))
    # Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)).
    assert np.mean(shares) == pytest.approx(0.5, abs=0.03)
    assert np.var(shares) == pytest.approx(1 / 8, abs=0.01)


def test_the_same_seed_mixes_the_same() -> None:
    images, labels = torch.rand(4, 3, 2, 2), torch.tensor([0, 1, 2, 0])
    torch.manual_seed(3)
    first = mixup(images, labels, 3, 0.5)
    torch.manual_seed(3)
    second = mixup(images, labels, 3, 0.5)
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.targets, second.targets)


@given(st.integers(0, 10_000), st.floats(0.0, 1.0))
def test_the_cross_entropy_of_mixed_images_is_mixed_as_they_are(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    logits, one, other = rng.normal(size=(4, 3)), rng.integers(0, 3, 4), rng.integers(0, 3, 4)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = -np.mean([share * logs[n, one[n]] + (1 - share) * logs[n, other[n]] for n in range(4)])
    targets = share * np.eye(3)[one] + (1 - share) * np.eye(3)[other]
    ownership = OneClassEach(torch.arange(3), 3)
    parts = Parts((), (), ownership, ClassSum(ownership))
    step = Step(torch.from_numpy(logits), torch.from_numpy(one), parts, targets=torch.from_numpy(targets))
    assert float(cross_entropy(step)) == pytest.approx(expected)

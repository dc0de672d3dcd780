"""Loss terms of feedback, against NumPy."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.parts.feedback import PatchDistances, forget_loss, remember_loss


def by_numpy(distances: np.ndarray, counted: np.ndarray, chosen: np.ndarray, epsilon: float) -> float:
    sums = []
    for row in np.flatnonzero(chosen):
        alike = 0.0
        for prototype in np.flatnonzero(counted[row]):
            m = float(distances[row, prototype])
            alike += np.log((m + 1) / (m + epsilon))
        sums.append(alike)
    return float(np.mean(sums)) if sums else 0.0


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 5))
def test_forgetting_and_remembering_are_what_numpy_says(seed: int, patches: int, prototypes: int) -> None:
    generator = np.random.default_rng(seed)
    distances = generator.uniform(0, 3, (patches, prototypes))
    counted, forbidden = generator.random((patches, prototypes)) < 0.6, generator.random(patches) < 0.5
    distances[~counted & (generator.random((patches, prototypes)) < 0.5)] = np.inf  # no cell of that grid sees it
    given_patches = PatchDistances(*map(torch.from_numpy, (distances, counted, forbidden)))
    expected = by_numpy(distances, counted, forbidden, 1e-8)
    assert np.isclose(float(forget_loss(given_patches)), expected)
    assert np.isclose(float(remember_loss(given_patches)), -by_numpy(distances, counted, ~forbidden, 1e-4))


def test_gradients_push_prototypes_from_forbidden_patches_and_pull_them_to_remembered_ones() -> None:
    distances = torch.tensor([[0.3, torch.inf], [0.2, 0.4]], requires_grad=True)
    counted = torch.tensor([[True, False], [True, True]])
    patches = PatchDistances(distances, counted, torch.tensor([True, False]))
    (forget,) = torch.autograd.grad(forget_loss(patches), distances)
    (remember,) = torch.autograd.grad(remember_loss(patches), distances)
    m = 0.3
    assert np.isclose(float(forget[0, 0]), 1 / (m + 1) - 1 / (m + 1e-8), rtol=1e-5)
    assert torch.equal(forget[1], torch.zeros(2)) and float(forget[0, 1]) == 0
    assert (remember[1] > 0).all() and torch.equal(remember[0], torch.zeros(2))

"""The linear classifiers of a probe are at the minimum of what they minimise."""

import torch
from torch.nn import functional as F

from pixpnet.goldilocks.logistic import DECAYS, fit, fit_and_choose


def clouds(images: int = 60, features: int = 5, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(images) % classes
    centers = 2 * torch.randn(classes, features, generator=generator)
    return centers[labels] + 1.5 * torch.randn(images, features, generator=generator) + 7, labels


def test_the_gradient_vanishes_at_every_decay() -> None:
    features, labels = clouds()
    for decay, model in zip(DECAYS, fit(features, labels, 3, DECAYS), strict=True):
        weight, bias = model.weight.double().requires_grad_(), model.bias.double().requires_grad_()
        standard = ((features - features.mean(0)) / features.std(0, unbiased=False)).double()
        loss = F.cross_entropy(F.linear(standard, weight, bias), labels) + decay / 2 * weight.square().sum()
        gradients = torch.autograd.grad(loss, (weight, bias))
        assert max(gradient.abs().max() for gradient in gradients) < 2e-3


def test_scale_and_place_of_features_do_not_matter_and_one_that_never_varies_does_no_harm() -> None:
    features, labels = clouds()
    other = torch.cat([features * torch.tensor([1.0, 1e3, 1e-3, 1.0, 7.0]) - 4, torch.full((60, 1), 3.0)], dim=1)
    (plain,), (scaled,) = fit(features, labels, 3, [0.01]), fit(other, labels, 3, [0.01])
    torch.testing.assert_close(plain.logits(features), scaled.logits(other), rtol=1e-2, atol=1e-2)


def test_the_decay_is_chosen_on_what_was_held_out() -> None:
    features, labels = clouds()
    noise = torch.randn(60, 200, generator=torch.Generator().manual_seed(1))
    held_out = torch.arange(60) % 5 == 0
    # With 200 features of noise and 48 images, hardly any decay is a bad choice, and the choice shows it.
    chosen = fit_and_choose(torch.cat([features, noise], dim=1), labels, held_out, 3)
    weakest = fit(torch.cat([features, noise], dim=1), labels, 3, DECAYS)[-1]
    assert chosen.weight.norm() < weakest.weight.norm() / 2
    nothing = torch.zeros(60, dtype=torch.bool)
    assert fit_and_choose(features, labels, nothing, 3).weight.isfinite().all()

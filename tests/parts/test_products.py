"""Scalar products of many prototypes: the routine that is chosen gives what NumPy gives, and gradients."""

import numpy as np
import pytest
import torch

from pixpnet.parts import products
from pixpnet.parts.products import all_products


@pytest.mark.parametrize("protos", [8, products._MANY])
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_products_are_those_of_every_cell_with_every_prototype(batch: int, protos: int) -> None:
    generator = torch.Generator().manual_seed(0)
    patches = torch.randn(batch, 7, 3, 2, generator=generator)
    prototypes = torch.randn(protos, 7, 1, 1, generator=generator)
    expected = np.einsum("bdrc,pd->bprc", patches.double().numpy(), prototypes.double().numpy()[..., 0, 0])
    np.testing.assert_allclose(all_products(patches, prototypes).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_many_prototypes_get_the_gradients_of_a_convolution() -> None:
    generator = torch.Generator().manual_seed(0)
    patches = torch.randn(2, 5, 3, 3, generator=generator, requires_grad=True)
    prototypes = torch.randn(products._MANY, 5, 1, 1, generator=generator, requires_grad=True)
    weights = torch.randn(2, products._MANY, 3, 3, generator=generator)
    both = [
        torch.autograd.grad((function(patches, prototypes) * weights).sum(), (patches, prototypes))
        for function in (all_products, torch.nn.functional.conv2d)
    ]
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN")
def test_onednn_is_left_out_where_it_is_switched_off_or_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> torch.Tensor:
        raise AssertionError("oneDNN was asked")

    monkeypatch.setattr(torch, "mkldnn_convolution", refuse)
    patches, prototypes = torch.rand(1, 3, 2, 2), torch.rand(products._MANY, 3, 1, 1)
    with pytest.raises(AssertionError, match="oneDNN was asked"):
        all_products(patches, prototypes)
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        all_products(patches, prototypes)
    all_products(patches.double(), prototypes.double())
    all_products(patches, prototypes[:-1])
    all_products(torch.rand(1, 3, 2, 2), torch.rand(products._MANY, 3, 2, 2))
    exported = torch.export.export(Products(), (patches, prototypes))
    assert "mkldnn" not in str(exported.graph)


class Products(torch.nn.Module):
    """The function as a module."""

    def forward(self, patches: torch.Tensor, prototypes: torch.Tensor) -> torch.Tensor:
        """See `all_products`."""
        return all_products(patches, prototypes)
